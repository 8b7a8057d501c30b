// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "triplepoint/base/files.h"

#include "triplepoint/run/export.h"

#include "triplepoint/metrics/trace/hangs.h"
#include "triplepoint/metrics/trace/phase_cost.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace_report/analyses.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::trace_report {
using namespace metrics;  // NOLINT(google-build-using-namespace): what it reports on
namespace {

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

/// One device per rank, where no recording says which.
void add_devices(run::Run& run) {
  if (!run.devices.empty()) return;
  const std::string name = value_at(run.manifest.facts, "device").value_or("");
  for (const int32_t rank : given_ranks(run.timeline))
    run.devices.push_back({.index = rank, .local = rank, .name = name, .rank = rank});
}

using Files = std::vector<std::string>;

/// One file per rank, its number before the ending: step.0.pt.trace.json, ...
Result<Files> write_ranks(const run::Run& run, const std::string& file) {
  constexpr std::string_view ending = ".pt.trace.json";
  Files written;
  const std::string stem = file.substr(0, file.size() - ending.size());
  for (int32_t rank = 0; rank < run.timeline.num_ranks; ++rank) {
    const auto [first, last] = run::detail::items_of_rank(run.timeline.spans, rank);
    if (first == last) continue;
    written.push_back(fmt::format("{}.{}{}", stem, rank, ending));
    TPT_TRY(write_file_atomically(
        written.back(), trace::write_kineto(run.timeline, rank, run.manifest.epoch_unix_ns)));
  }
  return written;
}

Result<Files> write(const run::Run& run, const std::string& file) {
  if (file.ends_with(".pt.trace.json")) return write_ranks(run, file);
  if (file.ends_with(".run")) {
    TPT_TRY(run::save(run, file));
  } else if (file.ends_with(".json")) {
    TPT_TRY(write_file_atomically(file, trace::write_merged_kineto(run)));
  } else if (file.ends_with(".pftrace") || file.ends_with(".perfetto-trace")) {
    TPT_TRY(write_file_atomically(file, run::perfetto_trace(run)));
  } else {
    return error(
        "{}: no format has this ending; write .pftrace (Perfetto), .json "
        "(Chrome), .run or .pt.trace.json (PyTorch profiler)",
        file);
  }
  return Files{file};
}

}  // namespace

Result<TraceReport> trace_join(const TraceOptions& options) {
  std::vector<std::string> traces, recordings;
  for (const std::string& file : options.files)
    (is_run_file(file) ? recordings : traces).push_back(file);
  if (recordings.size() != 1)
    return error(
        "join needs one recording (a .run) and the traces taken meanwhile, {} .run "
        "files were named; triplepoint record makes one",
        recordings.size());
  // A run that has both, as simulated ones do, joins with itself.
  const bool alone = traces.empty();
  TraceInput input =
      TPT_TRY(read_trace_input(alone ? recordings : traces, options, trace::HostSpans::launches));
  const run::Run recording = alone ? input.run : TPT_TRY(load_recording(recordings[0], input));
  TraceReport report{.shown = {options.by.value_or("activity")}, .remarks = input.remarks};
  for (const Division& division : divisions)
    report.tables.push_back(cost_table(
        metrics::cost_of_phases(metrics::phases_of(input.timeline(), division.by), recording),
        division));
  return report;
}

Result<TraceReport> trace_merge(const TraceOptions& options) {
  if (!options.output)
    return error("merge writes a file (none was named); add -o merged.pftrace, .json or .run");
  TPT_TRY(require_other_file(*options.output, options.files));
  const auto [traces, recordings] = divide(options.files);
  if (traces.empty())
    return error("merge needs traces (only recordings were named); name the ranks' traces as well");
  TraceInput input = TPT_TRY(read_trace_input(traces, options, trace::HostSpans::all));
  for (const std::string& file : recordings) {
    run::Run recording = TPT_TRY(load_recording(file, input));
    std::ranges::move(recording.series, std::back_inserter(input.run.series));
    input.run.devices = std::move(recording.devices);
  }
  add_devices(input.run);
  Files written = TPT_TRY(write(input.run, *options.output));
  TraceReport report{.remarks = input.remarks, .written = std::move(written)};
  report.headlines = {fmt::format("{} spans of {} ranks, {} series.", input.timeline().spans.size(),
                                  input.run.devices.size(), input.run.series.size())};
  return report;
}

}  // namespace triplepoint::trace_report
