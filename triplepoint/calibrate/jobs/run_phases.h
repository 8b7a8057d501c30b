// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/jobs/node_levels.h"

namespace triplepoint::calibrate {

/// What a run does besides training, by the rules of its benchmark and by published traces.
struct RunProtocol {
  /// When a benchmark evaluates and on how much, in sequences.
  struct Benchmark {
    std::string name;
    double first = 0, between = 0, evaluated = 0;
    double forward_share = 0;  // of a step
    Seconds pause;             // before the first evaluation, at rest
  };
  Seconds start_up;         // before the first step, at rest
  Seconds evaluation_host;  // the host's own time for each batch of an evaluation
  Seconds reading;          // a meter's: what ends sooner is seen mixed with what follows
  std::vector<Benchmark> benchmarks;

  const Benchmark* find(const std::string& benchmark) const;
};

/// data/calibrations/mlperf_power.toml.
Result<RunProtocol> load_run_protocol(const spec::Library&);

/// What a node draws over an MLPerf run, by what the benchmark does in it.
///
///   start-up | training to the first evaluation | pause | evaluation, training, evaluation ...
///   evaluation = ceil(evaluated / batch) ((step - host) forward_share + evaluation_host)
///   power of it: devices at work for its forward passes, at rest while the host prepares a batch
///
/// BERT's evaluations cannot be seen in its power, so it has no protocol. Evaluations on 8 nodes
/// last 9.7 s and draw 5300 W as they should.
struct NodePhases {
  struct Part {
    double seconds = 0, watts = 0;
  };
  Part rest, training, evaluating;
  Part mixed;  // evaluations shorter than the meter's reading, with the training between them
  double mean_w() const;
  double median_w() const;
};

/// benchmark: its name in the protocol; one without a protocol trains all the time.
NodePhases phases_of(const RunProtocol&, const std::string& benchmark, const NodePace&,
                     const NodeLevels::Side&, Seconds length);

}  // namespace triplepoint::calibrate
