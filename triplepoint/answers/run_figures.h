// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/data_table.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/answers/figures.h"
#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/economics/bill.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/metrics/run/power_profile.h"
#include "triplepoint/metrics/run/prediction_interval.h"

namespace triplepoint::answers {

/// All of a run over time, whose metrics are those of its last step; nothing of a steady state.
struct WholeRun {
  metrics::FaultSpan span;
  // Until the last step ends; the time in which training stands still counts.
  std::optional<Seconds> time_per_step;
  std::optional<double> gpu_joules_per_token;
};
std::optional<WholeRun> whole_run_of(const run::Run&);

/// What a person asks first of a run: step time, speed, utilization, power, energy, heat, clock.
/// Figures that the run does not know are left out.
std::vector<KeyFigure> key_figures(const run::Run&, const metrics::Metrics&);
/// Of a predicted step time, in seconds.
std::optional<metrics::Interval> interval_of(const run::Run&);

/// "gpt3-175b on 32 x H200: TP8-PP4, base, microbatch 1"; the run's name where no job is known.
std::string title_of(const run::Run&);
/// Whether the job runs: "fits in memory: the fullest GPU (stage 0) needs 109 GiB of 140 GiB", "out
/// of memory: ...", or that a GPU shuts down. Empty where memory is not known.
struct RunVerdict {
  std::string words, numbers;
  Style style = Style::plain;
  std::string sentence() const { return words.empty() ? "" : capitalized(words) + numbers + "."; }
};
RunVerdict run_verdict(const run::Run&);

/// Memory of each stage's fullest GPU in GiB; kernel seconds of each stage and of all.
/// " Likely 294-584 days and 354-705 MWh (80 % interval).": of a bill, as its step time lies.
std::string likely_bill_text(const metrics::Bill&, double step_s,
                             const std::optional<metrics::Interval>& step_time);
/// The GPUs that change most with each fault, and the whole of a run over time and its faults'
/// before, during and after. Of a steady state all faults together, beside the same job without
/// them. fault_text.cpp.
Section faults_section(const run::Run&, const run::Run* fault_free = nullptr);
/// What faults cost, and who waits for whom: one of a run over time, all of a steady state.
std::string fault_sentence(const run::Run&, const std::vector<spec::Fault>&,
                           const metrics::FaultEffect&, bool steady);
DataTable memory_table(const run::Run&);
DataTable stage_table(const run::Run&, const metrics::Metrics&);

/// Swing, ramps and peaks of a node, a rack and all nodes within a step, and what smoothing would
/// cost. power_section.cpp.
Section power_section(const metrics::PowerProfile&);

/// Every number of the catalogue that has a label and is known: label, value, unit.
DataTable all_figures(const run::Run&, const metrics::Metrics&);

/// "throttled 41 % by the power cap", "not throttled", or that no reasons were recorded.
std::string throttle_text(const metrics::Metrics&);
/// "80 %: 19.4-23.6"
std::string interval_text(const metrics::Interval&);

/// Between hot and cool slots, to be worth words: boards in equal slots differ by as much.
inline constexpr double least_slot_gap_c = 2;
/// "hot slots 72.0, cool slots 58.5"; empty where they differ by less.
std::string slots_text(const metrics::Metrics&);

}  // namespace triplepoint::answers
