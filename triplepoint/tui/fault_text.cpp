// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/fault_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/fault.h"

#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {
namespace {

using metrics::DeviceSpan;
using metrics::FaultEffect;
using metrics::FaultSpan;

constexpr size_t most_listed_gpus = 8;
constexpr size_t sparkline_width = 60;

std::string step_text(const FaultSpan& span) {
  return span.step_time ? significant(*span.step_time / unit::s) + " s" : "–";
}

std::string time_text(const FaultSpan& span) {
  if (span.end <= span.begin) return "";
  return fmt::format("{} to {} s", significant(span.begin / unit::s, 4),
                     significant(span.end / unit::s, 4));
}

/// A row per quantity, a column per span.
std::string span_table(const Console& console, const FaultEffect& effect, bool steady) {
  std::vector<TextColumn> columns = {{"", Align::left}};
  std::vector<const FaultSpan*> spans;
  const auto add = [&](const std::optional<FaultSpan>& span, const char* name) {
    if (!span) return;
    columns.push_back({name});
    spans.push_back(&*span);
  };
  add(effect.before, steady ? "without" : "before");
  add(effect.during, steady ? "with" : "during");
  add(effect.after, "after");
  DataTable table = text_table(std::move(columns));
  const auto row = [&](const char* name, const auto& text_of) {
    std::vector<DataCell> cells = {name};
    for (const FaultSpan* span : spans)
      cells.emplace_back(text_of(*span));
    table.add(std::move(cells));
  };
  if (!steady) row("time", time_text);
  if (!steady) row("steps that ended", [](const FaultSpan& s) { return std::to_string(s.steps); });
  row("step time", step_text);
  row("power of a GPU", [](const FaultSpan& s) { return significant(s.power_w) + " W"; });
  row(steady ? "hottest die" : "hottest die at the end", [](const FaultSpan& s) {
    return fmt::format("{} °C (GPU {})", significant(s.hottest_c), s.hottest);
  });
  if (!steady)
    row("hottest die, peak", [](const FaultSpan& s) { return significant(s.peak_c) + " °C"; });
  if (!steady)
    row("energy of the GPUs",
        [](const FaultSpan& s) { return significant(s.energy_j.value_or(0) / 1e6) + " MJ"; });
  row("SM clock", [](const FaultSpan& s) { return significant(s.clock_mhz, 4) + " MHz"; });
  row("slowest", [](const FaultSpan& s) {
    return fmt::format("{} MHz (GPU {})", significant(s.slowest_mhz, 4), s.slowest);
  });
  return table_text(table, console);
}

std::string gpu_table(const Console& console, const FaultEffect& effect, bool steady) {
  const std::vector<DeviceSpan>& baseline =
      effect.devices_before.empty() ? effect.devices_after : effect.devices_before;
  const char* other = steady ? "without" : effect.devices_before.empty() ? "after" : "before";
  DataTable table = text_table({{"GPU"},
                                {fmt::format("W {}", other)},
                                {steady ? "W with" : "W during"},
                                {fmt::format("°C {}", other)},
                                {steady ? "°C with" : "°C during"},
                                {fmt::format("MHz {}", other)},
                                {steady ? "MHz with" : "MHz during"}});
  for (const int64_t device : metrics::most_affected(effect, most_listed_gpus)) {
    const auto d = static_cast<size_t>(device);
    const DeviceSpan &then = baseline[d], &now = effect.devices_during[d];
    table.add({std::to_string(device), significant(then.power_w), significant(now.power_w),
               significant(then.die_c), significant(now.die_c), significant(then.clock_mhz, 4),
               significant(now.clock_mhz, 4)});
  }
  return table_text(table, console);
}

/// The device whose links or host delay all ranks, if no clock is the cause.
std::string slow_part(const std::vector<spec::Fault>& faults) {
  if (faults.size() != 1) return "";
  const spec::Fault& fault = faults.front();
  const bool link = fault.kind == spec::FaultKind::link;
  if (!link && fault.kind != spec::FaultKind::host) return "";
  std::string place;
  if (fault.gpu) place = fmt::format(" of GPU {}", *fault.gpu);
  if (fault.node) place = fmt::format(" of node {}", *fault.node);
  return fmt::format(" All wait for the {}{}.", link ? "links" : "host", place);
}

/// What it cost, and who waits for whom. `faults`: those it is about.
std::string verdict(const run::Run& run, const std::vector<spec::Fault>& faults,
                    const FaultEffect& effect, bool steady) {
  const std::optional<double> longer = metrics::slowdown(effect);
  if (run.shutdown && run.shutdown->time &&
      std::any_of(faults.begin(), faults.end(), [&](const spec::Fault& fault) {
        return fault.begin <= *run.shutdown->time &&
               (!fault.end || *fault.end > *run.shutdown->time);
      }))
    return run::shutdown_text(run) + ".";
  if (!effect.during) return "It begins after the end of the simulation.";
  if (!longer) return "No step ended on both sides of it, so none can be compared.";
  if (std::abs(*longer) < 0.0005) return "Step time is unchanged: no rank waits.";
  const char* other = steady ? faults.size() == 1 ? "without it" : "without them"
                      : effect.before && effect.before->step_time ? "before it"
                                                                  : "after it";
  std::string text = fmt::format("Steps take {} {} than {}.", percent(std::abs(*longer)),
                                 *longer > 0 ? "longer" : "less", other);
  if (effect.waited_for)
    text +=
        fmt::format(" All {} others wait for GPU {}.", run.devices.size() - 1, *effect.waited_for);
  else if (*longer > 0)
    text += slow_part(faults);
  return text;
}

std::string step_line(const Console& console, const run::Run& run) {
  if (run.steps.size() < 2) return "";
  std::vector<std::optional<double>> values;
  const size_t columns = std::min(sparkline_width, run.steps.size());
  double lowest = 1e300, highest = 0;
  for (const run::StepRecord& step : run.steps) {
    lowest = std::min(lowest, (step.end - step.begin) / unit::s);
    highest = std::max(highest, (step.end - step.begin) / unit::s);
  }
  for (size_t c = 0; c < columns; ++c) {  // the longest of those that share a column
    double longest = 0;
    for (size_t s = run.steps.size() * c / columns; s < run.steps.size() * (c + 1) / columns; ++s)
      longest = std::max(longest, (run.steps[s].end - run.steps[s].begin) / unit::s);
    values.emplace_back(longest);
  }
  return fmt::format("\nStep by step, {} to {} s: {}\n", significant(lowest), significant(highest),
                     sparkline(values, console.abilities().unicode));
}

void print_effect(Console& console, const run::Run& run, const std::vector<spec::Fault>& faults,
                  const FaultEffect& effect, bool steady) {
  const std::string name = metrics::names_of(faults);
  console.print(fmt::format("\nFault {}: {}\n", console.styled(name, Style::bold),
                            verdict(run, faults, effect, steady)));
  if (effect.during) console.print(span_table(console, effect, steady));
  if (!metrics::most_affected(effect, 1).empty())
    console.print("\n" + gpu_table(console, effect, steady));
}

}  // namespace

void print_faults(Console& console, const run::Run& run, const run::Run* without) {
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  if (faults.empty() || !run::has_trained(run) || (without && !run::has_trained(*without))) return;
  if (without)
    return print_effect(console, run, faults, metrics::steady_effect(*without, run), true);
  const std::vector<FaultEffect> effects = metrics::fault_effects(run);
  for (size_t f = 0; f < faults.size(); ++f)
    print_effect(console, run, {faults[f]}, effects[f], false);
  console.print(step_line(console, run));
}

}  // namespace triplepoint::tui
