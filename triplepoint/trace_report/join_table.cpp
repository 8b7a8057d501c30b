// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/metrics/trace/phase_cost.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"
#include "triplepoint/trace_report/rank_devices.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

using metrics::PhaseCost;
using metrics::PhasesBy;

struct Division {
  const char* word;
  PhasesBy by;
  const char* title;
};
constexpr std::array divisions = {
    Division{"activity", PhasesBy::activity, "What each rank's phases cost"},
    Division{"class", PhasesBy::label, "What each kernel class costs"},
    Division{"collective", PhasesBy::collective, "What each collective costs"},
    Division{"step", PhasesBy::step, "What each step costs"}};

DataCell throttle_text(const PhaseCost& cost) {
  if (!cost.throttle_known) return Missing{"not recorded"};
  std::string text;
  for (const auto& [reason, share] : cost.throttle)
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", reason, 100 * share);
  return text.empty() ? "none" : text;
}

DataTable cost_table(const std::vector<PhaseCost>& costs, const Division& division) {
  DataTable table{.name = division.word, .title = division.title};
  table.columns = {{"rank", "rank"},
                   {"phase", "phase"},
                   {"time_ns", "time", 0, 2},
                   {"times", "times"},
                   {"energy_j", "energy J", 1, 3},
                   {"energy_uncertainty_j", "+- J", 1, 3},
                   {"power_mean_w", "power W", 1, 1},
                   {"power_uncertainty_w", "+- W", 1, 1},
                   {"power_peak_w", "peak W", 1, 1},
                   {"die_mean_c", "die C", 1, 1},
                   {"die_peak_c", "die peak C", 1, 1},
                   {"sm_clock_mean_mhz", "clock MHz", 1, 0},
                   {"throttle", "throttled"},
                   {"method", "method"}};
  for (const PhaseCost& cost : costs) {
    const char* why = cost.missing.c_str();
    const char* unseen = "no value of the series saw this phase alone";
    table.add({int64_t{cost.rank}, cost.label, cost.time, cost.occurrences,
               cell_of(cost.energy_j, why), cell_of(cost.energy_uncertainty_j, why),
               cell_of(cost.power_mean_w, why), cell_of(cost.power_uncertainty_w, why),
               cell_of(cost.power_peak_w, unseen), cell_of(cost.die_mean_c, "not recorded"),
               cell_of(cost.die_peak_c, "not recorded"),
               cell_of(cost.sm_clock_mean_mhz, "not recorded"), throttle_text(cost),
               cost.method.empty() ? DataCell(Missing{cost.missing}) : DataCell(cost.method)});
  }
  return in_one_unit(std::move(table));
}

/// Moves the spans to the recording's time line.
void shift_spans(run::Timeline& timeline, int64_t by) {
  for (run::Span& span : timeline.spans) {
    span.begin = Instant(span.begin.nanoseconds() + by);
    span.end = Instant(span.end.nanoseconds() + by);
  }
}

}  // namespace

Result<TraceReport> trace_join(const TraceOptions& options) {
  std::vector<std::string> traces, recordings;
  for (const std::string& file : options.files)
    (is_run_file(file) ? recordings : traces).push_back(file);
  if (recordings.size() != 1)
    return error(
        fmt::format("join needs one recording (a .run) and the traces taken meanwhile, {} .run "
                    "files were named; triplepoint record makes one",
                    recordings.size()));
  // A run that has both, as simulated ones do, joins with itself.
  const bool alone = traces.empty();
  TraceInput input =
      TPT_TRY(read_trace_input(alone ? recordings : traces, options, trace::HostSpans::launches));
  run::Run recording = TPT_TRY(run::load(recordings[0]));
  if (!alone) {
    const auto &here = input.run.manifest.epoch_unix_ns, &there = recording.manifest.epoch_unix_ns;
    if (!here || !there)
      return error(
          fmt::format("{} has no wall clock, so it cannot be joined; trace with a profiler that "
                      "writes absolute times",
                      here ? recordings[0] : traces[0]));
    shift_spans(input.run.timeline, *here - *there);
    if (std::string said = take_ranks_from_traces(recording, input.run); !said.empty())
      input.remarks.push_back(std::move(said));
  }
  TraceReport report{.shown = {options.by.value_or("activity")}, .remarks = input.remarks};
  for (const Division& division : divisions)
    report.tables.push_back(cost_table(
        metrics::cost_of_phases(metrics::phases_of(input.timeline(), division.by), recording),
        division));
  return report;
}

}  // namespace triplepoint::trace_report
