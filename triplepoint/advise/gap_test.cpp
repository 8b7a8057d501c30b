// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/gap.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/advise/why_answer.h"
#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;

spec::Job parsed(const char* text) {
  auto job = spec::parse_job(spec::default_library(), text, "job.toml");
  REQUIRE(job.has_value());
  return *std::move(job);
}

/// Two nodes whose gradients are reduced behind the backward pass.
const spec::Job& dense_job() {
  static const spec::Job job = parsed(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 2
global_batch_size = 32
micro_batch_size = 1
sharding = "optimizer"
overlap_gradient = true
)");
  return job;
}

/// Two stages, one on each node.
const spec::Job& pipeline_job() {
  static const spec::Job job = parsed(R"(
model = "llama3-8b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 2
pipeline_parallel_size = 2
global_batch_size = 16
micro_batch_size = 1
sharding = "optimizer"
)");
  return job;
}

const spec::Job& expert_job() {
  static const spec::Job job = parsed(R"(
model = "qwen3-30b-a3b"
cluster = "hgx-h200"
nodes = 2
[plan]
tensor_parallel_size = 2
expert_parallel_size = 4
pipeline_parallel_size = 2
global_batch_size = 32
micro_batch_size = 1
sharding = "optimizer"
)");
  return job;
}

/// Kernels as short as their launches.
const spec::Job& short_kernels_job() {
  static const spec::Job job = parsed(R"(
model = "gpt3-1.3b"
cluster = "hgx-h200"
nodes = 4
[plan]
tensor_parallel_size = 8
global_batch_size = 32
micro_batch_size = 1
)");
  return job;
}

struct Sources {
  bool recording = true, traces = true;
};

/// A platform's brake shows another bit than a lower limit, and the limit stays.
void show_as_brake(const spec::Job& job, run::Run& run) {
  for (const spec::Fault& fault : job.environment.faults)
    for (run::DeviceSummary& summary : run.summaries) {
      const size_t d = static_cast<size_t>(&summary - run.summaries.data());
      const bool is_hit =
          fault.kind == spec::FaultKind::power && fault.node && *fault.node == run.devices[d].node;
      if (is_hit)
        std::swap(summary.throttle["hardware_power_brake"], summary.throttle["software_power_cap"]);
    }
}

/// What a recorder, or a profiler beside it, would have of this job: sixty steps which scatter.
run::Run recorded(spec::Job job, uint64_t seed, Sources sources) {
  job.environment.seed = seed;
  run::Run run = sim::simulate(job, {.duration = {}, .steps = {}});
  REQUIRE(run::has_trained(run));
  const Seconds length = *metrics::measure(run).step_time;
  show_as_brake(job, run);
  run.manifest.job->environment.faults.clear();
  for (const run::Device& device : run.devices)
    if (const auto limit = metrics::power_limit_w(run, static_cast<size_t>(device.index)))
      run.series.push_back({"power_limit_w", device.index, false, {Instant()}, {*limit}});
  run.manifest.origin = run::Origin::measured;
  run.manifest.job.reset();
  run.bottlenecks.clear();
  run.numbers = {};
  run.numbers.world_size = run.timeline.num_ranks;
  run.timeline = run::expand(run.timeline);
  if (!sources.traces) run.timeline = {};
  if (!sources.recording) run.series.clear(), run.summaries.clear(), run.devices.clear();
  run.steps.clear();
  Instant time;
  for (uint64_t i = 0; i < 60; ++i) {
    const Seconds own = (1 + 0.002 * random_normal({seed, 9}, i)) * length;
    run.steps.push_back({time, time + own, 0, 0});
    time = time + own;
  }
  return run;
}

/// Longer steps, by number.
void lengthen(run::Run& run, const std::function<Seconds(size_t)>& by) {
  Seconds sum;
  for (size_t i = 0; i < run.steps.size(); ++i) {
    run.steps[i].begin = run.steps[i].begin + sum;
    sum += by(i);
    run.steps[i].end = run.steps[i].end + sum;
  }
}

/// A host call that keeps every rank's device idle at this share of the step.
void stall(run::Run& run, double share, Seconds length, const char* call) {
  const auto extent = *run::extent(run.timeline);
  const Instant at = extent.begin + share * (extent.end - extent.begin);
  const int32_t type =
      run.timeline.intern({.name = call, .kind = run::SpanKind::host, .stream = run::Stream::host});
  std::vector<Instant> free(static_cast<size_t>(run.timeline.num_ranks), at);
  for (run::Span& span : run.timeline.spans) {
    if (span.begin < at) {
      if (span.end > at)
        free[static_cast<size_t>(span.rank)] =
            std::max(free[static_cast<size_t>(span.rank)], span.end);
      continue;
    }
    span.begin = span.begin + length;
    span.end = span.end + length;
  }
  for (int32_t rank = 0; rank < run.timeline.num_ranks; ++rank)
    run.timeline.spans.push_back({at, at + length, type, rank});
  run::sort(run.timeline);
  lengthen(run, [&](size_t) { return length; });
}

struct Planted {
  const char* kind;
  std::string cause;  // as it must be named
  const spec::Job& job;
  std::function<void(spec::Job&)> change = [](spec::Job&) {};
  std::function<Seconds(run::Run&, Seconds)> disturb = {};  // returns what it costs a mean step
  Sources sources = {};
};

std::function<void(spec::Job&)> fault(const char* text) {
  return
      [text](spec::Job& job) { job.environment.faults.push_back(spec::parse_fault(text).value()); };
}

const std::vector<Planted>& planted() {
  constexpr Sources no_traces{.recording = true, .traces = false};
  constexpr Sources no_recording{.recording = false, .traces = true};
  constexpr Sources log{.recording = false, .traces = false};
  static const std::vector<Planted> all = {
      {"hot node", "heat", dense_job(), fault("node=1,inlet=+35"), {}, no_traces},
      {"blocked heat sink", "heat", dense_job(), fault("gpu=11,heat_path=4"), {}, no_traces},
      {"capped GPU",
       "power_limit",
       dense_job(),
       [](spec::Job& job) {
         job.environment.device_power_limits.assign(16, job.power_limit());
         job.environment.device_power_limits[5] = 350 * unit::W;
       },
       {},
       no_traces},
      {"power brake", "power_brake", dense_job(), fault("node=1,power=0.4"), {}, no_traces},
      {"slow NIC", "links", dense_job(), fault("node=1,link=0.25"), {}, no_recording},
      {"late data loader",
       "data_loader",
       dense_job(),
       {},
       [](run::Run& run, Seconds step) {
         stall(run, 0.05, 0.15 * step, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter");
         return 0.15 * step;
       }},
      {"overlap off",
       "overlap_gradient",
       dense_job(),
       [](spec::Job& job) { job.plan.overlap_gradient = false; },
       {},
       no_recording},
      {"recompute by mistake",
       "recompute",
       dense_job(),
       [](spec::Job& job) { job.plan.recompute = spec::Recompute::full; },
       {},
       no_recording},
      {"expert imbalance",
       "expert_imbalance",
       expert_job(),
       [](spec::Job& job) { job.model.moe->load_imbalance = 1.9; },
       {},
       no_recording},
      {"allocator retries",
       "allocator",
       dense_job(),
       {},
       [](run::Run& run, Seconds step) {
         stall(run, 0.2, 0.08 * step, "cudaFree");
         stall(run, 0.6, 0.08 * step, "cudaMalloc");
         return 0.16 * step;
       }},
      {"wrong rank order",
       "rank_order",
       pipeline_job(),
       [](spec::Job& job) { job.plan.rank_order = spec::RankOrder::tp_pp_dp; },
       {},
       no_recording},
      {"slow host", "host", short_kernels_job(), fault("node=2,host=2.2"), {}, no_recording},
      {"mixed boards",
       "board",
       dense_job(),
       [](spec::Job& job) { job.cluster.gpu.variability.dynamic_energy *= 4; },
       {},
       no_traces},
      {"garbage collection",
       "garbage_collection",
       dense_job(),
       {},
       [](run::Run& run, Seconds step) {
         lengthen(run, [&](size_t i) { return i % 5 == 3 ? 0.3 * step : Seconds(); });
         return 0.06 * step;
       },
       log},
      {"checkpoint stalls",
       "checkpoint",
       dense_job(),
       {},
       [](run::Run& run, Seconds step) {
         lengthen(run, [&](size_t i) { return i % 12 == 11 ? 3 * step : Seconds(); });
         return 0.25 * step;
       },
       log},
      {"all GPUs capped",
       "clocks",
       dense_job(),
       [](spec::Job& job) { job.environment.power_limit = 450 * unit::W; },
       {},
       no_traces}};
  return all;
}

Seconds step_of(spec::Job job, uint64_t seed) {
  job.environment.seed = seed;
  return *metrics::measure(sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false}))
              .step_time;
}

const run::Run& prediction_of(const spec::Job& job) {
  static std::map<const spec::Job*, run::Run> all;
  const auto [found, is_new] = all.try_emplace(&job);
  if (is_new) found->second = sim::simulate(job, {.duration = {}, .steps = {}});
  return found->second;
}

/// Parts, base and what remains are the whole step.
void check_sum(const Gap& gap) {
  Seconds sum = gap.base + gap.unexplained;
  for (const GapPart& part : gap.parts)
    sum += part.cost;
  CHECK(sum / gap.measured == Approx(1).epsilon(1e-9));
  CHECK(gap_sentences(gap).size() <= 5);
}

TEST_CASE("planted causes are named, and their seconds are right") {
  const bool shows = std::getenv("TPT_SHOW") != nullptr;
  int named = 0, right = 0, tried = 0;
  for (const Planted& plant : planted())
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      spec::Job job = plant.job;
      if (plant.change) plant.change(job);
      run::Run run = recorded(job, seed, plant.sources);
      const Seconds fair = step_of(plant.job, seed);
      Seconds cost = step_of(job, seed) - fair;
      if (plant.disturb) cost = plant.disturb(run, fair);
      const Gap gap = explain_gap(run, &prediction_of(plant.job));
      check_sum(gap);
      ++tried;
      const bool is_named = !gap.parts.empty() && gap.parts.front().cause == plant.cause;
      const bool is_right = is_named && std::abs(gap.parts.front().cost / cost - 1) < 0.15;
      named += is_named, right += is_right;
      if (shows && seed <= 1 + 3 * !is_right) {
        fmt::print("{:22} seed {} {} {} truth {:.4f} of {:.3f}:", plant.kind, seed,
                   is_named ? "named" : "MISSED", is_right ? "right" : "WRONG", cost / unit::s,
                   fair / unit::s);
        for (const GapPart& part : gap.parts)
          fmt::print(" {} {:.4f};", part.cause, part.cost / unit::s);
        fmt::print(" unexplained {:.4f}\n", gap.unexplained / unit::s);
      }
    }
  if (shows) fmt::print("{} planted, {} named, {} right\n", tried, named, right);
  CHECK(named >= 0.95 * tried);
  CHECK(right >= 0.95 * tried);
}

TEST_CASE("none is blamed in 200 fair runs") {
  int blamed = 0;
  for (uint64_t seed = 2; seed < 202; ++seed) {
    const Sources sources{.recording = seed % 3 != 0, .traces = seed % 4 == 1};
    const run::Run run = recorded(dense_job(), seed, sources);
    const Gap gap = explain_gap(run, seed % 2 == 0 ? nullptr : &prediction_of(dense_job()));
    check_sum(gap);
    for (const GapPart& part : gap.parts) {
      ++blamed;
      MESSAGE(seed, ": ", part.cause, " ", part.cost / unit::s, " ", part.what);
    }
  }
  CHECK(blamed == 0);
}

TEST_CASE("what is missing is said") {
  run::Run run = recorded(dense_job(), 1, {.recording = false, .traces = false});
  const Gap alone = explain_gap(run, nullptr);
  CHECK(alone.untold.size() == 3);
  CHECK(!alone.predicted);
  run.steps.resize(5);
  CHECK(explain_gap(run, nullptr).untold.size() == 4);
  CHECK(explain_gap(recorded(dense_job(), 1, {}), &prediction_of(dense_job())).untold.empty());
}

TEST_CASE("the answer's table adds up, and its verdict is short") {
  run::Run run = recorded(dense_job(), 1, {});
  lengthen(run, [](size_t i) { return i % 6 == 0 ? 2 * unit::s : Seconds(); });
  const Gap gap = explain_gap(run, &prediction_of(dense_job()));
  const answers::Document answer = why_answer(gap, run, "run");
  const DataTable& table = answer.sections.front().tables.front();
  double sum = 0;
  for (const auto& row : table.rows)
    sum += *number_in(row[1]);
  CHECK(sum == Approx(gap.measured / unit::s));
  CHECK(answer.verdict.find("every 6 steps") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::advise
