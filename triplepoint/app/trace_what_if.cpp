// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/trace_what_if.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/trace_report/input.h"
#include "triplepoint/trace_report/operator_work.h"

namespace triplepoint::app {
namespace {

using run::SpanKind;

/// What of a timeline is compared; seconds. Of ranks: the mean.
struct Summary {
  double length = 0, step = 0;
  double compute = 0, memory = 0, other = 0, communication = 0, copy = 0, idle = 0;
  int64_t steps = 0;  // of all ranks
  double steps_of_a_rank = 0;

  /// Steps one after the other take longer than all of it: they lie beside each other.
  bool has_overlapping_steps() const { return step * steps_of_a_rank > 1.01 * length; }
};

bool is_device(SpanKind kind) {
  return kind <= SpanKind::other || kind == SpanKind::copy;
}

double* part_of(Summary& summary, SpanKind kind) {
  switch (kind) {
    case SpanKind::compute:
      return &summary.compute;
    case SpanKind::memory:
      return &summary.memory;
    case SpanKind::other:
      return &summary.other;
    case SpanKind::communication:
      return &summary.communication;
    case SpanKind::copy:
      return &summary.copy;
    default:
      return nullptr;
  }
}

/// Time without any device span between a rank's first and last one. Spans of a rank stand in order
/// of begin.
class IdleTime {
 public:
  void add(const run::Span& span) {
    const int64_t begin = span.begin.nanoseconds();
    if (rank_ == span.rank && begin > busy_until_) idle_ += begin - busy_until_;
    busy_until_ =
        rank_ == span.rank ? std::max(busy_until_, span.end.nanoseconds()) : span.end.nanoseconds();
    rank_ = span.rank;
  }
  double seconds() const { return static_cast<double>(idle_) * 1e-9; }

 private:
  int32_t rank_ = -1;
  int64_t busy_until_ = 0, idle_ = 0;
};

Summary summarize(const run::Timeline& timeline) {
  Summary all;
  IdleTime idle;
  std::set<int32_t> with_kernels, with_steps;  // a run of many may hold the spans of some
  for (const run::Span& span : timeline.spans) {
    const SpanKind kind = timeline.types[static_cast<size_t>(span.type)].kind;
    const double seconds = (span.end - span.begin) / unit::s;
    if (double* part = part_of(all, kind)) *part += seconds;
    if (is_device(kind)) {
      idle.add(span);
      with_kernels.insert(span.rank);
    }
    if (kind != SpanKind::step) continue;
    all.step += seconds;
    ++all.steps;
    with_steps.insert(span.rank);
  }
  if (all.steps > 0) {
    all.step /= static_cast<double>(all.steps);
    all.steps_of_a_rank = static_cast<double>(all.steps) / static_cast<double>(with_steps.size());
  }
  all.idle = idle.seconds();
  const auto ranks = static_cast<double>(std::max<size_t>(1, with_kernels.size()));
  for (double* part :
       {&all.compute, &all.memory, &all.other, &all.communication, &all.copy, &all.idle})
    *part /= ranks;
  if (const auto extent = run::extent(timeline))
    all.length = (extent->end - extent->begin) / unit::s;
  return all;
}

/// `origin`: "measured" or "simulated".
DataTable comparison(const Summary& before, const Summary& after, std::string_view origin) {
  DataTable table{.name = "replay",
                  .title = fmt::format("{} and what-if (kernels and idle: mean of ranks)", origin),
                  .columns = {{"what", "what"},
                              {"measured_s", fmt::format("{} ms", origin), 1e-3, 3},
                              {"replayed_s", "replayed ms", 1e-3, 3},
                              {"change", "change %", 1e-2, 2}},
                  .rows = {}};
  const auto add = [&](const char* what, double was, double is) {
    DataCell change = Missing{"nothing to compare with"};
    if (was > 0) change = is / was - 1;
    table.add({std::string(what), was, is, change});
  };
  add("first begin to last end", before.length, after.length);
  if (before.steps > 0) add("training step, mean", before.step, after.step);
  add("compute kernels", before.compute, after.compute);
  add("memory kernels", before.memory, after.memory);
  if (before.other > 0) add("other kernels", before.other, after.other);
  add("collectives, waiting included", before.communication, after.communication);
  add("copies", before.copy, after.copy);
  add("device idle", before.idle, after.idle);
  return table;
}

std::vector<std::string> remarks_of(const trace_report::TraceInput& input,
                                    const sim::TraceWhatIf& replayed) {
  std::vector<std::string> remarks = input.remarks;
  if (replayed.single > 0)
    remarks.push_back(
        fmt::format("{} collectives are recorded on one rank only: they keep their duration, "
                    "waiting included; give "
                    "the traces of all ranks",
                    replayed.single));
  if (input.skipped.events > 0)
    remarks.push_back(
        fmt::format("{} events of the traces could not be read", input.skipped.events));
  return remarks;
}

Json whole_json(const DataTable& table, const sim::TraceWhatIf& replayed,
                const std::vector<std::string>& remarks) {
  Json json;
  json["schema"] = "triplepoint-replay-1";
  json["replay"] = table_json(table);
  json["rendezvous"] = replayed.rendezvous;
  json["single_collectives"] = replayed.single;
  json["host_waits"] = replayed.waits;
  json["inferred"] = replayed.inferred;
  json["remarks"] = remarks;
  return json;
}

run::Run run_of(trace_report::TraceInput input, sim::TraceWhatIf replayed) {
  run::Run run = std::move(input.run);
  run.manifest.origin = run::Origin::simulated;
  run.manifest.fidelity = run::Fidelity::step;
  run.manifest.name += " (replayed)";
  run.manifest.facts["replay"] = "of a " + input.format + " trace";
  run.timeline = std::move(replayed.timeline);
  run.series.clear();  // what was measured then says nothing of now
  run.summaries.clear();
  run.steps.clear();
  for (const run::Span& span : run.timeline.spans)
    if (run.timeline.types[static_cast<size_t>(span.type)].kind == SpanKind::step && span.rank == 0)
      run.steps.push_back({.begin = span.begin, .end = span.end});
  return run;
}

}  // namespace

Result<TraceComparison> trace_what_if(const std::vector<std::string>& traces,
                                      const sim::TraceScaling& scaling,
                                      const std::optional<std::string>& measured_on) {
  trace_report::TraceInput input = TPT_TRY(
      trace_report::read_trace_input(traces, trace_report::TraceOptions{}, trace::HostSpans::all));
  const auto own = trace_report::gpu_of_traces(TPT_TRY(spec::require_library()), input.run);
  if (own && measured_on && *own != spec::gpu_named(*measured_on).value_or(*own))
    input.remarks.insert(
        input.remarks.begin(),
        fmt::format("the traces name a GPU of kind {}, --measured-on one of kind {}: factors are "
                    "those of the latter",
                    *own, *measured_on));
  sim::TraceWhatIf replayed = sim::what_if_from_trace(input.timeline(), scaling);
  const Summary before = summarize(input.timeline()), after = summarize(replayed.timeline);
  TraceComparison answer;
  // The mark of a single step is its host's, which may end before the device does.
  const bool of_steps = before.steps_of_a_rank > 1 && after.steps > 0;
  const double was = of_steps ? before.step : before.length,
               is = of_steps ? after.step : after.length;
  const std::string origin(run::name_of(input.run.manifest.origin));
  answer.headline = fmt::format("{}{:.3f} ms {}, {:.3f} ms what-if ({:+.2f} %).",
                                of_steps ? "A step: " : "The trace: ", was * 1e3, origin, is * 1e3,
                                was > 0 ? 100 * (is / was - 1) : 0.);
  answer.table = comparison(before, after, origin);
  answer.remarks = remarks_of(input, replayed);
  if (after.has_overlapping_steps() && !before.has_overlapping_steps())
    answer.remarks.push_back(
        "steps of the what-if overlap: nothing in the trace makes a step's kernels wait for the "
        "collectives of the step before, so all steps together take less than one after the other");
  answer.json = whole_json(answer.table, replayed, answer.remarks);
  answer.run = run_of(std::move(input), std::move(replayed));
  return answer;
}

}  // namespace triplepoint::app
