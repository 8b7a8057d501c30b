// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// How a run's steps follow each other.
struct NodeStep {
  Seconds time, host;  // host: the pause of it, in which devices rest
  double batch = 1;    // sequences of a step
};

/// What one node draws, by where it is measured.
struct NodeLevels {
  struct Side {
    Watts busy, idle;
  };
  Side wall, supplied;  // before and behind the power supplies
  NodeStep step;
};

/// Simulates a job to its steady state and adds what a node is besides its devices. Errors: a GPU
/// without a model of power and heat, a job that does not fit in memory.
Result<NodeLevels> node_levels(const spec::Job&);

/// Scores what whole nodes drew while they ran a published benchmark: rows of jobs (job_rows.h)
/// with benchmark, measured_at (wall or supplied), run_s, node_mean_w, node_p50_w, energy_kwh and
/// energy_nodes.
///
/// Powers are node_power of the simulated job's devices, and of devices that wait at full clock;
/// the benchmark's protocol says how long each lasts (node_power_scores.h). Rows of one job are one
/// prediction. Quantities: node_mean_w, node_p50_w, energy_kwh.
Result<TableScores> score_node_power(const CsvTable&, const ScoreContext&);

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
void visit_fields(auto& visit, RunProtocol& protocol) {
  visit("start_up", protocol.start_up, spec::Need::required);
  visit("evaluation_host", protocol.evaluation_host, spec::Need::required);
  visit("reading", protocol.reading, spec::Need::required);
}
void visit_fields(auto& visit, RunProtocol::Benchmark& benchmark) {
  visit("name", benchmark.name, spec::Need::required);
  visit("first", benchmark.first, spec::Need::required);
  visit("between", benchmark.between, spec::Need::required);
  visit("evaluated", benchmark.evaluated, spec::Need::required);
  visit("forward_share", benchmark.forward_share, spec::Need::required);
  visit("pause", benchmark.pause, spec::Need::required);
}

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
NodePhases phases_of(const RunProtocol&, const std::string& benchmark, const NodeStep&,
                     const NodeLevels::Side&, Seconds length);

}  // namespace triplepoint::calibrate
