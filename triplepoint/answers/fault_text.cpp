// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/fault.h"

#include "triplepoint/answers/run_figures.h"

namespace triplepoint::answers {
namespace {

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

DataTable gpu_table(const std::string& faults, const metrics::FaultEffect& effect, bool steady) {
  constexpr std::size_t most_listed = 8;
  const std::vector<metrics::DeviceSpan>& baseline =
      effect.devices_before.empty() ? effect.devices_after : effect.devices_before;
  const char* other = steady ? "without" : effect.devices_before.empty() ? "after" : "before";
  DataTable table =
      titled_table({"GPU", fmt::format("W {}", other), steady ? "W with" : "W during",
                    fmt::format("°C {}", other), steady ? "°C with" : "°C during",
                    fmt::format("MHz {}", other), steady ? "MHz with" : "MHz during"});
  table.title = "GPUs that change most with " + faults;
  for (const int64_t device : metrics::most_affected(effect, most_listed)) {
    const auto d = as_size(device);
    const metrics::DeviceSpan &then = baseline[d], &now = effect.devices_during[d];
    table.add({std::to_string(device), significant(then.power_w), significant(now.power_w),
               significant(then.die_c), significant(now.die_c), significant(then.clock_mhz, 4),
               significant(now.clock_mhz, 4)});
  }
  return table;
}

DataTable phases_table(const run::Run& run, const run::Run* without) {
  std::vector<TextColumn> columns = {{"phase", Align::left}};
  for (const char* title : {"from (s)", "to (s)", "steps"})
    if (!without) columns.push_back({title});
  for (const char* title : {"step (s)", "hottest die (°C)", "power of a GPU (W)", "SM clock (MHz)"})
    columns.push_back({title});
  if (!without) columns.push_back({"energy of the GPUs (MJ)"});
  DataTable table = text_table(std::move(columns));
  table.title = without ? "Steady states"
                        : "Phases of the run (hottest die: step means; of the whole run also "
                          "within its last step)";
  std::vector<metrics::FaultPhase> phases = metrics::fault_phases_of(run);
  if (without) {
    const metrics::FaultEffect effect = metrics::steady_effect(*without, run);
    phases = {{"without", *effect.before}, {"with", *effect.during}};
  }
  for (const auto& [name, span] : phases) {
    std::vector<DataCell> cells = {name};
    if (!without)
      for (std::string text : {significant(span.begin / unit::s, 4),
                               significant(span.end / unit::s, 4), std::to_string(span.steps)})
        cells.emplace_back(std::move(text));
    cells.emplace_back(span.step_time ? significant(*span.step_time / unit::s) : "–");
    for (const auto& value : {span.peak_c, span.power_w})
      cells.emplace_back(significant(value));
    cells.emplace_back(significant(span.clock_mhz, 4));
    if (!without) cells.emplace_back(span.energy_j ? significant(*span.energy_j / 1e6) : "–");
    table.add(std::move(cells));
  }
  return table;
}

}  // namespace

std::string fault_sentence(const run::Run& run, const std::vector<spec::Fault>& faults,
                           const metrics::FaultEffect& effect, bool steady) {
  const std::optional<double> longer = metrics::slowdown(effect);
  if (run.shutdown && run.shutdown->time &&
      std::ranges::any_of(faults, [&](const spec::Fault& fault) {
        return fault.begin <= *run.shutdown->time &&
               (!fault.end || *fault.end > *run.shutdown->time);
      }))
    return run::shutdown_text(run) + ".";
  if (!effect.during) return "It begins after the end of the simulation.";
  if (!longer)
    return fmt::format("No step ended {} it, so none can be compared.",
                       effect.during->steps == 0 ? "during" : "before or after");
  const std::vector<spec::Fault>& all = run.manifest.job->environment.faults;
  const auto mine = std::ranges::find(all, faults.front());
  const std::string others =
      steady ? "" : metrics::names_of(metrics::others_within(all, *mine, effect));
  if (std::abs(*longer) < 0.0005)
    return "Step time is unchanged" +
           (others.empty() ? ": no rank waits for it." : ", but " + others + " acts then, too.");
  if (!others.empty())
    return fmt::format("{} acts within these times, too, so no difference is of this fault alone.",
                       others);
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

Section faults_section(const run::Run& run, const run::Run* fault_free) {
  Section section{.id = "phases", .title = "Phases"};
  if (!run.manifest.job || !run::has_trained(run) || (fault_free && !run::has_trained(*fault_free)))
    return section;
  const auto add = [&](const std::string& faults, const metrics::FaultEffect& effect) {
    if (DataTable table = gpu_table(faults, effect, fault_free != nullptr); !table.rows.empty())
      section.tables.push_back(std::move(table));
  };
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  const auto effects =
      whole_run_of(run) ? metrics::fault_effects(run) : std::vector<metrics::FaultEffect>();
  if (fault_free) add(metrics::names_of(faults), metrics::steady_effect(*fault_free, run));
  for (std::size_t f = 0; f < effects.size(); ++f)
    add(spec::to_text(faults[f]), effects[f]);
  if (DataTable phases = phases_table(run, fault_free); phases.rows.size() > 1)
    section.tables.push_back(std::move(phases));
  return section;
}

}  // namespace triplepoint::answers
