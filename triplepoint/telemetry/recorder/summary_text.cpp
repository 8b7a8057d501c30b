// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/recorder/closing.h"

namespace triplepoint::telemetry {

namespace {

/// "5.42 MJ": three digits and the prefix that fits.
std::string energy_text(Joules energy) {
  const double joules = energy / unit::J;
  for (const auto& [size, name] : {std::pair(1e9, "GJ"), {1e6, "MJ"}, {1e3, "kJ"}})
    if (std::abs(joules) >= size) return fmt::format("{:.3g} {}", joules / size, name);
  return fmt::format("{:.3g} J", joules);
}

std::string whose(const RecordingSummary::Extreme& extreme) {
  return extreme.rank ? fmt::format("rank {}", *extreme.rank)
                      : fmt::format("GPU {}", extreme.device);
}

std::string devices_text(const RecordingSummary& summary) {
  if (summary.num_devices == 0) return "no GPU";
  return fmt::format("{} x {}", summary.num_devices,
                     summary.device_name.empty() ? "GPU" : summary.device_name);
}

std::string energy_line(const RecordingSummary& summary) {
  std::string parts;
  const auto add = [&](const char* name, const std::optional<double>& joules) {
    if (joules)
      parts +=
          fmt::format("{}{} {}", parts.empty() ? "" : ", ", name, energy_text(*joules * unit::J));
  };
  if (summary.energy) {
    const double share = *summary.energy_uncertainty / *summary.energy;
    parts = fmt::format("GPU {}", energy_text(*summary.energy));
    if (*summary.energy > Joules()) parts += fmt::format(" +- {:.1f} %", 100 * share);
    parts += fmt::format(" ({})", summary.energy_method);
    if (summary.num_packages > 0)
      parts += fmt::format(" of {} packages with all their dies", summary.num_packages);
    if (const std::string coverage = energy_coverage(summary); !coverage.empty())
      parts += " of " + coverage;
  }
  add("CPU", summary.numbers.recording_cpu_energy_j);
  add("DRAM", summary.numbers.recording_dram_energy_j);
  add("whole node", summary.numbers.recording_node_energy_j);
  if (summary.is_too_short_for_energy)
    return fmt::format(
        "GPU: {:.1f} s are too short to measure energy (sensors update some ten times a second); "
        "record 5 s or longer{}{}",
        summary.duration / unit::s, parts.empty() ? "" : "; ", parts);
  if (!summary.energy && summary.module_power_w)
    parts += fmt::format(
        "{}not known of the GPUs: their driver gives the power of the module, CPU included",
        parts.empty() ? "" : parts + "; ");
  if (!parts.empty()) return parts;
  return summary.num_devices == 0 ? "" : "not measured (triplepoint doctor says why)";
}

std::string throttle_text(const RecordingSummary& summary) {
  std::string text;
  for (const auto& [name, throttle] : summary.throttle)
    text += fmt::format("   {} {:.3g} % of time ({}: {:.3g} %)", name, 100 * throttle.mean_share,
                        whose(throttle.most), 100 * throttle.most.value);
  return text;
}

std::string power_line(const RecordingSummary& summary) {
  std::string line;
  if (summary.power_mean_w)
    line += fmt::format("mean {:.0f} W{}", *summary.power_mean_w,
                        summary.num_packages > 0 ? " a package" : "");
  if (!summary.power_mean_w && summary.module_power_w)
    line += fmt::format("module {:.0f} W mean", *summary.module_power_w);
  if (summary.power_p99_w) line += fmt::format("  p99 {:.0f} W", *summary.power_p99_w);
  if (summary.power_limit_w) line += fmt::format("  limit {:.0f} W", *summary.power_limit_w);
  return line + throttle_text(summary);
}

std::string heat_line(const RecordingSummary& summary) {
  std::string line;
  if (summary.die_mean_c) {
    line +=
        fmt::format("die {:.0f}/{:.0f} C mean/max", *summary.die_mean_c, summary.die_max_c->value);
    if (summary.die_max_c->value > *summary.die_mean_c + 0.5)
      line += fmt::format(" ({} max)", whose(*summary.die_max_c));
  }
  if (summary.memory_mean_c)
    line += fmt::format("   memory {:.0f}/{:.0f} C", *summary.memory_mean_c,
                        summary.memory_max_c->value);
  return line;
}

std::string clock_line(const RecordingSummary& summary) {
  if (!summary.clock_mean_mhz) return "";
  std::string line = fmt::format("SM {:.0f} MHz mean", *summary.clock_mean_mhz);
  const double slowest = 100 * (summary.slowest_clock_mhz->value / *summary.clock_mean_mhz - 1);
  if (summary.num_devices > 1 && slowest < -0.05)
    line += fmt::format(", slowest {} ({:+.1f} %)", whose(*summary.slowest_clock_mhz), slowest);
  return line;
}

std::string with_interval(const MeanWithInterval& value, const char* unit) {
  if (!value.half_width) return fmt::format("{:.4g} {}", value.mean, unit);
  return fmt::format("{:.4g} +- {:.2g} {}", value.mean, *value.half_width, unit);
}

std::string step_line(const RecordingSummary& summary) {
  if (!summary.step_time_s) return "";
  std::string line =
      fmt::format("{} measured after {} of warm-up: {}", *summary.numbers.measured_steps,
                  *summary.numbers.warmup_steps, with_interval(*summary.step_time_s, "s"));
  if (summary.step_energy_j) line += ", " + with_interval(*summary.step_energy_j, "J");
  if (summary.step_spread) line += fmt::format("   spread {:.1f} %", 100 * *summary.step_spread);
  return line;
}

std::string host_line(const RecordingSummary& summary) {
  std::vector<std::string> parts, recorder;
  const auto rate = [&](const char* name, const std::optional<double>& bytes_per_s) {
    if (bytes_per_s) parts.push_back(fmt::format("{} {:.3g} GB/s", name, *bytes_per_s / 1e9));
  };
  rate("NVLink/xGMI", summary.scale_up_bytes_per_s);
  rate("PCIe", summary.pcie_bytes_per_s);
  if (summary.cpu_busy_share)
    parts.push_back(fmt::format("CPU {:.0f} % busy", 100 * *summary.cpu_busy_share));
  if (summary.duration >= 1 * unit::s)  // of a shorter one it is the cost of starting
    recorder.push_back(fmt::format("recorder {:.2g} % of one core",
                                   100 * summary.numbers.sampler_share_of_a_core.value_or(0)));
  if (const auto lost = summary.numbers.sampler_lost_ticks; lost > 0)
    recorder.push_back(fmt::format("{} ticks lost", *lost));
  if (summary.dropped_values > 0)
    recorder.push_back(fmt::format("{:.1f} s lost (disk full: {} values)", summary.lost / unit::s,
                                   summary.dropped_values));
  if (!recorder.empty()) parts.push_back(joined(recorder, ", "));
  return joined(parts, "   ");
}

}  // namespace

std::string energy_coverage(const RecordingSummary& summary) {
  if (summary.without_energy.empty()) return "";
  const auto lacking = static_cast<int64_t>(summary.without_energy.size());
  std::string text =
      fmt::format("{} of {} GPUs", summary.num_devices - lacking, summary.num_devices);
  for (const RecordingSummary::Unmeasured& gpu : summary.without_energy)
    text +=
        fmt::format("; {} {}", whose({.device = gpu.device, .rank = gpu.rank}),
                    gpu.lost ? fmt::format("lost at {:.1f} s", (*gpu.lost - Instant(0)) / unit::s)
                             : "had no readings of power or energy");
  return text;
}

std::string text_of(const RecordingSummary& summary, const std::string& file) {
  std::string text = fmt::format("triplepoint: {}   {:.1f} s   -> {}\n", devices_text(summary),
                                 summary.duration / unit::s, file);
  const auto add = [&](const char* name, const std::string& line) {
    if (!line.empty()) text += fmt::format("     {:<8}{}\n", name, line);
  };
  add("energy", energy_line(summary));
  add("power", power_line(summary));
  add("temp", heat_line(summary));
  add("clock", clock_line(summary));
  add("steps", step_line(summary));
  add("host", host_line(summary));
  for (const std::string& finding : summary.findings)
    add("note", finding);
  return text;
}

}  // namespace triplepoint::telemetry
