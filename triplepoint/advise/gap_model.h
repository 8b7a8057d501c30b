// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/advise/gap_part.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/trace/own_time.h"
#include "triplepoint/metrics/trace/trace_steps.h"

namespace triplepoint::advise {

/// A change of a job that would explain a slow step: a setting, or a disturbance of some degree.
struct JobVariant {
  std::string cause, what, advice;  // "{}" in `what`: the degree
  std::function<void(spec::Job&, double degree)> change;
  double degree = 0;                             // above 0; how bad, to begin with
  std::string (*degree_text)(double) = nullptr;  // null: it is there or not

  bool has_degree() const { return degree_text != nullptr; }
  spec::Job of(spec::Job job, double how_bad) const {
    change(job, how_bad);
    return job;
  }
  std::string text(double how_bad) const {
    return has_degree() ? fmt::format(fmt::runtime(what), degree_text(how_bad)) : what;
  }
};
/// Those that make sense for the job and leave it valid.
std::vector<JobVariant> variants_of(const spec::Job&);

/// What a step consists of, in seconds: kernels by class (the first with waiting), exposed
/// communication, idle time. Empty where the metrics do not know them.
using Marks = std::vector<double>;
inline constexpr size_t computing_mark = 0, idle_mark = 6;
Marks marks_of(const metrics::Metrics&);
/// One minus the other.
Marks difference_of(const Marks&, const Marks&);

metrics::Metrics simulated_metrics(const spec::Job&);

/// A variant, and how bad it is.
struct Match {
  JobVariant variant;
  double degree = 0;
  void apply_to(spec::Job& job) const { variant.change(job, degree); }
};
/// One or two variants which, simulated together at the degrees that fit best, add to the job's
/// marks what is seen beyond them; of several nearly as good ones what they share.
///
/// `plain`: marks of the job as simulated. `seen`: what is seen beyond them. `step`: of the job.
std::vector<Match> matching_variants(const spec::Job& job, const Marks& plain, const Marks& seen,
                                     Seconds step);

/// What each change of a job costs a step: the mean of what it costs alone and beside all others,
/// so that they add up to what all of them cost.
using JobChange = std::function<void(spec::Job&)>;
std::vector<Seconds> costs_of(const spec::Job&, const std::vector<JobChange>&);

// ---- gap_idle.cpp

/// Idle time of the mean rank's mean step, by what came before the next kernel: what the host was
/// at only where it launched late and the trace has its calls; else that the cause is not known.
std::vector<GapPart> parts_of_idle(const std::vector<metrics::MeanStep>& ranks,
                                   const std::optional<metrics::GapCalls>&);
/// Share of idle time in calls of one kind from which on they are named.
inline constexpr double most_of_idle = 0.4;
/// What the host was at during some idle time, or during a share of it.
enum class Calls : uint8_t { all_of_it, share_of_it };
void name_host_calls(const metrics::GapCalls&, GapPart&, Calls);
/// Of a recording's long steps, or of its pauses: the innermost marked region that takes most of
/// what they are longer than usual, in the rank where it takes most.
void name_marked_region(const run::Run&, const metrics::StepPattern&, GapPart&);

/// What at least half of the ranks waited.
Seconds usual_core_wait(const std::map<int32_t, Seconds>&);
/// A part that ranks lose to other programs on their cores.
GapPart part_of_core_waits(std::string what, Seconds cost);

// ---- gap_rest.cpp

/// Where traces mark no passes, launch gaps inside them look like the schedule's.
Seconds idle_of(const metrics::StepParts&);

/// What has a cause already: of slow ranks, of clocks that cannot be simulated, of waits for cores,
/// and in host calls.
struct Explained {
  Seconds ranks, clocks, cores, idle_in_calls, waiting_in_calls;
};
/// Of one thing that devices do: what is expected, and what is seen beyond it and has no cause.
struct Excess {
  size_t part = 0;  // place in the list of what devices do
  bool is_idle = false;
  Seconds own, usual, excess;
};
/// What is expected: the prediction, and what the named changes make of it by simulation.
std::vector<Excess> excesses_of(const metrics::StepParts& seen, const metrics::StepParts& plain,
                                const metrics::StepParts& before, const metrics::StepParts& after,
                                const Explained&);
/// What takes longer in one proportion, each within a third of the factor, has one part: none of
/// it is a cause itself. Nothing where that is not so, or one thing is all that a step consists of.
/// `knows_clocks`: of both, so that none of it is a clock's.
std::optional<GapPart> part_of_one_factor(const std::vector<Excess>&, bool against_recording,
                                          bool knows_clocks);
/// `expected`: "predicted", or whose else the usual time is.
GapPart part_of(const Excess&, std::string_view expected);

// ---- gap_clocks.cpp

/// What some clocks of a recording show, and how a job gets the same clocks.
struct ClockCause {
  struct Held {
    size_t device = 0;      // place in the run's devices
    bool by_power = false;  // else by heat, a lock, or it is not known
  };
  std::vector<GapPart> parts;  // with upper bounds; of slow GPUs one for each reason
  std::vector<Held> held;
};

/// A run of several steps that another is compared with: what it loses as well is no part of the
/// difference.
struct OtherRun {
  const run::Run& run;
  const metrics::Metrics& metrics;
};

/// Late ranks of traces, slow links and hosts of a recording: as measured; how a job gets the same
/// links and hosts.
struct OtherCause {
  GapPart part;
  std::optional<JobChange> change;
};
std::vector<OtherCause> causes_of_others(const run::Run&, const metrics::Metrics& seen,
                                         const std::optional<OtherRun>&);
/// Of levels of the step time: the GPUs whose clocks were slow in the slowest of them and are not
/// `named` yet, by the recording of that time. Whether there are any.
bool name_slow_devices(const run::Run&, const metrics::StepPattern&,
                       const std::vector<int32_t>& named, GapPart&);
/// Whether the clock of a slow GPU is low in the single long steps, which are then no others.
bool is_of_clocks(const metrics::StepPattern&, const run::Run&, const metrics::Metrics& seen,
                  Seconds base);
/// Slow GPUs of a recording; against a prediction also all the others, if they run below the
/// predicted clock, or boards that differ more than predicted.
std::vector<ClockCause> clock_causes(const run::Run&, const metrics::Metrics& seen,
                                     const metrics::Metrics* predicted, bool against_recording,
                                     const std::optional<OtherRun>&);

/// Holds these devices at their recorded clocks: by power limits at which the job, as simulated,
/// has these mean clocks, or by locks. Nothing where the job's GPU has no clocks.
std::optional<JobChange> change_of(const ClockCause&, const run::Run&, const metrics::Metrics& seen,
                                   const spec::Job&);

}  // namespace triplepoint::advise
