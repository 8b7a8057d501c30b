// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/calibrate/node_power_runs.h"

namespace triplepoint::calibrate {

/// What a node draws over an MLPerf run, by what the benchmark does in it.
///
///   start-up | training to the first evaluation | pause | evaluation, training, evaluation ...
///   evaluation = ceil(evaluated / batch) ((step - host) forward_share + evaluation_host)
///   power of it: devices at work for its forward passes, at rest while the host prepares a batch
///
/// When a benchmark evaluates and on how much are its own rules (MLPerf Training v4.0): LoRA each
/// 384 sequences from the 1536th on, over 173; GPT-3 each 24576, over 5760; BERT's evaluations
/// cannot be seen in its power. The rest comes from two published traces, LoRA on 8 and 64 H100
/// (v4.0): start_up, pause and evaluation_host, of which evaluations on 8 nodes last 9.7 s and draw
/// 5300 W as they should.
struct NodePhases {
  struct Part {
    double seconds = 0, watts = 0;
  };
  Part rest, training, evaluating;
  Part mixed;  // evaluations shorter than the meter's reading, with the training between them
  double mean_w() const;
  double median_w() const;
};

NodePhases phases_of(const NodeRun&, const NodePace&, const NodeLevels::Side&, Seconds length);

}  // namespace triplepoint::calibrate
