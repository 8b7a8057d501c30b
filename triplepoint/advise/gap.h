// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/step_history.h"

namespace triplepoint::advise {

/// One cause of a slow step, and what it costs.
struct GapPart {
  std::string cause;     // "heat", "overlap_gradient", "periodic": stable names for programs
  std::string what;      // "GPU 3 slows the others: 1,008 MHz against 1,850 MHz (power limit, ...)"
  std::string seen_in;   // "recording", "traces", "steps", "prediction"
  Seconds cost;          // of a mean step; below zero: it is faster than predicted there
  bool at_most = false;  // the evidence gives an upper bound only
  std::optional<double> probability;  // that a pattern of steps is more than chance
  std::string advice;                 // what to do
  std::string confirm = {};           // what a sensor would have to show
};

/// Where the time of a mean step goes beyond what it should take:
///
///   measured = base + sum of the parts + unexplained
///
/// `base` is the predicted step; without a prediction, what the step would take without the parts.
/// Parts are disjoint.
struct Gap {
  Seconds measured, base, unexplained;
  std::optional<Seconds> predicted;
  std::vector<GapPart> parts;       // largest first
  std::vector<std::string> untold;  // what the given inputs cannot tell, and what would
  metrics::StepHistory history;
};

/// Evidence, in this order (but calls that say why devices idle come first, as they are measured);
/// each part takes at most what the ones before have left:
///
///   steps       metrics::step_history: first steps, periods, tails, pauses, and, where nothing
///               else explains them, drift and levels
///   recording   Metrics::bottlenecks, the one analysis of who is slow: of devices in lockstep the
///               slowest costs what it is slower than the next; clocks of all GPUs
///   traces      Metrics::bottlenecks of late ranks; Metrics::parts against the prediction's
///   prediction  the same job with one or two settings or faults changed, simulated: named if they
///               explain most of what kernels and parts of the step differ by, and no others do as
///               well; one whose degree is a guess costs its own share of that
///
/// `predicted`: a run of the same job, null if there is none; settings are tried on its job.
Gap explain_gap(const run::Run& measured, const run::Run* predicted);

/// "2.31 s", "4.04 ms".
std::string time_of(Seconds);

/// A change of a job that would explain a slow step.
struct JobVariant {
  std::string cause, what, advice;
  spec::Job job;
  bool has_degree = false;  // its amount is a guess
};
/// Those that make sense for the job and leave it valid.
std::vector<JobVariant> variants_of(const spec::Job&);

/// What a step consists of, for comparing one with another, in seconds: kernels by class (the first
/// with waiting), exposed communication, idle time. Empty where the metrics do not know them.
inline constexpr size_t computing_mark = 0, idle_mark = 6;
std::vector<double> fingerprint(const metrics::Metrics&);

/// A variant, how much of what it changes is seen (1 where it has no degree), and its run's
/// metrics.
struct Match {
  JobVariant variant;
  double share = 1;
  metrics::Metrics metrics;
};
/// The variant whose change of the fingerprint the measured one resembles; the two whose changes
/// add up to it, where that explains much more. Of several nearly as good ones what they share.
std::vector<Match> matching_variants(const spec::Job& predicted_job,
                                     const std::vector<double>& fingerprint_seen,
                                     const metrics::Metrics& predicted);

}  // namespace triplepoint::advise
