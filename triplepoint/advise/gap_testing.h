// SPDX-License-Identifier: Apache-2.0
#pragma once

// Jobs and recordings for the tests of gaps.

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/job_testing.h"

#include "triplepoint/advise/gap.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {

inline Gap gap_of(const run::Run& measured, const run::Run* predicted) {
  static const auto intervals = metrics::PredictionIntervals::load(spec::default_library()).value();
  return explain_gap(measured, predicted, intervals);
}

/// On H200s, with one sequence to a microbatch and the optimizer's state sharded, gradients in 16
/// bits.
inline spec::Job job_of(const char* model, int nodes, int batch, const char* plan) {
  return spec::job_of_text(
      fmt::format("model = \"{}\"\ncluster = \"hgx-h200\"\nnodes = {}\n[plan]\n"
                  "global_batch_size = {}\nmicro_batch_size = 1\n"
                  "sharding = \"optimizer\"\noptimizer = \"distributed_fused_adam_bf16\"\n{}",
                  model, nodes, batch, plan));
}

/// Two nodes whose gradients are reduced behind the backward pass.
inline const spec::Job& dense_job() {
  static const spec::Job job =
      job_of("llama3-8b", 2, 32, "tensor_parallel_size = 2\noverlap_gradient = true\n");
  return job;
}

inline const spec::Job& expert_job() {
  static const spec::Job job = job_of("qwen3-30b-a3b", 2, 32,
                                      "tensor_parallel_size = 2\nexpert_parallel_size = 4\n"
                                      "pipeline_parallel_size = 2\n");
  return job;
}

struct Sources {
  bool recording = true, traces = true;
};

inline constexpr size_t recorded_steps = 60;

/// A platform's brake shows another bit than a lower limit, and the limit stays.
inline void show_as_brake(const spec::Job& job, run::Run& run) {
  for (const spec::Fault& fault : job.environment.faults)
    for (run::DeviceSummary& summary : run.summaries) {
      const size_t d = as_size(&summary - run.summaries.data());
      const bool is_hit =
          fault.kind == spec::FaultKind::power && fault.node && *fault.node == run.devices[d].node;
      if (is_hit)
        std::swap(summary.throttle["hardware_power_brake"], summary.throttle["software_power_cap"]);
    }
}

/// What a recorder, or a profiler beside it, would have of this job: sixty steps which scatter.
inline run::Run recorded(spec::Job job, uint64_t seed, Sources sources) {
  job.environment.seed = seed;
  run::Run run = sim::simulate(job, {});
  REQUIRE(run::has_trained(run));
  const Seconds length = *metrics::measure(run).step_time;
  show_as_brake(job, run);
  run.manifest.job->environment.faults.clear();
  for (const run::Device& device : run.devices)
    if (const auto limit = metrics::power_limit_w(run, as_size(device.index)))
      run.series.push_back({"power_limit_w", device.index, false, {Instant()}, {*limit}});
  run.manifest.origin = run::Origin::measured;
  run.manifest.job.reset();
  run.bottlenecks.clear();
  run.numbers = {};
  run.numbers.world_size = job.world_size();  // of which traces show the first replica
  run.timeline = run::expand(run.timeline);
  if (!sources.traces) run.timeline = {};
  if (!sources.recording) run.series.clear(), run.summaries.clear(), run.devices.clear();
  run.steps.clear();
  Instant time;
  for (uint64_t i = 0; i < recorded_steps; ++i) {
    const Seconds own = (1 + 0.002 * random_normal({seed, 9}, i)) * length;
    run.steps.push_back({time, time + own, 0, 0});
    time = time + own;
  }
  return run;
}

/// Longer steps, by number.
inline void lengthen(run::Run& run, const std::function<Seconds(size_t)>& by) {
  Seconds sum;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    run.steps[i].begin = run.steps[i].begin + sum;
    sum += by(i);
    run.steps[i].end = run.steps[i].end + sum;
  }
}

inline const run::Run& prediction_of(const spec::Job& job) {
  static std::map<const spec::Job*, run::Run> all;
  const auto [found, is_new] = all.try_emplace(&job);
  if (is_new) found->second = sim::simulate(job, {});
  return found->second;
}

/// Parts, base and what remains are the whole step.
inline void check_sum(const Gap& gap) {
  Seconds sum = gap.base + gap.unexplained;
  for (const GapPart& part : gap.parts)
    sum += part.cost;
  CHECK(sum / gap.measured == doctest::Approx(1).epsilon(1e-9));
  CHECK(gap_sentences(gap).size() <= 5);
}

}  // namespace triplepoint::advise
