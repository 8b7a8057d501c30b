// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/sensor.h"

#include <algorithm>
#include <array>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/nvml/gpu.h"

namespace triplepoint::telemetry::nvml {
namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t longest_wait_ns = 60 * second_ns;

/// XID errors of one GPU since it was opened, as the driver reports them.
class XidErrors {
 public:
  explicit XidErrors(const Api& api) : api_(api) {}
  XidErrors(const XidErrors&) = delete;
  XidErrors& operator=(const XidErrors&) = delete;
  ~XidErrors() { forget(); }

  /// Also after a loss, with the new handle.
  void watch(Handle handle) {
    forget();
    if (!api_.event_wait || !api_.register_events || !api_.event_set_free) return;
    if (api_.event_set_create(&set_) != Code::success) set_ = nullptr;
    if (set_ != nullptr && api_.register_events(handle, xid_event, set_) != Code::success) forget();
  }
  void open(Handle handle, std::vector<Channel>& channels) {
    watch(handle);
    if (set_ == nullptr) return;
    first_channel_ = static_cast<int32_t>(channels.size());
    for (const auto& [signal, kind] : {std::pair("xid_errors", run::ReadingKind::counter),
                                       std::pair("xid", run::ReadingKind::instant)})
      channels.push_back({.about = {.signal = signal, .kind = kind, .sensor = "nvmlEventSetWait"},
                          .polling = Polling::slow});
  }
  /// Of a lost GPU only what is new: readings say that it answers.
  void read(bool lost, std::vector<Reading>& readings) {
    if (set_ == nullptr) return;
    EventData event;
    const double before = count_;
    constexpr int most = 64;  // a broken driver shall not hold us
    for (int i = 0; i < most && api_.event_wait(set_, &event, 0) == Code::success; ++i)
      if (event.type == xid_event) count_ += 1, last_ = as_real(event.data);
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
  NvmlSensor(std::shared_ptr<Driver> driver, const Listed& listed, bool gpm, GapList& missing)
      : driver_(std::move(driver)),
        generation_(driver_->generation()),
        devices_{listed.device},
        xids_(driver_->api()),
        reader_(*driver_, channels_, clock_, troubles_) {
    std::vector<Gap> lacks;
    gpu_ = open_gpu(*driver_, listed.handle, listed.device, gpm, channels_, lacks);
    xids_.open(listed.handle, channels_);
    for (Gap& gap : lacks)
      missing.add(std::move(gap), listed.device.local);
  }

  std::string_view name() const override { return "nvml"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<Reading>& readings) override {
    follow_restart();
    if (slow) xids_.read(lost_ns_ != 0, readings);
    if (lost_ns_ != 0 && !recover()) return;
    const int code = reader_.read(gpu_, slow, readings);
    if (is_loss(code)) lose(code);
  }

  std::vector<std::string> take_troubles() override { return std::exchange(troubles_, {}); }

  std::vector<DeviceProcess> processes() override {
    std::array<ProcessInfo, 256> found;
    auto count = static_cast<unsigned>(found.size());
    if (lost_ns_ != 0 ||
        driver_->api().processes(gpu_.handle, &count, found.data()) != Code::success)
      return {};
    std::vector<DeviceProcess> all;
    for (unsigned i = 0; i < std::min<unsigned>(count, found.size()); ++i)
      all.push_back({.device = 0, .pid = found.at(i).pid});
    return all;
  }

 private:
  void lose(int code) {
    lost_ns_ = monotonic_now_ns();
    wait_ns_ = second_ns;
    next_try_ns_ = lost_ns_ + wait_ns_;
    troubles_.push_back(fmt::format("GPU {} ({}) is gone: {}; it is asked for again",
                                    gpu_.device.local, gpu_.device.pci, driver_->words(code)));
  }

  /// Whether the GPU is there again.
  bool recover() {
    const int64_t now = monotonic_now_ns();
    if (now < next_try_ns_) return false;
    Handle handle = nullptr;
    int code = find(handle);
    // The driver was reset: every handle is void, those of GPUs that look well too.
    if (code == Code::uninitialized && driver_->restart(generation_) == Code::success) {
      generation_ = driver_->generation();
      code = find(handle);
    }
    if (code == Code::success) code = answers(handle);
    if (code != Code::success) {
      wait_ns_ = std::min(2 * wait_ns_, longest_wait_ns);
      next_try_ns_ = now + wait_ns_;
      return false;
    }
    go_on(handle);
    troubles_.push_back(fmt::format("GPU {} is back after {:.1f} s", gpu_.device.local,
                                    as_real(now - lost_ns_) * 1e-9));
    lost_ns_ = 0;
    return true;
  }

  int find(Handle& handle) const {
    const Api& api = driver_->api();
    if (api.by_uuid && !gpu_.device.uuid.empty())
      return api.by_uuid(gpu_.device.uuid.c_str(), &handle);
    return api.by_index(static_cast<unsigned>(gpu_.device.local), &handle);
  }

  int answers(Handle handle) const {
    double degrees = 0;
    Utilization unused;
    return call_value(driver_->api(), handle, CallKind::die_temperature, degrees, unused);
  }

  /// A sensor that shares the driver has restarted it.
  void follow_restart() {
    const int64_t generation = driver_->generation();
    if (std::exchange(generation_, generation) == generation) return;
    Handle handle = nullptr;
    if (lost_ns_ == 0 && find(handle) == Code::success) go_on(handle);
  }

  void go_on(Handle handle) {
    resume(gpu_, handle);
    xids_.watch(handle);
  }

  std::shared_ptr<Driver> driver_;
  int64_t generation_ = 0;
  UnixTime clock_;
  std::vector<run::Device> devices_;
  std::vector<Channel> channels_;
  std::vector<Gap> gaps_;  // none: they are said for all GPUs together
  std::vector<std::string> troubles_;
  Gpu gpu_;
  XidErrors xids_;
  GpuReader reader_;
  int64_t lost_ns_ = 0;  // since when; 0: it is there
  int64_t next_try_ns_ = 0, wait_ns_ = second_ns;
};

/// What a call with room for a text at its end says; "" for an error.
template <class Call, class... Args>
std::string text_from(const Call& call, Args... args) {
  std::array<char, 128> text{};
  const int code = call(args..., text.data(), static_cast<unsigned>(text.size() - 1));
  return code == Code::success ? text.data() : "";
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
  found.device.name = text_from(api.name, found.handle);
  found.device.uuid = text_from(api.uuid, found.handle);
  PciInfo pci;
  if (api.pci(found.handle, &pci) == Code::success) {
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    found.device.pci = plain_pci(pci.bus_id);
  }
  return found;
}

std::unique_ptr<Sensor> make_sensor(std::shared_ptr<Driver> driver, const Listed& listed, bool gpm,
                                    GapList& missing) {
  return std::make_unique<NvmlSensor>(std::move(driver), listed, gpm, missing);
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

/// What a call with one number at its end says.
template <class Call, class... Args>
std::optional<unsigned> number_from(const Call& call, Handle handle, Args... args) {
  double value = 0;
  if (ask(call, handle, value, 1, args...) != Code::success) return std::nullopt;
  return static_cast<unsigned>(value);
}

std::optional<int32_t> small_number(std::optional<unsigned> raw) {
  return raw ? std::optional(static_cast<int32_t>(*raw)) : std::nullopt;
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
  facts.power_limit = watts(number_from(api.power_limit, handle));
  facts.power_limit_default = watts(number_from(api.power_limit_default, handle));
  unsigned low = 0, high = 0;
  if (api.power_limit_range(handle, &low, &high) == Code::success)
    facts.power_limit_min = low * unit::mW;
}

void limit_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  facts.shutdown = celsius(number_from(api.threshold, handle, Threshold::shutdown));
  facts.slowdown = celsius(number_from(api.threshold, handle, Threshold::slowdown));
  facts.max_sm_clock = megahertz(number_from(api.max_clock, handle, Clock::sm));
  Memory memory;
  if (api.memory(handle, &memory) == Code::success) facts.memory = as_real(memory.total) * unit::B;
}

/// What is at the other end of a link. Remote device types: 0 GPU, 2 switch.
LinkFacts link_at(const Api& api, Handle handle, unsigned link) {
  LinkFacts facts{.kind = LinkKind::nvlink, .remote_pci = "", .count = 1};
  PciInfo remote;
  constexpr unsigned is_switch = 2;
  if (number_from(api.link_remote_type, handle, link) == is_switch)
    facts.kind = LinkKind::nvswitch;
  else if (api.link_remote_pci(handle, link, &remote) == Code::success) {
    remote.bus_id[sizeof remote.bus_id - 1] = '\0';
    facts.remote_pci = plain_pci(remote.bus_id);
  }
  FieldValue speed{.field = link_speed, .scope = link};
  if (api.field_values(handle, 1, &speed) == Code::success && speed.code == Code::success &&
      speed.value.u32 > 0 && !is_sentinel(speed.value.u32, 32))
    facts.bandwidth = speed.value.u32 * (unit::MB / unit::s);
  return facts;
}

void link_facts(const Api& api, Handle handle, DeviceFacts& facts) {
  for (unsigned link = 0; link < most_links; ++link) {
    if (number_from(api.link_state, handle, link) != 1U) continue;
    const LinkFacts one = link_at(api, handle, link);
    const auto same = std::ranges::find_if(facts.links, [&](const auto& other) {
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
  const auto raw = number_from(api.architecture, handle);
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
  power_facts(api, handle, facts);
  limit_facts(api, handle, facts);
  facts.pcie_width = small_number(number_from(api.pcie_width, handle));
  facts.pcie_width_max = small_number(number_from(api.pcie_width_max, handle));
  link_facts(api, handle, facts);
  unsigned current = 0, pending = 0;
  if (api.mig_mode(handle, &current, &pending) == Code::success) facts.mig = current != 0;
  if (const auto persistence = number_from(api.persistence, handle))
    facts.persistence = *persistence != 0;
  return facts;
}

void driver_facts(const Driver& driver, NodeFacts& node) {
  node.nvidia_driver = text_from(driver.api().driver_version);
  int cuda = 0;
  if (driver.api().cuda_version(&cuda) == Code::success)
    node.cuda = fmt::format("{}.{}", cuda / 1000, cuda % 1000 / 10);
}

}  // namespace triplepoint::telemetry::nvml
