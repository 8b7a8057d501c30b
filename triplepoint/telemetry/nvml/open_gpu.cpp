// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "triplepoint/telemetry/nvml/fields.h"
#include "triplepoint/telemetry/nvml/gpu.h"

namespace triplepoint::telemetry::nvml {
namespace {

using run::ReadingKind;

constexpr unsigned turing = 6, ampere = 7;

// Of a field, as the driver says it. Eight GPUs shall cost less than a millisecond a tick.
constexpr int64_t long_us = 150;

/// A number with its own call, and what to say where it is missing ("": nothing).
struct CallWanted {
  CallKind kind;
  const char *signal, *call, *what;
  ReadingKind reading = ReadingKind::instant;
  Polling polling = Polling::every_tick;
};

constexpr std::array<CallWanted, 9> wanted_calls = {{
    {CallKind::die_temperature, "die_c", "Temperature", "GPU temperature"},
    {CallKind::sm_clock, "sm_clock_mhz", "ClockInfo", "SM clock"},
    {CallKind::memory_clock, "memory_clock_mhz", "ClockInfo", "memory clock"},
    // The memory's share comes with the GPU's; they stay neighbours.
    {CallKind::utilization, "utilization", "UtilizationRates", "utilization", ReadingKind::average},
    {CallKind::memory_utilization, "memory_utilization", "UtilizationRates", "",
     ReadingKind::average},
    {CallKind::reasons, "throttle_reasons", "CurrentClocksEventReasons", "clock-event reasons",
     ReadingKind::bits},
    {CallKind::memory_used, "memory_used_b", "MemoryInfo", "memory in use", ReadingKind::instant,
     Polling::slow},
    {CallKind::power_limit, "power_limit_w", "EnforcedPowerLimit", "power limit",
     ReadingKind::instant, Polling::slow},
    {CallKind::fan, "fan_share", "FanSpeed", "", ReadingKind::instant, Polling::slow},
}};

/// Zero watts or exactly zero degrees, at the start, is how some boards say that they have no such
/// sensor.
bool says_nothing(std::string_view signal, double value) {
  return value == 0 && (signal.ends_with("_w") || signal.ends_with("_c"));
}

class Opener {
 public:
  Opener(const Driver& driver, Gpu& gpu, std::vector<Channel>& channels, std::vector<Gap>& missing)
      : driver_(driver), api_(driver.api()), gpu_(gpu), channels_(channels), missing_(missing) {}

  void open() {
    api_.architecture(gpu_.handle, &gpu_.architecture);
    unsigned pending = 0, current = 0;
    gpu_.mig = api_.mig_mode(gpu_.handle, &current, &pending) == Code::success && current == 1;
    open_fields();
    open_old_power();
    open_old_energy();
    for (const CallWanted& wanted : wanted_calls)
      open_call(wanted);
    if (gpu_.mig)
      miss("utilization of MIG instances", "the GPU is split by MIG; what is read is the whole GPU",
           "");
  }

 private:
  void miss(std::string what, std::string why, std::string remedy) {
    missing_.push_back({std::move(what), std::move(why), std::move(remedy)});
  }

  bool has(std::string_view signal) const {
    return std::ranges::any_of(channels_, [&](const Channel& channel) {
      return channel.about.device == gpu_.device.index && channel.about.signal == signal;
    });
  }

  int ask(const std::vector<Field>& fields, std::vector<FieldValue>& answers) const {
    answers.assign(fields.size(), {});
    for (std::size_t i = 0; i < fields.size(); ++i)
      answers[i].field = fields[i].id, answers[i].scope = fields[i].scope;
    return api_.field_values(gpu_.handle, static_cast<int>(answers.size()), answers.data());
  }

  std::vector<unsigned> links() const {
    std::vector<unsigned> up;
    unsigned active = 0;
    for (unsigned link = 0; link < most_links; ++link)
      if (api_.link_state(gpu_.handle, link, &active) == Code::success && active == 1)
        up.push_back(link);
    return up;
  }

  int driver_major() const {
    std::array<char, 96> text{};
    const int code = api_.driver_version(text.data(), static_cast<unsigned>(text.size() - 1));
    return code == Code::success ? std::atoi(text.data()) : 0;
  }

  /// What would help: a newer driver, where this one is too old; a Volta GPU counts energy.
  std::string remedy_of(const SignalSources& wanted) const {
    constexpr unsigned volta = 5;
    if (wanted.signal == "energy_j" && gpu_.architecture < volta) return "a Volta GPU or newer";
    if (driver_major() >= wanted.from_driver) return "";
    return fmt::format("a driver of series {} or newer", wanted.from_driver);
  }

  void open_fields() {
    std::vector<FieldValue> answers;
    const bool asked = ask(numbering_fields(), answers) == Code::success;
    const Numbering numbering = asked ? numbering_of(answers, driver_major()) : Numbering::none;
    for (const SignalSources& wanted : wanted_fields(gpu_.architecture, links(), numbering)) {
      // A module's power stands in where the GPU has no reading.
      const bool has_power = has("power_instant_w") || has("power_average_w");
      if (wanted.signal == "module_power_w" && has_power) continue;
      int code = Code::not_supported;
      const bool works = std::ranges::any_of(
          wanted.sources, [&](const Source& source) { return open_source(wanted, source, code); });
      if (works && wanted.rare) channels_.back().polling = Polling::slow;
      if (works || wanted.what.empty()) continue;
      missing_fields_.push_back({wanted.what, driver_.words(code), remedy_of(wanted)});
      missing_signals_.push_back(wanted.signal);
    }
    set_paces();
  }

  bool open_source(const SignalSources& wanted, const Source& source, int& code) {
    std::vector<FieldValue> answers;
    if (const int asked = ask(source.fields, answers); asked != Code::success) {
      code = asked;
      return false;
    }
    for (const FieldValue& answer : answers) {
      if (answer.code != Code::success) code = answer.code;
      const auto number = number_in(answer);
      if (!number || says_nothing(wanted.signal, *number * source.unit)) return false;
    }
    add_slots(source, wanted.signal, answers);
    return true;
  }

  void add_slots(const Source& source, const std::string& signal,
                 const std::vector<FieldValue>& answers) {
    const auto channel = static_cast<int32_t>(channels_.size());
    channels_.push_back({.about = {.signal = signal,
                                   .device = gpu_.device.index,
                                   .scope = source.scope,
                                   .kind = source.kind,
                                   .sensor = source.name,
                                   .window = source.window}});
    for (const FieldValue& answer : answers) {
      FieldSlot slot;
      slot.channel = channel;
      slot.counts = source.kind == ReadingKind::counter;
      slot.last_of_channel = &answer == &answers.back();
      slot.unit = source.unit;
      slot.kind = {.unit = source.unit,
                   .modulus = 0,
                   .perhaps_32 = signal.starts_with("pcie_"),
                   .most_per_s = plausible_rate(signal) / source.unit};
      slot.range = plausible_range(signal);
      FieldValue request;
      request.field = answer.field, request.scope = answer.scope;
      gpu_.fast.request.push_back(request);
      gpu_.fast.slots.push_back(slot);
    }
  }

  /// Asks for all again, now that the driver is warm: a number that it takes long to bring up to
  /// date is polled slowly. A narrow counter is not: it would wrap unseen.
  void set_paces() {
    FieldBatch all = std::exchange(gpu_.fast, {});
    all.answer = all.request;
    if (!all.answer.empty())
      api_.field_values(gpu_.handle, static_cast<int>(all.answer.size()), all.answer.data());
    for (std::size_t begin = 0, end = 0; begin < all.slots.size(); begin = end) {
      int64_t latency_us = 0;
      bool narrow = false;
      do {
        latency_us += all.answer[end].latency_us;
        narrow |=
            all.slots[end].counts && all.answer[end].type == static_cast<int32_t>(ValueType::u32);
      } while (!all.slots[end++].last_of_channel);
      const int32_t channel = all.slots[begin].channel;
      if (channels_.at(as_size(channel)).polling == Polling::slow) {
        move(all, begin, end, gpu_.slow);
        continue;
      }
      move(all, begin, end, latency_us > long_us && !narrow ? gpu_.slow : gpu_.fast);
      if (latency_us > long_us && !narrow) note_slow(all.slots[begin].channel);
      if (narrow) note_narrow(all.slots[begin].channel);
    }
    gpu_.fast.answer = gpu_.fast.request;
    gpu_.slow.answer = gpu_.slow.request;
  }

  static void move(const FieldBatch& from, std::size_t begin, std::size_t end, FieldBatch& to) {
    for (std::size_t i = begin; i < end; ++i) {
      to.request.push_back(from.request[i]);
      to.slots.push_back(from.slots[i]);
    }
  }

  void note_slow(int32_t channel) {
    Channel& slow = channels_.at(as_size(channel));
    slow.polling = Polling::slow;
    miss(
        slow.about.signal + " at every tick",
        fmt::format("the driver takes over {} ms to bring it up to date; it is read at every tenth",
                    as_real(long_us) * 1e-3),
        "");
  }

  void note_narrow(int32_t channel) {
    const std::string& signal = channels_.at(as_size(channel)).about.signal;
    miss("fast traffic in " + signal,
         "the counter has 32 bits; more than 4.3 GB between two ticks is not seen",
         "a shorter --interval");
  }

  bool add_call(const CallWanted& wanted, int& code) {
    CallSlot call{
        .kind = wanted.kind,
        .channel = static_cast<int32_t>(channels_.size()),
        .polling = wanted.polling,
        .range = plausible_range(wanted.signal),
        .counter = Counter({.unit = 1e-3, .most_per_s = plausible_rate(wanted.signal) * 1e3})};
    double value = 0;
    code = call_value(api_, gpu_.handle, wanted.kind, value, utilization_);
    if (code != Code::success) return false;
    if (!call.range.holds(value) || says_nothing(wanted.signal, value)) {
      code = Code::not_supported;
      return false;
    }
    gpu_.calls.push_back(call);
    channels_.push_back({.about = {.signal = wanted.signal,
                                   .device = gpu_.device.index,
                                   .kind = wanted.reading,
                                   .sensor = fmt::format("nvmlDeviceGet{}", wanted.call)},
                         .polling = wanted.polling});
    return true;
  }

  void open_call(const CallWanted& wanted) {
    int code = Code::not_supported;
    if (!add_call(wanted, code) && *wanted.what != '\0') miss(wanted.what, driver_.words(code), "");
  }

  /// Drivers before 535 have one reading of power: instant up to Turing and on GA100, and the mean
  /// over a second on all else. Source: NVML reference, nvmlDeviceGetPowerUsage.
  void open_old_power() {
    if (has("power_instant_w") || has("power_average_w") || has("module_power_w")) return;
    const bool ga100 = gpu_.device.name.find("A100") != std::string::npos ||
                       gpu_.device.name.find("A30") != std::string::npos;
    const bool instant = gpu_.architecture <= turing || (gpu_.architecture == ampere && ga100);
    int code = Code::not_supported;
    const bool works =
        instant
            ? add_call({CallKind::power, "power_instant_w", "PowerUsage", ""}, code)
            : add_call({CallKind::power, "power_average_w", "PowerUsage", "", ReadingKind::average},
                       code);
    if (works && !instant) channels_.back().about.window = 1 * unit::s;
    if (!works) miss("power", driver_.words(code), "");
  }

  void open_old_energy() {
    int code = Code::not_supported;
    const bool found =
        !has("energy_j") &&
        add_call({CallKind::energy, "energy_j", "TotalEnergyConsumption", "", ReadingKind::counter},
                 code);
    for (std::size_t i = 0; i < missing_fields_.size(); ++i)
      if (!found || missing_signals_[i] != "energy_j")
        missing_.push_back(std::move(missing_fields_[i]));
  }

  const Driver& driver_;
  const Api& api_;
  Gpu& gpu_;
  std::vector<Channel>& channels_;
  std::vector<Gap>& missing_;
  std::vector<Gap> missing_fields_;
  std::vector<std::string> missing_signals_;
  Utilization utilization_;
};

}  // namespace

Gpu open_gpu(const Driver& driver, Handle handle, run::Device device, bool gpm,
             std::vector<Channel>& channels, std::vector<Gap>& missing) {
  Gpu gpu;
  gpu.handle = handle;
  gpu.device = std::move(device);
  Opener(driver, gpu, channels, missing).open();
  if (!gpm) return gpu;
  auto opened = Gpm::open(driver, handle, gpu.device.index, channels);
  if (opened)
    gpu.gpm = std::move(*opened);
  else
    missing.push_back({"performance counters (GPM)", opened.error().what, ""});
  return gpu;
}

}  // namespace triplepoint::telemetry::nvml
