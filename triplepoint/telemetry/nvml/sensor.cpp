// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/sensor.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/gaps.h"
#include "triplepoint/telemetry/nvml/gpu.h"

namespace triplepoint::telemetry::nvml {
namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t longest_wait_ns = 60 * second_ns;

class NvmlSensor final : public Sensor {
 public:
  NvmlSensor(std::unique_ptr<Driver> driver, std::vector<Listed> listed, bool gpm)
      : driver_(std::move(driver)), reader_(*driver_, channels_, clock_, troubles_) {
    GapList gaps;
    for (Listed& found : listed) {
      found.device.index = static_cast<int32_t>(devices_.size());
      devices_.push_back(found.device);
      std::vector<Missing> missing;
      gpus_.push_back({open_gpu(*driver_, found.handle, found.device, gpm, channels_, missing)});
      for (Missing& one : missing)
        gaps.add({std::move(one.what), std::move(one.why), std::move(one.remedy)},
                 found.device.local);
    }
    gaps_ = gaps.gaps();
  }

  std::string_view name() const override { return "nvml"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<Reading>& readings) override {
    for (State& state : gpus_) {
      if (state.lost_ns != 0 && !recover(state)) continue;
      const int code = reader_.read(state.gpu, slow, readings);
      if (is_loss(code)) lose(state, code);
    }
  }

  std::vector<std::string> take_troubles() override { return std::exchange(troubles_, {}); }

 private:
  struct State {
    Gpu gpu;
    int64_t lost_ns = 0;  // since when; 0: it is there
    int64_t next_try_ns = 0, wait_ns = second_ns;
  };

  void lose(State& state, int code) {
    const int64_t now = monotonic_now_ns();
    if (state.lost_ns == 0) {
      state.lost_ns = now;
      state.wait_ns = second_ns;
      troubles_.push_back(fmt::format("GPU {} ({}) is gone: {}; it is asked for again",
                                      state.gpu.device.local, state.gpu.device.pci,
                                      driver_->words(code)));
    }
    state.next_try_ns = now + state.wait_ns;
  }

  /// Whether the GPU is there again.
  bool recover(State& state) {
    const int64_t now = monotonic_now_ns();
    if (now < state.next_try_ns) return false;
    Handle handle = nullptr;
    int code = find(state.gpu, handle);
    if (code == Code::uninitialized && restart()) code = find(state.gpu, handle);
    if (code == Code::success) code = answers(handle);
    if (code != Code::success) {
      state.wait_ns = std::min(2 * state.wait_ns, longest_wait_ns);
      state.next_try_ns = now + state.wait_ns;
      return false;
    }
    resume(state.gpu, handle);
    troubles_.push_back(fmt::format("GPU {} is back after {:.1f} s", state.gpu.device.local,
                                    static_cast<double>(now - state.lost_ns) * 1e-9));
    state.lost_ns = 0;
    return true;
  }

  int find(const Gpu& gpu, Handle& handle) const {
    const Api& api = driver_->api();
    if (api.by_uuid != nullptr && !gpu.device.uuid.empty())
      return api.by_uuid(gpu.device.uuid.c_str(), &handle);
    return api.by_index(static_cast<unsigned>(gpu.device.local), &handle);
  }

  int answers(Handle handle) const {
    double degrees = 0;
    Utilization unused;
    return call_value(driver_->api(), handle, CallKind::die_temperature, degrees, unused);
  }

  /// The driver was reset: every handle is void, those of the GPUs that look well too.
  bool restart() {
    if (driver_->restart() != Code::success) return false;
    for (State& other : gpus_) {
      Handle handle = nullptr;
      if (other.lost_ns == 0 && find(other.gpu, handle) == Code::success) resume(other.gpu, handle);
    }
    return true;
  }

  std::unique_ptr<Driver> driver_;
  UnixTime clock_;
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
  std::vector<std::string> troubles_;
  GpuReader reader_;
  std::vector<State> gpus_;
};

std::string text_of(int (*function)(Handle, char*, unsigned), Handle handle) {
  std::array<char, 128> text{};
  if (function == nullptr || function(handle, text.data(), text.size() - 1) != Code::success)
    return "";
  return text.data();
}

}  // namespace

std::string plain_pci(std::string_view bus_id) {
  std::string plain = lower_case(bus_id);
  // NVML writes the domain with eight digits, the kernel with four unless it needs more.
  if (plain.size() == 16 && plain.starts_with("0000")) plain.erase(0, 4);
  return plain;
}

std::vector<Listed> list_devices(const Driver& driver, std::vector<Gap>* gaps) {
  const Api& api = driver.api();
  unsigned count = 0;
  if (api.count(&count) != Code::success) return {};
  std::vector<Listed> listed;
  for (unsigned i = 0; i < count; ++i) {
    Listed found;
    if (const int code = api.by_index(i, &found.handle); code != Code::success) {
      if (gaps != nullptr)
        gaps->push_back({fmt::format("GPU {}", i), driver.words(code), "nvidia-smi --gpu-reset"});
      continue;
    }
    found.device.local = static_cast<int32_t>(i);
    found.device.name = text_of(api.name, found.handle);
    found.device.uuid = text_of(api.uuid, found.handle);
    PciInfo pci;
    if (api.pci != nullptr && api.pci(found.handle, &pci) == Code::success) {
      pci.bus_id[sizeof pci.bus_id - 1] = '\0';
      found.device.pci = plain_pci(pci.bus_id);
    }
    listed.push_back(std::move(found));
  }
  return listed;
}

std::unique_ptr<Sensor> make_sensor(std::unique_ptr<Driver> driver, std::vector<Listed> listed,
                                    bool gpm) {
  return std::make_unique<NvmlSensor>(std::move(driver), std::move(listed), gpm);
}

}  // namespace triplepoint::telemetry::nvml
