// SPDX-License-Identifier: Apache-2.0
// ROCm SMI, declared by us and opened at run time. Names and types are those of rocm_smi.h 5 to 7
// that did not change; rsmi_frequencies_t did, and is left alone. Source: ROCm SMI reference,
// rocm.docs.amd.com/projects/rocm_smi_lib.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/telemetry/amd/sensor.h"
#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/library.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::amd {
namespace {

constexpr int success = 0;

struct Api {
  int (*init)(uint64_t) = nullptr;
  int (*shut_down)() = nullptr;
  int (*count)(uint32_t*) = nullptr;
  int (*name)(uint32_t, char*, std::size_t) = nullptr;
  int (*unique_id)(uint32_t, uint64_t*) = nullptr;
  int (*pci_id)(uint32_t, uint64_t*) = nullptr;
  int (*power_average)(uint32_t, uint32_t, uint64_t*) = nullptr;
  int (*power_current)(uint32_t, uint64_t*) = nullptr;
  int (*power_cap)(uint32_t, uint32_t, uint64_t*) = nullptr;
  int (*temperature)(uint32_t, uint32_t, int, int64_t*) = nullptr;
  int (*busy)(uint32_t, uint32_t*) = nullptr;
  int (*memory_used)(uint32_t, int, uint64_t*) = nullptr;
  int (*memory_total)(uint32_t, int, uint64_t*) = nullptr;
};

class Smi {
 public:
  static Result<std::unique_ptr<Smi>> open(const std::string& name) {
    auto library = TPT_TRY(Library::open(name));  // not inside new: a return there would leak
    std::unique_ptr<Smi> smi(new Smi(std::move(library)));
    if (smi->api.init == nullptr || smi->api.count == nullptr || smi->api.shut_down == nullptr)
      return error(fmt::format("{} is not ROCm SMI (it lacks rsmi_init)", name));
    if (const int code = smi->api.init(0); code != success)
      return error(fmt::format("rsmi_init fails ({})", code));
    smi->running_ = true;
    return smi;
  }
  Smi(const Smi&) = delete;
  Smi& operator=(const Smi&) = delete;
  Smi(Smi&&) = delete;
  Smi& operator=(Smi&&) = delete;
  ~Smi() {
    if (running_) api.shut_down();
  }

  Api api;

 private:
  // rsmi_dev_pci_throughput_get is left out on purpose: it blocks for a second.
  explicit Smi(std::unique_ptr<Library> library) : library_(std::move(library)) {
    library_->find(api.init, {"rsmi_init"});
    library_->find(api.shut_down, {"rsmi_shut_down"});
    library_->find(api.count, {"rsmi_num_monitor_devices"});
    library_->find(api.name, {"rsmi_dev_name_get"});
    library_->find(api.unique_id, {"rsmi_dev_unique_id_get"});
    library_->find(api.pci_id, {"rsmi_dev_pci_id_get"});
    library_->find(api.power_average, {"rsmi_dev_power_ave_get"});
    library_->find(api.power_current, {"rsmi_dev_current_socket_power_get"});
    library_->find(api.power_cap, {"rsmi_dev_power_cap_get"});
    library_->find(api.temperature, {"rsmi_dev_temp_metric_get"});
    library_->find(api.busy, {"rsmi_dev_busy_percent_get"});
    library_->find(api.memory_used, {"rsmi_dev_memory_usage_get"});
    library_->find(api.memory_total, {"rsmi_dev_memory_total_get"});
  }
  std::unique_ptr<Library> library_;
  bool running_ = false;
};

/// A number of a GPU by one call, in the unit of its signal.
enum class Call : uint8_t {
  power_current,
  power_average,
  edge,
  junction,
  memory_temperature,
  busy,
  memory_used,
  power_cap
};
struct SignalCall {
  Call call;
  const char *signal, *function;
  run::ReadingKind kind = run::ReadingKind::instant;
  Pace pace = Pace::every_tick;
};
constexpr std::array<SignalCall, 8> wanted_calls = {
    {{Call::power_current, "power_instant_w", "rsmi_dev_current_socket_power_get"},
     {Call::power_average, "power_average_w", "rsmi_dev_power_ave_get", run::ReadingKind::average},
     {Call::edge, "die_c", "rsmi_dev_temp_metric_get edge"},
     {Call::junction, "junction_c", "rsmi_dev_temp_metric_get junction"},
     {Call::memory_temperature, "memory_c", "rsmi_dev_temp_metric_get memory"},
     {Call::busy, "utilization", "rsmi_dev_busy_percent_get", run::ReadingKind::average},
     {Call::memory_used, "memory_used_b", "rsmi_dev_memory_usage_get", run::ReadingKind::instant,
      Pace::slow},
     {Call::power_cap, "power_limit_w", "rsmi_dev_power_cap_get", run::ReadingKind::instant,
      Pace::slow}}};

std::optional<double> unless_sentinel(uint64_t raw, double unit) {
  if (is_sentinel(raw, 64)) return std::nullopt;
  return static_cast<double>(raw) * unit;
}

/// Calls a function that may be missing with one 64-bit result; what comes before it are arguments.
template <class Function, class... Arguments>
std::optional<double> number(double unit, Function* function, Arguments... arguments) {
  uint64_t raw = 0;
  if (function == nullptr || function(arguments..., &raw) != success) return std::nullopt;
  return unless_sentinel(raw, unit);
}

std::optional<double> temperature(const Api& api, uint32_t gpu, uint32_t where) {
  int64_t millidegrees = 0;
  if (api.temperature == nullptr || api.temperature(gpu, where, 0, &millidegrees) != success ||
      is_sentinel(static_cast<uint64_t>(millidegrees), 64))
    return std::nullopt;
  return static_cast<double>(millidegrees) * 1e-3;
}

std::optional<double> busy(const Api& api, uint32_t gpu) {
  uint32_t percent = 0;
  if (api.busy == nullptr || api.busy(gpu, &percent) != success) return std::nullopt;
  return percent * 0.01;
}

std::optional<double> ask(const Api& api, uint32_t gpu, Call call) {
  constexpr double micro = 1e-6;
  constexpr uint32_t package = 0;
  constexpr int vram = 0;
  switch (call) {
    case Call::power_current:
      return number(micro, api.power_current, gpu);
    case Call::power_average:
      return number(micro, api.power_average, gpu, package);
    case Call::power_cap:
      return number(micro, api.power_cap, gpu, package);
    case Call::memory_used:
      return number(1, api.memory_used, gpu, vram);
    case Call::busy:
      return busy(api, gpu);
    case Call::edge:
      return temperature(api, gpu, 0);
    case Call::junction:
      return temperature(api, gpu, 1);
    case Call::memory_temperature:
      return temperature(api, gpu, 2);
  }
  return std::nullopt;
}

/// domain << 32 | bus << 8 | device << 3 | function.
std::string pci_of(uint64_t id) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", id >> 32U & 0xffffU, id >> 8U & 0xffU,
                     id >> 3U & 0x1fU, id & 7U);
}

class SmiSensor final : public Sensor {
 public:
  SmiSensor(std::shared_ptr<Smi> smi, std::vector<run::Device> devices, GapList* missing)
      : smi_(std::move(smi)), devices_(std::move(devices)) {
    GapList gaps;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      numbers_.push_back(static_cast<uint32_t>(devices_[i].index));
      devices_[i].index = static_cast<int32_t>(i);
      for (const SignalCall& wanted : wanted_calls)
        open(wanted, i);
      gaps.add({"energy counter, link bytes and throttling",
                "ROCm SMI is read, as amdgpu shows nothing in sysfs; its energy counter does not "
                "change within a process on some releases",
                "mount /sys into the container"},
               devices_[i].local);
    }
    if (missing != nullptr)
      missing->add(gaps);
    else
      gaps_ = gaps.gaps();
  }

  std::string_view name() const override { return "rocm_smi"; }
  const std::vector<run::Device>& devices() const override { return devices_; }
  const std::vector<Channel>& channels() const override { return channels_; }
  const std::vector<Gap>& gaps() const override { return gaps_; }

  void read(bool slow, std::vector<Reading>& readings) override {
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const Channel& channel = channels_[i];
      if (channel.pace == Pace::slow && !slow) continue;
      const auto device = static_cast<std::size_t>(channel.about.device);
      const auto value = ask(smi_->api, numbers_[device], calls_[i]);
      if (value && plausible_range(channel.about.signal).holds(*value))
        readings.push_back({static_cast<int32_t>(i), monotonic_now_ns(), *value});
    }
  }

 private:
  void open(const SignalCall& wanted, std::size_t device) {
    const auto value = ask(smi_->api, numbers_[device], wanted.call);
    const bool is_power = std::string_view(wanted.signal).ends_with("_w");
    // Zero watts is what the second die of a package says.
    if (!value || !plausible_range(wanted.signal).holds(*value) || (is_power && *value == 0))
      return;
    if (wanted.call == Call::power_average && !calls_.empty() &&
        calls_.back() == Call::power_current &&
        channels_.back().about.device == static_cast<int32_t>(device))
      return;
    Channel channel;
    channel.about.signal = wanted.signal;
    channel.about.device = static_cast<int32_t>(device);
    channel.about.kind = wanted.kind;
    channel.about.sensor = wanted.function;
    channel.pace = wanted.pace;
    if (is_power && devices_[device].name.find("MI250") != std::string::npos)
      channel.about.scope = run::Scope::package;
    channels_.push_back(std::move(channel));
    calls_.push_back(wanted.call);
  }

  std::shared_ptr<Smi> smi_;
  std::vector<run::Device> devices_;
  std::vector<uint32_t> numbers_;  // of the library
  std::vector<Channel> channels_;
  std::vector<Call> calls_;
  std::vector<Gap> gaps_;
};

class SmiNode final : public Node {
 public:
  explicit SmiNode(std::unique_ptr<Smi> smi) : smi_(std::move(smi)) {
    uint32_t count = 0;
    if (smi_->api.count(&count) != success) return;
    for (uint32_t i = 0; i < count; ++i)
      devices_.push_back(look_at(i));
    std::sort(devices_.begin(), devices_.end(),
              [](const auto& a, const auto& b) { return a.pci < b.pci; });
    for (std::size_t i = 0; i < devices_.size(); ++i)
      devices_[i].local = static_cast<int32_t>(i);
  }

  std::vector<run::Device>& devices() override { return devices_; }
  std::unique_ptr<Sensor> open(const std::vector<bool>& selected, GapList* missing) override {
    return std::make_unique<SmiSensor>(smi_, chosen(selected), missing);
  }
  std::optional<int32_t> power_is_of(std::size_t) const override { return std::nullopt; }
  std::vector<DeviceFacts> facts(const std::vector<bool>& selected) const override {
    std::vector<DeviceFacts> all;
    for (const run::Device& device : chosen(selected)) {
      DeviceFacts facts;
      const auto gpu = static_cast<uint32_t>(device.index);
      facts.device = device;
      facts.device.index = static_cast<int32_t>(all.size());
      facts.vendor = "amd";
      if (const auto cap = ask(smi_->api, gpu, Call::power_cap)) facts.power_limit = *cap * unit::W;
      uint64_t bytes = 0;
      if (smi_->api.memory_total != nullptr && smi_->api.memory_total(gpu, 0, &bytes) == success)
        facts.memory = static_cast<double>(bytes) * unit::B;
      all.push_back(std::move(facts));
    }
    return all;
  }

 private:
  run::Device look_at(uint32_t gpu) const {
    const Api& api = smi_->api;
    run::Device device;
    device.index = static_cast<int32_t>(gpu);  // the library's number, until it is opened
    std::array<char, 256> text{};
    uint64_t id = 0;
    if (api.name != nullptr && api.name(gpu, text.data(), text.size() - 1) == success)
      device.name = text.data();
    if (api.unique_id != nullptr && api.unique_id(gpu, &id) == success)
      device.uuid = fmt::format("GPU-{:016x}", id);
    if (api.pci_id != nullptr && api.pci_id(gpu, &id) == success) device.pci = pci_of(id);
    return device;
  }
  std::vector<run::Device> chosen(const std::vector<bool>& selected) const {
    std::vector<run::Device> devices;
    for (std::size_t i = 0; i < devices_.size(); ++i)
      if (selected[i]) devices.push_back(devices_[i]);
    return devices;
  }

  std::shared_ptr<Smi> smi_;
  std::vector<run::Device> devices_;
};

}  // namespace

std::unique_ptr<Node> find_by_rocm_smi(const std::string& library, std::vector<Gap>& gaps) {
  auto smi = Smi::open(library);
  if (smi) return std::make_unique<SmiNode>(std::move(*smi));
  gaps.push_back({"AMD GPUs", "amdgpu shows none in sysfs, and " + smi.error().what, ""});
  return nullptr;
}

}  // namespace triplepoint::telemetry::amd
