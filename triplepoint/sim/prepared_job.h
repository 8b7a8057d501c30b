// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "triplepoint/sim/step_model.h"
#include "triplepoint/workload/work_graph.h"

namespace triplepoint::sim {

/// A job with all that is computed from it once. Stays where it is: its parts point at each other.
struct PreparedJob {
  explicit PreparedJob(const spec::Job& the_job)
      : PreparedJob(the_job, workload::build_work_graph(the_job)) {}
  PreparedJob(const spec::Job& the_job, workload::WorkGraph the_graph)
      : job(the_job), graph(std::move(the_graph)), model(job, graph) {}
  ~PreparedJob() = default;
  PreparedJob(const PreparedJob&) = delete;
  PreparedJob& operator=(const PreparedJob&) = delete;
  PreparedJob(PreparedJob&&) = delete;
  PreparedJob& operator=(PreparedJob&&) = delete;

  const spec::Job job;
  const workload::WorkGraph graph;
  StepModel model;
};

}  // namespace triplepoint::sim
