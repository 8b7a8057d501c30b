// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/sensor.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/nvml/gpu.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::nvml {
namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t longest_wait_ns = 60 * second_ns;

/// XID errors of one GPU since it was opened, as the driver reports them.
class XidErrors {
 public:
  explicit XidErrors(const Api& api) : api_(api) {}
  XidErrors(const XidErrors&) = delete;
  XidErrors(XidErrors&& other) noexcept
      : api_(other.api_),
        set_(std::exchange(other.set_, nullptr)),
        first_channel_(other.first_channel_) {}
  XidErrors& operator=(const XidErrors&) = delete;
  XidErrors& operator=(XidErrors&&) = delete;
  ~XidErrors() { forget(); }

  /// Also after a loss, with the new handle.
  void watch(Handle handle) {
    forget();
    if (api_.event_wait == nullptr || api_.register_events == nullptr ||
        api_.event_set_create == nullptr || api_.event_set_free == nullptr)
      return;
    if (api_.event_set_create(&set_) != Code::success) set_ = nullptr;
    if (set_ != nullptr && api_.register_events(handle, xid_event, set_) != Code::success) forget();
  }
  void open(Handle handle, int32_t device, std::vector<Channel>& channels) {
    watch(handle);
    if (set_ == nullptr) return;
    first_channel_ = static_cast<int32_t>(channels.size());
    for (const auto& [signal, kind] : {std::pair("xid_errors", run::ReadingKind::counter),
                                       std::pair("xid", run::ReadingKind::instant)})
      channels.push_back({.about = {.signal = signal,
                                    .device = device,
                                    .kind = kind,
                                    .sensor = "nvmlEventSetWait",
                                    .period = {},
                                    .window = {}},
                          .pace = Pace::slow});
  }
  /// Of a lost GPU only what is new: readings say that it answers.
  void read(bool lost, std::vector<Reading>& readings) {
    if (set_ == nullptr) return;
    EventData event;
    const double before = count_;
    constexpr int most = 64;  // a broken driver shall not hold us
    for (int i = 0; i < most && api_.event_wait(set_, &event, 0) == Code::success; ++i)
      if (event.type == xid_event) count_ += 1, last_ = static_cast<double>(event.data);
    if (lost && count_ == before) return;
    const int64_t now = monotonic_now_ns();
    readings.push_back({first_channel_, now, count_});
    readings.push_back({first_channel_ + 1, now, last_});
  }

 private:
  void forget() {
    if (set_ != nullptr) api_.event_set_free(set_);
    set_ = nullptr;
  }

  const Api& api_;
  void* set_ = nullptr;
  int32_t first_channel_ = 0;
  double count_ = 0, last_ = 0;
};

class NvmlSensor final : public Sensor {
 public:
  NvmlSensor(std::shared_ptr<Driver> driver, std::vector<Listed> listed, bool gpm, GapList& gaps)
      : driver_(std::move(driver)),
        generation_(driver_->generation()),
        reader_(*driver_, channels_, clock_, troubles_) {
    for (Listed& found : listed) {
      found.device.index = static_cast<int32_t>(devices_.size());
      devices_.push_back(found.device);
      std::vector<Missing> missing;
      gpus_.push_back({open_gpu(*driver_, found.handle, found.device, gpm, channels_, missing),
                       XidErrors(driver_->api())});
      gpus_.back().xids.open(found.handle, found.device.index, channels_);
      for (Missing& one : missing)
        gaps.add({std::move(one.what), std::move(one.why), std::move(one.remedy)},
                 found.device.local);
    }
  }
  void keep_gaps(std::vector<Gap> gaps) { gaps_ = std::move(gaps); }

  std::string_view name() const override { return "nvml"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<Reading>& readings) override {
    follow_restart();
    for (State& state : gpus_) {
      if (slow) state.xids.read(state.lost_ns != 0, readings);
      if (state.lost_ns != 0 && !recover(state)) continue;
      const int code = reader_.read(state.gpu, slow, readings);
      if (is_loss(code)) lose(state, code);
    }
  }

  std::vector<std::string> take_troubles() override { return std::exchange(troubles_, {}); }

  std::vector<DeviceProcess> processes() override {
    std::vector<DeviceProcess> all;
    for (const State& state : gpus_) {
      if (driver_->api().processes == nullptr || state.lost_ns != 0) continue;
      std::array<ProcessInfo, 256> found;
      auto count = static_cast<unsigned>(found.size());
      if (driver_->api().processes(state.gpu.handle, &count, found.data()) != Code::success)
        continue;
      for (unsigned i = 0; i < std::min<unsigned>(count, found.size()); ++i)
        all.push_back({.device = state.gpu.device.index, .pid = found.at(i).pid});
    }
    return all;
  }

 private:
  struct State {
    Gpu gpu;
    XidErrors xids;
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
    state.xids.watch(handle);
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
    if (driver_->restart(generation_) != Code::success) return false;
    follow_restart();
    return true;
  }

  /// This sensor, or one that shares the driver, has restarted it.
  void follow_restart() {
    const int64_t generation = driver_->generation();
    if (std::exchange(generation_, generation) == generation) return;
    for (State& other : gpus_) {
      Handle handle = nullptr;
      if (other.lost_ns != 0 || find(other.gpu, handle) != Code::success) continue;
      resume(other.gpu, handle);
      other.xids.watch(handle);
    }
  }

  std::shared_ptr<Driver> driver_;
  int64_t generation_ = 0;
  UnixTime clock_;
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;
  std::vector<std::string> troubles_;
  GpuReader reader_;
  std::vector<State> gpus_;
};

std::string driver_text(int (*function)(Handle, char*, unsigned), Handle handle) {
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

int32_t num_devices(const Driver& driver) {
  unsigned count = 0;
  return driver.api().count(&count) == Code::success ? static_cast<int32_t>(count) : 0;
}

std::optional<Listed> list_device(const Driver& driver, int32_t number, std::vector<Gap>& gaps) {
  const Api& api = driver.api();
  Listed found;
  if (const int code = api.by_index(static_cast<unsigned>(number), &found.handle);
      code != Code::success) {
    gaps.push_back({fmt::format("GPU {}", number), driver.words(code), "nvidia-smi --gpu-reset"});
    return std::nullopt;
  }
  found.device.local = number;
  found.device.name = driver_text(api.name, found.handle);
  found.device.uuid = driver_text(api.uuid, found.handle);
  PciInfo pci;
  if (api.pci != nullptr && api.pci(found.handle, &pci) == Code::success) {
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    found.device.pci = plain_pci(pci.bus_id);
  }
  return found;
}

std::vector<Listed> list_devices(const Driver& driver, std::vector<Gap>* gaps) {
  std::vector<Listed> listed;
  std::vector<Gap> missing;
  const int32_t count = num_devices(driver);
  for (int32_t i = 0; i < count; ++i)
    if (auto found = list_device(driver, i, missing)) listed.push_back(*std::move(found));
  if (gaps != nullptr) gaps->insert(gaps->end(), missing.begin(), missing.end());
  return listed;
}

std::unique_ptr<Sensor> make_sensor(std::shared_ptr<Driver> driver, std::vector<Listed> listed,
                                    bool gpm, GapList* missing) {
  GapList own;
  auto sensor = std::make_unique<NvmlSensor>(std::move(driver), std::move(listed), gpm,
                                             missing != nullptr ? *missing : own);
  sensor->keep_gaps(own.gaps());
  return sensor;
}

namespace {

constexpr uint32_t link_speed = 164;  // field, MB/s of one link; the scope is the link

struct ArchitectureName {
  unsigned number;
  const char* name;
};
constexpr std::array<ArchitectureName, 10> architecture_names = {{{2, "kepler"},
                                                                  {3, "maxwell"},
                                                                  {4, "pascal"},
                                                                  {5, "volta"},
                                                                  {6, "turing"},
                                                                  {7, "ampere"},
                                                                  {8, "ada"},
                                                                  {9, "hopper"},
                                                                  {10, "blackwell"},
                                                                  {13, "rubin"}}};

std::optional<unsigned> driver_number(int (*function)(Handle, unsigned*), Handle handle) {
  unsigned raw = 0;
  if (function == nullptr || function(handle, &raw) != Code::success || is_sentinel(raw, 32))
    return std::nullopt;
  return raw;
}

std::optional<unsigned> driver_number(int (*function)(Handle, unsigned, unsigned*), Handle handle,
                                      unsigned which) {
  unsigned raw = 0;
  if (function == nullptr || function(handle, which, &raw) != Code::success || is_sentinel(raw, 32))
    return std::nullopt;
  return raw;
}

std::optional<int32_t> small_number(int (*function)(Handle, unsigned*), Handle handle) {
  const auto raw = driver_number(function, handle);
  return raw ? std::optional(static_cast<int32_t>(*raw)) : std::nullopt;
}

std::optional<bool> on(int (*function)(Handle, unsigned*, unsigned*), Handle handle) {
  unsigned current = 0, pending = 0;
  if (function == nullptr || function(handle, &current, &pending) != Code::success)
    return std::nullopt;
  return current != 0;
}

std::optional<Watts> watts(std::optional<unsigned> milliwatts) {
  return milliwatts ? std::optional(*milliwatts * unit::mW) : std::nullopt;
}
std::optional<Hertz> megahertz(std::optional<unsigned> raw) {
  return raw ? std::optional(*raw * unit::MHz) : std::nullopt;
}
std::optional<Celsius> celsius(std::optional<unsigned> raw) {
  return raw && *raw > 0 && *raw < 250 ? std::optional(Celsius(*raw)) : std::nullopt;
}

void power_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  facts.power_limit = watts(driver_number(api.power_limit, handle));
  facts.power_limit_default = watts(driver_number(api.power_limit_default, handle));
  unsigned low = 0, high = 0;
  if (api.power_limit_range == nullptr ||
      api.power_limit_range(handle, &low, &high) != Code::success)
    return;
  facts.power_limit_min = low * unit::mW;
  facts.power_limit_max = high * unit::mW;
}

void limit_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  facts.shutdown = celsius(driver_number(api.threshold, handle, Threshold::shutdown));
  facts.slowdown = celsius(driver_number(api.threshold, handle, Threshold::slowdown));
  facts.memory_max = celsius(driver_number(api.threshold, handle, Threshold::memory_max));
  facts.target = celsius(driver_number(api.threshold, handle, Threshold::gpu_max));
  facts.max_sm_clock = megahertz(driver_number(api.max_clock, handle, Clock::sm));
  facts.max_memory_clock = megahertz(driver_number(api.max_clock, handle, Clock::memory));
  Memory memory;
  if (api.memory != nullptr && api.memory(handle, &memory) == Code::success)
    facts.memory = static_cast<double>(memory.total) * unit::B;
}

/// What is at the other end of a link. Remote device types: 0 GPU, 2 switch.
LinkFacts link_at(const Api& api, Handle handle, unsigned link) {
  LinkFacts facts{.kind = LinkKind::nvlink, .remote_pci = "", .count = 1, .bandwidth = {}};
  PciInfo remote;
  constexpr unsigned is_switch = 2;
  if (driver_number(api.link_remote_type, handle, link) == is_switch)
    facts.kind = LinkKind::nvswitch;
  else if (api.link_remote_pci != nullptr &&
           api.link_remote_pci(handle, link, &remote) == Code::success) {
    remote.bus_id[sizeof remote.bus_id - 1] = '\0';
    facts.remote_pci = plain_pci(remote.bus_id);
  }
  FieldValue speed{.field = link_speed, .scope = link};
  if (api.field_values != nullptr && api.field_values(handle, 1, &speed) == Code::success &&
      speed.code == Code::success && speed.value.u32 > 0 && !is_sentinel(speed.value.u32, 32))
    facts.bandwidth = speed.value.u32 * (unit::MB / unit::s);
  return facts;
}

void link_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  for (unsigned link = 0; link < most_links; ++link) {
    if (driver_number(api.link_state, handle, link) != 1U) continue;
    const LinkFacts one = link_at(api, handle, link);
    const auto same = std::find_if(facts.links.begin(), facts.links.end(), [&](const auto& other) {
      return other.kind == one.kind && other.remote_pci == one.remote_pci;
    });
    if (same == facts.links.end()) {
      facts.links.push_back(one);
      continue;
    }
    ++same->count;
    if (same->bandwidth && one.bandwidth) same->bandwidth = *same->bandwidth + *one.bandwidth;
  }
}

std::string architecture_name(const Api& api, Handle handle) {
  const auto raw = driver_number(api.architecture, handle);
  for (const auto& [number, name] : architecture_names)
    if (raw == number) return name;
  return raw ? fmt::format("nvidia architecture {}", *raw) : "";
}

}  // namespace

DeviceFacts device_facts(const Driver& driver, const Listed& listed) {
  const Api& api = driver.api();
  const Handle handle = listed.handle;
  DeviceFacts facts;
  facts.device = listed.device;
  facts.vendor = "nvidia";
  facts.architecture = architecture_name(api, handle);
  std::array<char, 64> serial{};
  if (api.serial != nullptr &&
      api.serial(handle, serial.data(), serial.size() - 1) == Code::success)
    facts.board = serial.data();
  power_facts(api, handle, facts);
  limit_facts(api, handle, facts);
  facts.pcie_generation = small_number(api.pcie_generation, handle);
  facts.pcie_width = small_number(api.pcie_width, handle);
  facts.pcie_generation_max = small_number(api.pcie_generation_max, handle);
  facts.pcie_width_max = small_number(api.pcie_width_max, handle);
  link_facts(api, handle, facts);
  facts.mig = on(api.mig_mode, handle);
  facts.ecc = on(api.ecc, handle);
  if (const auto persistence = driver_number(api.persistence, handle))
    facts.persistence = *persistence != 0;
  return facts;
}

void driver_facts(const Driver& driver, NodeFacts& node) {
  std::array<char, 96> text{};
  const Api& api = driver.api();
  if (api.driver_version != nullptr &&
      api.driver_version(text.data(), text.size() - 1) == Code::success)
    node.nvidia_driver = text.data();
  int cuda = 0;
  if (api.cuda_version != nullptr && api.cuda_version(&cuda) == Code::success)
    node.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

}  // namespace triplepoint::telemetry::nvml
