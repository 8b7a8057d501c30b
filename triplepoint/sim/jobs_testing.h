// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pipelines for the schedule tests.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/job_testing.h"

#include "triplepoint/sim/simulate_schedule.h"

namespace triplepoint::sim {

/// Random choices in turn, the same everywhere.
class Rng {
 public:
  explicit Rng(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_bits({seed_, 0}, turn_++) % static_cast<uint64_t>(n));
  }
  double between(double low, double high) {
    return low + (high - low) * random_uniform({seed_, 1}, turn_++);
  }

 private:
  uint64_t seed_, turn_ = 0;
};

/// Everything simulate_schedule() needs, kept together.
struct TestJob {
  std::deque<std::vector<workload::StageProgram>> programs;  // a deque never moves them
  std::vector<std::vector<StageTimes>> pipelines;
  std::vector<std::vector<StageBoundaries>> boundaries;
  std::vector<BytesPerSecond> capacities;
  ScheduleRules rules;

  Wiring wiring(SendMode mode = SendMode::blocking,
                FlowChoice choice = FlowChoice::where_links_bind) const {
    return {boundaries, capacities, mode, choice};
  }
  std::vector<std::vector<StageTimeline>> timelines(
      SendMode mode = SendMode::blocking, FlowChoice choice = FlowChoice::where_links_bind) const {
    return simulate_schedule(pipelines, wiring(mode, choice), rules);
  }
};

/// Adds a pipeline; `boundary` is taken for every way.
inline void add_pipeline(TestJob& job, std::vector<workload::StageProgram> programs, size_t chunks,
                         Seconds forward, Seconds backward, const Boundary& boundary) {
  const auto& kept = job.programs.emplace_back(std::move(programs));
  std::vector<StageTimes> times;
  for (const workload::StageProgram& program : kept) {
    times.push_back({.program = &program});
    times.back().durations.assign(chunks, {forward, backward, forward, forward});
  }
  job.pipelines.push_back(std::move(times));
  job.boundaries.emplace_back(kept.size(), StageBoundaries{boundary, boundary});
}

/// A send that takes a fixed time, whatever others do.
inline Boundary fixed_send(Seconds time) {
  return {.bytes_per_rank = 1 * unit::MB, .transfer = time};
}

inline Seconds finish_of(const std::vector<StageTimeline>& pipeline) {
  return most_of(pipeline, &StageTimeline::finish);
}

inline Seconds arrival_of(const ActionTimes& action) {
  return action.end + action.queued + action.sent;
}

/// Some pipelines of any schedule on a few nodes; stages cross from node to node over shared links.
inline TestJob random_job(uint64_t seed) {
  Rng rng(seed);
  TestJob job;
  const int64_t nodes = 2 + rng.below(3);
  for (int64_t link = 0; link < 2 * nodes; ++link)
    job.capacities.push_back(rng.between(5, 20) * unit::GB / unit::s);
  const int64_t pipelines = 1 + rng.below(4), stages = 2 + rng.below(4);
  const int64_t rounds = 1 + rng.below(3);
  const auto schedule = static_cast<spec::Schedule>(rng.below(4));
  const int64_t chunks = schedule == spec::Schedule::interleaved ? 2 : 1;
  job.rules = {.gap = rng.between(0, 1e-4) * unit::s, .start = 1 * unit::ms};
  for (int64_t p = 0; p < pipelines; ++p) {
    add_pipeline(job, workload::build_schedule(schedule, stages, stages * rounds, chunks),
                 as_size(chunks), rng.between(0.5, 1) * unit::ms, rng.between(1, 2) * unit::ms, {});
    const auto node_of = [&](int64_t stage) { return (stage + stages) % stages % nodes; };
    const auto boundary = [&](int64_t from, int64_t to) {
      Boundary on_wire{.bytes_per_rank = rng.between(0.5, 4) * unit::MB,
                       .latency = rng.between(0, 50) * unit::us,
                       .transfer = rng.between(0.1, 0.4) * unit::ms};
      const auto ranks = static_cast<int32_t>(1 + rng.below(2));
      if (node_of(from) != node_of(to))
        on_wire.links = {{static_cast<int32_t>(2 * node_of(from)), ranks},
                         {static_cast<int32_t>(2 * node_of(to) + 1), ranks}};
      return on_wire;
    };
    for (int64_t s = 0; s < stages; ++s)
      job.boundaries.back()[as_size(s)] = {boundary(s, s + 1), boundary(s, s - 1)};
  }
  return job;
}

/// Equal to the last bit.
inline bool same_bits(const std::vector<StageTimeline>& a, const std::vector<StageTimeline>& b) {
  const auto same_action = [](const ActionTimes& x, const ActionTimes& y) {
    return x.action == y.action && x.ready == y.ready && x.begin == y.begin && x.end == y.end &&
           x.queued == y.queued && x.sent == y.sent;
  };
  const auto same_stage = [&](const StageTimeline& x, const StageTimeline& y) {
    return x.finish == y.finish && x.waited == y.waited && x.sent == y.sent &&
           x.worked == y.worked &&
           std::equal(x.actions.begin(), x.actions.end(), y.actions.begin(), y.actions.end(),
                      same_action);
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_stage);
}

// Jobs for the tests of the step.

/// Llama 3 8B on two nodes of eight GPUs; another layout, and other boards, for every seed.
inline spec::Job random_training_job(uint64_t seed) {
  uint64_t drawn = 0;
  const auto below = [&](uint64_t n) { return random_bits({seed, 7}, drawn++) % n; };
  const int64_t tensor = int64_t{2} << below(3), pipeline = int64_t{1} << below(2);
  const int64_t replicas = 16 / tensor / pipeline;
  const char* recompute = below(2) == 0 ? "selective" : "full";
  const char* cluster = below(2) == 0 ? "hgx-h200" : "hgx-h100";
  const bool overlaps = pipeline > 1 && below(2) == 0;
  const spec::Job job = spec::job_of_text(
      fmt::format("model = \"llama3-8b\"\ncluster = \"{}\"\nnodes = 2\n[plan]\n"
                  "tensor_parallel_size = {}\npipeline_parallel_size = {}\n"
                  "global_batch_size = {}\nrecompute = \"{}\"\nsharding = \"{}\"\n"
                  "overlap_pipeline = {}\n[environment]\nseed = {}\n",
                  cluster, tensor, pipeline, 8 * replicas, recompute,
                  replicas > 1 ? "optimizer" : "none", overlaps, seed));
  REQUIRE_FALSE(spec::has_errors(spec::diagnose(job)));
  return job;
}

}  // namespace triplepoint::sim
