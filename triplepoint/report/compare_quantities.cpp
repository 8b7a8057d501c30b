// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/compare_quantities.h"

#include <algorithm>

namespace triplepoint::report {
namespace {

using Value = std::optional<double>;

Value in_seconds(const std::optional<Seconds>& time) {
  if (time) return *time / unit::s;
  return std::nullopt;
}

using S = const Side&;
constexpr Better less = Better::lower, more = Better::higher, any = Better::neither;
constexpr Says rel = Says::relative, absolute = Says::absolute;

Value throttled(S s) {
  if (s.metrics.sm_clock_per_gpu_mhz.empty()) return std::nullopt;
  double sum = 0;
  for (const auto& [reason, share] : s.metrics.throttle)
    sum = std::max(sum, share);  // reasons overlap: the largest is a lower bound of their union
  return sum;
}

Value per_gpu_power(S s) {
  return s.metrics.power_mean_w;
}

QuantitySection speed_quantities() {
  return {"speed",
          "Speed",
          {{"step_time_s", "step time", "s", 1, less, rel,
            [](S s) { return in_seconds(s.metrics.step_time); }},
           {"tokens_per_s", "speed", "tokens/s", 1, more, rel,
            [](S s) { return s.metrics.tokens_per_second; }},
           {"tokens_per_s_per_gpu", "speed of a GPU", "tokens/s", 1, more, rel,
            [](S s) { return s.metrics.tokens_per_second_per_gpu; }},
           {"samples_per_s", "speed in sequences", "samples/s", 1, more, rel,
            [](S s) { return s.metrics.samples_per_second; }},
           {"mfu", "MFU", "%", 0.01, more, absolute, [](S s) { return s.metrics.mfu; }},
           {"hfu", "HFU", "%", 0.01, any, absolute, [](S s) { return s.metrics.hfu; }},
           {"bubble_fraction", "bubble", "%", 0.01, less, absolute,
            [](S s) { return s.metrics.bubble_fraction; }},
           {"exposed_communication_s", "exposed communication", "s", 1, less, rel,
            [](S s) { return in_seconds(s.metrics.exposed_communication); }},
           {"overlapped_communication_s", "overlapped communication", "s", 1, any, rel,
            [](S s) { return in_seconds(s.metrics.overlapped_communication); }},
           {"idle_s", "idle", "s", 1, less, rel, [](S s) { return in_seconds(s.metrics.idle); }},
           {"launch_gaps_s", "launch gaps", "s", 1, less, rel,
            [](S s) { return in_seconds(s.metrics.launch_gaps); }}}};
}

QuantitySection energy_quantities() {
  return {"energy",
          "Power and energy",
          {{"joules_per_token", "energy of a token", "J", 1, less, rel,
            [](S s) { return s.metrics.joules_per_token; }},
           {"energy_j", "energy of a step", "MJ", 1e6, less, rel,
            [](S s) { return s.metrics.energy_j; }},
           {"node_energy_j", "energy of a step, nodes", "MJ", 1e6, less, rel,
            [](S s) { return s.metrics.node_energy_j; }},
           {"samples_per_s_mj", "efficiency", "samples/(s MJ)", 1, more, rel,
            [](S s) { return s.metrics.samples_per_s_mj; }},
           {"power_mean_w", "power of a GPU, mean", "W", 1, any, rel, per_gpu_power},
           {"power_peak_w", "power of a GPU, peak", "W", 1, less, rel,
            [](S s) { return s.metrics.power_peak_w; }},
           {"power_kernel_peak_w", "power of the hungriest kernel", "W", 1, less, rel,
            [](S s) { return s.metrics.power_kernel_peak_w; }}}};
}

QuantitySection heat_quantities() {
  return {
      "heat",
      "Heat and clock",
      {{"temperature_mean_c", "temperature, mean", "°C", 1, less, absolute,
        [](S s) { return s.metrics.temperature_mean_c; }},
       {"temperature_peak_c", "temperature, peak", "°C", 1, less, absolute,
        [](S s) { return s.metrics.temperature_peak_c; }},
       {"hot_mean_c", "hot seats", "°C", 1, less, absolute,
        [](S s) { return s.metrics.hot_mean_c; }},
       {"cool_mean_c", "cool seats", "°C", 1, less, absolute,
        [](S s) { return s.metrics.cool_mean_c; }},
       {"hottest_over_coolest", "hottest over coolest GPU", "", 1, less, rel,
        [](S s) { return s.metrics.hottest_over_coolest; }},
       {"sm_clock_mean_mhz", "SM clock, mean", "MHz", 1, more, rel,
        [](S s) { return s.metrics.sm_clock_mean_mhz; }},
       {"throttled", "throttled (most frequent reason)", "%", 0.01, less, absolute, throttled}}};
}

QuantitySection size_quantities() {
  return {"size",
          "Size",
          {{"num_gpus", "GPUs", "", 1, any, rel,
            [](S s) { return s.num_gpus > 0 ? Value(static_cast<double>(s.num_gpus)) : Value(); }},
           {"memory_gib", "memory of the fullest GPU", "GiB", 1, less, rel,
            [](S s) { return s.memory_gib; }},
           {"scale_up_bytes", "sent inside the node, a GPU", "GiB", 1024.0 * 1024 * 1024, less, rel,
            [](S s) { return Value(s.metrics.links.scale_up / unit::B); }},
           {"scale_out_bytes", "sent between nodes, a GPU", "GiB", 1024.0 * 1024 * 1024, less, rel,
            [](S s) { return Value(s.metrics.links.scale_out / unit::B); }}}};
}

}  // namespace

const std::vector<QuantitySection>& compared_quantities() {
  static const std::vector<QuantitySection> all = {speed_quantities(), energy_quantities(),
                                                   heat_quantities(), size_quantities()};
  return all;
}

}  // namespace triplepoint::report
