// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"

#include "triplepoint/advise/gap_part.h"
#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/run/prediction_interval.h"
#include "triplepoint/metrics/run/step_history.h"

namespace triplepoint::advise {

/// Where the time of a mean step goes beyond what it should take:
///
///   measured = base + sum of the parts + unexplained
///
/// `base` is the predicted step; without a prediction, what the step would take without the parts.
/// Parts are disjoint.
struct Gap {
  Seconds measured, base, unexplained;
  bool is_whole_trace = false;  // no step is known: a mean rank's whole trace counts as one
  std::optional<Seconds> predicted;
  bool against_recording = false;   // what is taken as predicted is another recording
  std::string predicted_of;         // where it is not the measured run's own job
  std::vector<GapPart> parts;       // largest first
  std::vector<std::string> unlike;  // what makes the prediction one of another training
  std::vector<std::string> set_up;  // of the room and limits, where the two jobs differ
  std::vector<std::string> untold;  // what the given inputs cannot tell, and what would
  metrics::StepHistory history;
};

/// Evidence, by source:
///
///   steps       metrics::step_history: first steps, periods, tails, pauses, and, where nothing
///               else explains them, drift and levels
///   traces      idle time of each rank within its own steps (metrics::mean_steps), and calls that
///               hosts were in meanwhile; Metrics::bottlenecks of late ranks
///   recording   Metrics::bottlenecks, the one analysis of who is slow: of devices in lockstep the
///               slowest costs what it is slower than the next; clocks of all GPUs
///   prediction  one or two settings or disturbances which, simulated together and at the recorded
///               clocks, leave the marks that the traces show (gap_model.h); then the rest, by what
///               the devices do
///
/// Recorded clocks, settings and disturbances cost what the job simulated with and without them
/// says (costs_of). Where no job is known, clocks cost an upper bound.
///
/// Two measured runs that are set up otherwise: what nothing else explains is the settings', at
/// most, as long as a prediction of what they cost may be off by that much.
///
/// `predicted`: a run of the same job, null if there is none. One of another training is told in
/// `unlike`, and not used. Of several steps the mean counts, and what it loses as well (slow
/// devices, pauses, long steps) is no part.
Gap explain_gap(const run::Run& measured, const run::Run* predicted,
                const metrics::PredictionIntervals&);

/// Steps as the traces mark or repeat them, each the mean over its ranks. A profiler's last mark
/// may have no kernel in it: such steps are left out, unless none has any.
std::vector<run::StepRecord> steps_of_traces(const run::Timeline&);

/// What shows that two runs are not of the same training: "H100, predicted for H200". A setting
/// that differs shows nothing.
std::vector<std::string> unlike(const run::Run& measured, const run::Run& predicted);
/// Where inlet, cooling, power limit or clock lock of their jobs differ.
std::vector<std::string> set_up_apart(const run::Run& measured, const run::Run& predicted);

/// The answer in at most five sentences, largest cause first: what it costs, the evidence, what to
/// do, and what that would bring.
std::vector<std::string> gap_sentences(const Gap&);

/// These, the parts as a table and a bar, the times of steps as a chart, and what cannot be told.
answers::Document why_answer(const Gap&, const run::Run& measured, std::string title);

}  // namespace triplepoint::advise
