// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/gap.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;

Gap gap_of(const run::Run& measured, const run::Run* predicted) {
  static const auto intervals = metrics::PredictionIntervals::load(spec::default_library()).value();
  return explain_gap(measured, predicted, intervals);
}

spec::Job parsed(std::string_view text) {
  auto job = spec::parse_job(spec::default_library(), text, "job.toml");
  REQUIRE(job.has_value());
  return *std::move(job);
}

/// On H200s, with one sequence to a microbatch and the optimizer's state sharded, gradients in 16
/// bits.
spec::Job job_of(const char* model, int nodes, int batch, const char* plan) {
  return parsed(
      fmt::format("model = \"{}\"\ncluster = \"hgx-h200\"\nnodes = {}\n[plan]\n"
                  "global_batch_size = {}\nmicro_batch_size = 1\n"
                  "sharding = \"optimizer\"\noptimizer = \"distributed_fused_adam_bf16\"\n{}",
                  model, nodes, batch, plan));
}

/// Two nodes whose gradients are reduced behind the backward pass.
const spec::Job& dense_job() {
  static const spec::Job job =
      job_of("llama3-8b", 2, 32, "tensor_parallel_size = 2\noverlap_gradient = true\n");
  return job;
}

/// Two stages, one on each node.
const spec::Job& pipeline_job() {
  static const spec::Job job =
      job_of("llama3-8b", 2, 16, "tensor_parallel_size = 2\npipeline_parallel_size = 2\n");
  return job;
}

const spec::Job& expert_job() {
  static const spec::Job job = job_of("qwen3-30b-a3b", 2, 32,
                                      "tensor_parallel_size = 2\nexpert_parallel_size = 4\n"
                                      "pipeline_parallel_size = 2\n");
  return job;
}

/// Kernels as short as their launches.
const spec::Job& short_kernels_job() {
  static const spec::Job job = job_of("gpt3-1.3b", 4, 32, "tensor_parallel_size = 8\n");
  return job;
}

struct Sources {
  bool recording = true, traces = true;
};

constexpr size_t recorded_steps = 60;

/// A platform's brake shows another bit than a lower limit, and the limit stays.
void show_as_brake(const spec::Job& job, run::Run& run) {
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
run::Run recorded(spec::Job job, uint64_t seed, Sources sources) {
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

/// The share of steps whose number leaves this rest.
double often(size_t every, size_t rest) {
  return as_real((recorded_steps - rest + every - 1) / every) / as_real(recorded_steps);
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

/// A host call that keeps the device of every traced rank idle at this share of the step.
void stall(run::Run& run, double share, Seconds length, const char* call) {
  const auto extent = *run::extent(run.timeline);
  const Instant at = extent.begin + share * (extent.end - extent.begin);
  const int32_t type =
      run.timeline.intern({.name = call, .kind = run::SpanKind::host, .stream = run::Stream::host});
  std::set<int32_t> ranks;
  for (run::Span& span : run.timeline.spans) {
    ranks.insert(span.rank);
    if (span.begin < at) continue;
    span.begin = span.begin + length;
    span.end = span.end + length;
  }
  for (const int32_t rank : ranks)
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

/// How bad each kind is.
struct Faults {
  const char *hot, *sink, *brake, *nic, *host;
};
struct Magnitudes : Faults {
  double cap_w, cap_of_all_w;
  size_t capped;                     // GPU
  double loader, allocator;          // of a step, twice for the allocator
  double imbalance, spread;          // spread: of the boards' energies
  size_t collect_every, save_every;  // steps
  double collect, save;              // of a step
};
/// Thresholds were set with the first in sight; mechanisms were mended with the second. The third
/// was chosen before, and only its score is looked at.
constexpr Faults faults_in_sight{"node=1,inlet=+35", "gpu=11,heat_path=4", "node=1,power=0.4",
                                 "node=1,link=0.25", "node=2,host=2.2"};
constexpr Faults milder_faults{"node=0,inlet=+28", "gpu=3,heat_path=3.2", "node=0,power=0.55",
                               "node=1,link=0.4", "node=1,host=1.8"};
constexpr Faults reserved_faults{"node=1,inlet=+33", "gpu=9,heat_path=3.4", "node=0,power=0.5",
                                 "node=1,link=0.3", "node=2,host=1.9"};
// clang-format off
constexpr Magnitudes in_sight{faults_in_sight, 350, 450, 5, 0.15, 0.08, 1.9, 4, 5, 12, 0.3, 3};
constexpr Magnitudes milder{milder_faults, 430, 530, 12, 0.09, 0.05, 1.5, 3, 8, 20, 0.5, 5};
constexpr Magnitudes reserved{reserved_faults, 400, 480, 2, 0.11, 0.07, 1.8, 3.2, 6, 18, 0.35, 4.5};
// clang-format on

using JobChange = std::function<void(spec::Job&)>;
using Disturbance = std::function<Seconds(run::Run&, Seconds)>;

JobChange fault(const char* text) {
  return
      [text](spec::Job& job) { job.environment.faults.push_back(spec::parse_fault(text).value()); };
}

/// One step in `steps` is longer, by a share of a step.
Disturbance every(size_t steps, size_t rest, double share) {
  return [=](run::Run& run, Seconds step) {
    lengthen(run, [&](size_t i) { return i % steps == rest ? share * step : Seconds(); });
    return often(steps, rest) * share * step;
  };
}

/// Stalls in these calls, each at its share of the step.
Disturbance stalls(double share, std::vector<std::pair<double, const char*>> calls) {
  return [=](run::Run& run, Seconds step) {
    for (const auto& [at, call] : calls)
      stall(run, at, share * step, call);
    return as_real(calls.size()) * share * step;
  };
}

std::vector<Planted> planted(const Magnitudes& m) {
  constexpr Sources no_traces{.recording = true, .traces = false};
  constexpr Sources no_recording{.recording = false, .traces = true};
  constexpr Sources log{.recording = false, .traces = false};
  const JobChange capped = [m](spec::Job& job) {
    job.environment.device_power_limits.assign(16, job.power_limit());
    job.environment.device_power_limits[m.capped] = m.cap_w * unit::W;
  };
  const JobChange all_capped = [m](spec::Job& job) {
    job.environment.power_limit = m.cap_of_all_w * unit::W;
  };
  const JobChange uneven_boards = [m](spec::Job& job) {
    job.cluster.gpu.variability.dynamic_energy *= m.spread;
  };
  const JobChange overlap_off = [](spec::Job& job) { job.plan.overlap_gradient = false; };
  const JobChange recompute = [](spec::Job& job) { job.plan.recompute = spec::Recompute::full; };
  const JobChange wrong_order = [](spec::Job& job) {
    job.plan.rank_order = spec::RankOrder::tp_pp_dp;
  };
  const JobChange uneven_experts = [m](spec::Job& job) {
    if (job.model.moe) job.model.moe->load_imbalance = m.imbalance;
  };
  const Disturbance loader =
      stalls(m.loader, {{0.05, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter"}});
  const Disturbance allocator = stalls(m.allocator, {{0.2, "cudaFree"}, {0.6, "cudaMalloc"}});
  const Disturbance collects = every(m.collect_every, 3, m.collect);
  const Disturbance saves = every(m.save_every, m.save_every - 1, m.save);
  const spec::Job& dense = dense_job();
  return {
      {"hot node", "heat", dense, fault(m.hot), {}, no_traces},
      {"blocked heat sink", "heat", dense, fault(m.sink), {}, no_traces},
      {"capped GPU", "power_limit", dense, capped, {}, no_traces},
      {"power brake", "power_brake", dense, fault(m.brake), {}, no_traces},
      {"slow NIC", "links", dense, fault(m.nic), {}, no_recording},
      {"late data loader", "data_loader", dense, {}, loader},
      {"overlap off", "overlap_gradient", dense, overlap_off, {}, no_recording},
      {"recompute by mistake", "recompute", dense, recompute, {}, no_recording},
      {"expert imbalance", "expert_imbalance", expert_job(), uneven_experts, {}, no_recording},
      {"allocator retries", "allocator", dense, {}, allocator},
      {"wrong rank order", "rank_order", pipeline_job(), wrong_order, {}, no_recording},
      {"slow host", "host", short_kernels_job(), fault(m.host), {}, no_recording},
      {"mixed boards", "board", dense, uneven_boards, {}, no_traces},
      {"garbage collection", "garbage_collection", dense, {}, collects, log},
      {"checkpoint stalls", "checkpoint", dense, {}, saves, log},
      {"all GPUs capped", "clocks", dense, all_capped, {}, no_traces},
  };
}

Seconds step_of(spec::Job job, uint64_t seed) {
  job.environment.seed = seed;
  return *metrics::measure(sim::simulate(job, {.timeline = false})).step_time;
}

const run::Run& prediction_of(const spec::Job& job) {
  static std::map<const spec::Job*, run::Run> all;
  const auto [found, is_new] = all.try_emplace(&job);
  if (is_new) found->second = sim::simulate(job, {});
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

bool shows() {
  return std::getenv("TPT_SHOW") != nullptr;
}

/// How many causes were planted, named, and named with their seconds.
struct Score {
  int tried = 0, named = 0, right = 0;

  /// The first part of that cause is within `tolerance` of what it costs.
  void count(const std::string& what, const std::string& cause, Seconds cost, double tolerance,
             const Gap& gap, size_t most_parts) {
    const auto end =
        gap.parts.begin() + static_cast<std::ptrdiff_t>(std::min(most_parts, gap.parts.size()));
    const auto part = std::find_if(gap.parts.begin(), end,
                                   [&](const GapPart& one) { return one.cause == cause; });
    const bool is_named = part != end;
    const bool is_right = is_named && std::abs(part->cost / cost - 1) < tolerance;
    ++tried, named += is_named, right += is_right;
    if (!shows() || is_right) return;
    fmt::print("{} {}: {} truth {:.4f} of {:.3f}:", what, cause, is_named ? "WRONG" : "MISSED",
               cost / unit::s, gap.measured / unit::s);
    for (const GapPart& one : gap.parts)
      fmt::print(" {} {:.4f};", one.cause, one.cost / unit::s);
    fmt::print(" unexplained {:.4f}\n", gap.unexplained / unit::s);
  }
};

Score score_of(const Magnitudes& magnitudes, uint64_t first_seed) {
  Score score;
  for (const Planted& plant : planted(magnitudes))
    for (uint64_t seed = first_seed; seed < first_seed + 4; ++seed) {
      spec::Job job = plant.job;
      if (plant.change) plant.change(job);
      run::Run run = recorded(job, seed, plant.sources);
      const Seconds fair = step_of(plant.job, seed);
      Seconds cost = step_of(job, seed) - fair;
      if (plant.disturb) cost = plant.disturb(run, fair);
      const Gap gap = gap_of(run, &prediction_of(plant.job));
      check_sum(gap);
      score.count(fmt::format("{} seed {}", plant.kind, seed), plant.cause, cost, 0.15, gap, 1);
    }
  MESSAGE(score.tried, " planted, ", score.named, " named, ", score.right, " with their seconds");
  return score;
}

TEST_CASE("planted causes are named, and their seconds are right") {
  const Score score = score_of(in_sight, 1);
  CHECK(score.named >= 0.95 * score.tried);
  CHECK(score.right >= 0.95 * score.tried);
}

TEST_CASE("milder ones are named") {
  const Score score = score_of(milder, 101);
  CHECK(score.named >= 0.95 * score.tried);
  CHECK(score.right >= 0.8 * score.tried);
}

TEST_CASE("of magnitudes and seeds that set nothing nine in ten are named") {
  const Score score = score_of(reserved, 1001);
  CHECK(score.named >= 0.9 * score.tried);
  CHECK(score.right >= 0.8 * score.tried);
}

using Pairs = std::vector<std::pair<const char*, const char*>>;

const Pairs pairs_in_sight = {
    {"capped GPU", "late data loader"},     {"power brake", "checkpoint stalls"},
    {"overlap off", "garbage collection"},  {"overlap off", "recompute by mistake"},
    {"slow NIC", "recompute by mistake"},   {"expert imbalance", "garbage collection"},
    {"capped GPU", "recompute by mistake"}, {"blocked heat sink", "checkpoint stalls"},
    {"hot node", "late data loader"},       {"overlap off", "allocator retries"},
    {"all GPUs capped", "overlap off"},     {"wrong rank order", "checkpoint stalls"},
    {"slow host", "garbage collection"},    {"garbage collection", "checkpoint stalls"},
    {"power brake", "overlap off"},         {"expert imbalance", "late data loader"}};
/// As the reserved magnitudes.
const Pairs reserved_pairs = {{"slow NIC", "garbage collection"},
                              {"capped GPU", "overlap off"},
                              {"hot node", "recompute by mistake"},
                              {"mixed boards", "late data loader"},
                              {"slow NIC", "late data loader"},
                              {"power brake", "allocator retries"},
                              {"recompute by mistake", "checkpoint stalls"},
                              {"all GPUs capped", "recompute by mistake"},
                              {"slow host", "checkpoint stalls"},
                              {"blocked heat sink", "overlap off"},
                              {"expert imbalance", "checkpoint stalls"},
                              {"wrong rank order", "late data loader"},
                              {"recompute by mistake", "late data loader"},
                              {"capped GPU", "slow NIC"},
                              {"hot node", "garbage collection"},
                              {"slow NIC", "overlap off"}};

Score score_of(const Pairs& pairs, const Magnitudes& magnitudes, uint64_t first_seed) {
  const std::vector<Planted> kinds = planted(magnitudes);
  const auto named = [&](const char* kind) -> const Planted& {
    return *std::ranges::find_if(
        kinds, [&](const Planted& one) { return std::string_view(one.kind) == kind; });
  };
  Score score;
  for (const auto& [first, second] : pairs) {
    const Planted &a = named(first), &b = named(second);
    const spec::Job& plain = &b.job == &dense_job() ? a.job : b.job;
    for (uint64_t seed = first_seed; seed < first_seed + 4; ++seed) {
      const auto step_with = [&](bool with_a, bool with_b) {
        spec::Job job = plain;
        if (with_a && a.change) a.change(job);
        if (with_b && b.change) b.change(job);
        return std::pair(step_of(job, seed), job);
      };
      const Seconds none = step_with(false, false).first;
      const Seconds of_a = step_with(true, false).first, of_b = step_with(false, true).first;
      const auto [both, job] = step_with(true, true);
      run::Run run = recorded(job, seed, {});
      // Each as the mean of what it costs alone and beside the other.
      const auto cost = [&](const Planted& one, Seconds alone, Seconds other) {
        const Seconds changed = 0.5 * ((alone - none) + (both - other));
        return one.disturb ? one.disturb(run, none) : changed;
      };
      const Seconds cost_a = cost(a, of_a, of_b), cost_b = cost(b, of_b, of_a);
      const Gap gap = gap_of(run, &prediction_of(plain));
      check_sum(gap);
      const std::string what = fmt::format("{} and {} seed {}", first, second, seed);
      score.count(what, a.cause, cost_a, 0.2, gap, gap.parts.size());
      score.count(what, b.cause, cost_b, 0.2, gap, gap.parts.size());
    }
  }
  MESSAGE(score.tried, " planted, ", score.named, " named, ", score.right, " with their seconds");
  return score;
}

TEST_CASE("two causes at once are both named, and their seconds are right") {
  const Score score = score_of(pairs_in_sight, milder, 201);
  CHECK(score.named >= 0.95 * score.tried);
  CHECK(score.right >= 0.95 * score.tried);
}

TEST_CASE("of two causes, magnitudes and seeds that set nothing nine in ten are named") {
  const Score score = score_of(reserved_pairs, reserved, 1101);
  CHECK(score.named >= 0.9 * score.tried);
  CHECK(score.right >= 0.8 * score.tried);
}

/// Traces whose idle time is known: of ranks whose profilers begin one by one, of some steps of
/// kernels with gaps of all classes before them.
struct Traced {
  run::Run run;
  metrics::IdleTime idle;  // of a mean rank's mean step, ns
  double length = 0;       // ns
};

Traced traced(uint64_t seed, bool marked) {
  uint64_t draws = 0;
  const auto upto = [&](int64_t most) {
    return static_cast<int64_t>(random_uniform({seed, 3}, draws++) * as_real(most));
  };
  const int64_t ranks = 1 + upto(4), steps = marked ? 4 : 1;
  Traced result;
  run::Timeline& timeline = result.run.timeline;
  timeline.num_ranks = static_cast<int32_t>(ranks);
  timeline.names = run::NameKind::kernels;
  const auto type = [&](const std::string& name, run::SpanKind kind) {
    const bool on_host = kind == run::SpanKind::host || kind == run::SpanKind::step;
    return timeline.intern(
        {.name = name, .kind = kind, .stream = on_host ? run::Stream::host : run::Stream::compute});
  };
  for (int32_t rank = 0; rank < ranks; ++rank) {
    const auto lane = static_cast<int32_t>(timeline.lanes.size());
    timeline.lanes.push_back({rank, run::Stream::host, 1, "thread 1"});
    timeline.lanes.push_back({rank, run::Stream::compute, 7, "stream 7"});
    const auto add = [&](int64_t begin, int64_t end, int32_t of, bool host, int64_t correlation) {
      timeline.spans.push_back({Instant(begin), Instant(end), of, rank});
      timeline.details.push_back({.lane = host ? lane : lane + 1, .correlation = correlation});
    };
    const int64_t start = upto(50'000'000);
    int64_t now = start, last_begin = now, first_begin = 0;
    for (int64_t step = 0; step < steps; ++step) {
      const int64_t begin = now;
      for (int64_t kernel = 0; kernel < 12; ++kernel) {
        const bool is_first = kernel == 0;
        const int64_t kind = is_first ? 0 : upto(4), number = 1000 * step + kernel + 1;
        const int64_t gap = is_first    ? 3'000'000
                            : kind == 1 ? 5'000 + upto(20'000)
                                        : 100'000 + upto(900'000);
        const bool is_seen = step > 0 || !is_first;
        const double share =
            1.0 / as_real(ranks * (is_first ? std::max<int64_t>(1, steps - 1) : steps));
        int64_t& idle = result.idle.*metrics::idle_classes[as_size(kind)];
        if (is_seen) idle += std::llround(share * as_real(gap));
        const int64_t called = kind == 0 ? now + gap / 2 : last_begin;
        if (kind < 3)
          add(called, called + 2'000, type("cudaLaunchKernel", run::SpanKind::host), true, number);
        last_begin = now + gap;
        if (step == 0 && is_first) first_begin = last_begin;
        now = last_begin + 1'000'000 + upto(500'000);
        add(last_begin, now, type(fmt::format("kernel {}", kernel), run::SpanKind::compute), false,
            number);
      }
      if (marked)
        add(begin, now, type(fmt::format("ProfilerStep#{}", step), run::SpanKind::step), true, -1);
    }
    if (marked)  // of a profiler that was stopped
      add(now, now + 50'000, type("ProfilerStep#last", run::SpanKind::step), true, -1);
    result.length += as_real(now - (marked ? start : first_begin)) / as_real(ranks * steps);
  }
  run::sort(timeline);
  result.run.manifest.origin = run::Origin::imported;
  result.run.steps = steps_of_traces(timeline);
  return result;
}

double cost_of(const Gap& gap, std::string_view cause) {
  double sum = 0;
  for (const GapPart& part : gap.parts)
    if (part.cause == cause) sum += part.cost / unit::ns;
  return sum;
}

TEST_CASE("idle time of traces is each rank's own, and has no cause that they do not show") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    const Traced truth = traced(seed, seed % 2 == 0);
    const Gap gap = gap_of(truth.run, nullptr);
    check_sum(gap);
    CHECK(gap.is_whole_trace == (seed % 2 == 1));
    CHECK(gap.measured / unit::ns == Approx(truth.length).epsilon(1e-6));
    const auto shown = [&](int64_t time) {
      return as_real(time) < 0.01 * truth.length ? 0 : as_real(time);
    };
    CHECK(cost_of(gap, "host") == Approx(shown(truth.idle.host_wait)).epsilon(1e-4));
    CHECK(cost_of(gap, "launch_gaps") == Approx(shown(truth.idle.kernel_wait)).epsilon(1e-4));
    CHECK(cost_of(gap, unknown_cause) ==
          Approx(shown(truth.idle.other) + shown(truth.idle.unknown)).epsilon(1e-4));
  }
}

TEST_CASE("what the host is at while GPUs idle is told where its calls are in the trace") {
  const auto named = [](const char* call, bool before) {
    Traced truth = traced(4, true);
    run::Timeline& timeline = truth.run.timeline;
    const int32_t type =
        timeline.intern({.name = call, .kind = run::SpanKind::host, .stream = run::Stream::host});
    // Around the begin of each step's gap, or in it.
    const run::Timeline plain = timeline;
    for (size_t i = 0; i < plain.spans.size(); ++i)
      if (plain.types[as_size(plain.spans[i].type)].kind == run::SpanKind::step) {
        const Instant begin = plain.spans[i].begin;
        timeline.spans.push_back({before ? begin - 0.1 * unit::ms : begin + 0.1 * unit::ms,
                                  begin + (before ? 0.1 : 2.9) * unit::ms, type,
                                  plain.spans[i].rank});
        timeline.details.push_back({.lane = plain.details[i].lane});
      }
    run::sort(timeline);
    const Gap gap = gap_of(truth.run, nullptr);
    REQUIRE(!gap.parts.empty());
    return gap.parts.front();
  };
  const GapPart loader =
      named("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", false);
  CHECK(loader.cause == "data_loader");
  CHECK(loader.what.find("between steps") != std::string::npos);
  CHECK(named("cudaFree", false).cause == "allocator");
  CHECK(named("cudaStreamSynchronize", true).cause == "synchronization");
  const GapPart other = named("optimizer", false);
  CHECK(other.cause == "host");
}

TEST_CASE("none is blamed in 200 fair runs") {
  int blamed = 0;
  for (uint64_t seed = 2; seed < 202; ++seed) {
    const Sources sources{.recording = seed % 3 != 0, .traces = seed % 4 == 1};
    const run::Run run = recorded(dense_job(), seed, sources);
    const Gap gap = gap_of(run, seed % 2 == 0 ? nullptr : &prediction_of(dense_job()));
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
  const Gap alone = gap_of(run, nullptr);
  CHECK(alone.untold.size() == 3);
  CHECK(!alone.predicted);
  run.steps.resize(5);
  CHECK(gap_of(run, nullptr).untold.size() == 4);
  CHECK(gap_of(recorded(dense_job(), 1, {}), &prediction_of(dense_job())).untold.empty());
}

TEST_CASE("a room or a limit that the prediction does not have is told") {
  const run::Run cool = prediction_of(dense_job());
  run::Run warm = cool;
  CHECK(set_up_apart(warm, cool).empty());
  warm.manifest.job->environment.ambient = Celsius(45);
  warm.manifest.job->environment.power_limit = 450 * unit::W;
  const std::vector<std::string> apart = set_up_apart(warm, cool);
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].starts_with("inlet 45"));
  CHECK(apart[1].starts_with("power_limit 450"));
  run::Run other_layout = cool;
  other_layout.manifest.job->plan.micro_batch_size = 2;
  CHECK(set_up_apart(other_layout, cool).size() == 2);  // and half the microbatches
}

TEST_CASE("a setting that is known to differ is a part, and what it costs is no other's") {
  spec::Job slow = dense_job();
  slow.plan.recompute = spec::Recompute::full;
  const run::Run measured = sim::simulate(slow, {});
  const Gap gap = gap_of(measured, &prediction_of(dense_job()));
  REQUIRE(gap.parts.size() == 1);
  CHECK(gap.parts[0].cause == "settings");
  CHECK(gap.parts[0].what.find("recompute full, predicted") != std::string::npos);
  CHECK(gap.parts[0].cost / (gap.measured - gap.base) == Approx(1).epsilon(0.01));
}

TEST_CASE("of two measured runs settings cost no more than their prediction may be off by") {
  const Sources steps_only = {.recording = false, .traces = false};
  spec::Job slow = dense_job();
  slow.plan.recompute = spec::Recompute::full;
  run::Run fair = recorded(dense_job(), 1, steps_only), measured = recorded(slow, 2, steps_only);
  fair.manifest.job = dense_job();
  measured.manifest.job = slow;
  const auto settings_part = [&](double longer) {
    const Seconds length = measured.steps.front().end - measured.steps.front().begin;
    lengthen(measured, [&](size_t) { return (longer - 1) * length; });
    Gap gap = gap_of(measured, &fair);
    REQUIRE(gap.parts.size() == 1);
    CHECK(gap.parts[0].cause == "settings");
    return std::pair(gap.parts[0], gap.unexplained / gap.measured);
  };
  const auto [near, none] = settings_part(1.06);
  CHECK(near.at_most);
  CHECK(near.what.find("(simulated, ") != std::string::npos);
  CHECK(std::abs(none) < 0.01);
  const auto [far, rest] = settings_part(1.5);
  CHECK(!far.at_most);
  CHECK(rest > 0.2);
}

TEST_CASE("a fault that comes midway costs the mean step what it adds to it") {
  const std::pair<const char*, const char*> faults[] = {
      {"node=1,fan=0.2@100s", "heat"},     {"gpu=3,heat_path=8@60s", "heat"},
      {"gpu=3,heat_path=12@150s", "heat"}, {"gpu=2,power=0.5@200s", "power_limit"},
      {"node=1,link=0.05@150s", "links"},  {"gpu=5,link=0.2@20s", "links"},
  };
  for (const auto& [text, cause] : faults) {
    const std::string fault = text;
    CAPTURE(fault);
    spec::Job job = dense_job();
    job.environment.faults = {*spec::parse_fault(fault)};
    const run::Run measured = sim::simulate(job, {.duration = 300 * unit::s});
    const Gap gap = gap_of(measured, &prediction_of(dense_job()));
    REQUIRE(gap.parts.size() == 1);
    CHECK(gap.parts[0].cause == cause);
    CHECK(abs(gap.unexplained) < 0.15 * (gap.measured - gap.base));
  }
}

TEST_CASE("a fault that comes midway costs the same beside settings that differ") {
  spec::Job job = dense_job();
  job.plan.recompute = spec::Recompute::full;
  job.environment.faults = {*spec::parse_fault("gpu=2,power=0.5@200s")};
  const sim::Horizon horizon{.duration = 300 * unit::s};
  const run::Run predicted = sim::simulate(dense_job(), horizon);
  const Gap gap = gap_of(sim::simulate(job, horizon), &predicted);
  REQUIRE(gap.parts.size() == 2);
  CHECK(abs(gap.unexplained) < 0.05 * (gap.measured - gap.base));
}

TEST_CASE("what the other run loses as well is no part of the difference") {
  const auto with = [](const char* first, const char* second) {
    spec::Job job = dense_job();
    for (const char* text : {first, second})
      if (text != nullptr) job.environment.faults.push_back(*spec::parse_fault(text));
    return job;
  };
  const char *usual = "gpu=3,power=0.8", *further = "gpu=9,power=0.5@100s";
  const auto transient = [&](const spec::Job& job) {
    return sim::simulate(job, {.duration = 300 * unit::s});
  };
  const run::Run before = transient(with(usual, nullptr)), now = transient(with(usual, further));
  for (const run::Run* run : {&before, &now}) {
    const Gap none = gap_of(*run, run);
    CHECK(none.parts.empty());
    CHECK(abs(none.unexplained) < 1e-3 * none.measured);
  }
  const Gap gap = gap_of(now, &before);
  REQUIRE(gap.parts.size() == 1);
  CAPTURE(gap.parts[0].what);
  CHECK(gap.parts[0].what.starts_with("GPU 9 "));
  CHECK(gap.parts[0].cost / (gap.measured - gap.base) == Approx(1).epsilon(0.15));

  const Sources recording = {.recording = true, .traces = false};
  const run::Run fair = recorded(with(usual, nullptr), 1, recording);
  CHECK(gap_of(recorded(with(usual, nullptr), 2, recording), &fair).parts.empty());
  const Gap both = gap_of(recorded(with(usual, "gpu=9,power=0.5"), 2, recording), &fair);
  REQUIRE(both.parts.size() == 1);
  CAPTURE(both.parts[0].what);
  CHECK(both.parts[0].what.starts_with("GPU 1 of node 1 "));
  CHECK(both.parts[0].cost / (both.measured - both.base) == Approx(1).epsilon(0.15));
}

TEST_CASE("a prediction of another training is refused in the first sentence") {
  run::Run run = recorded(dense_job(), 1, {.recording = true, .traces = false});
  const auto refused_for = [&](const char* why) {
    const Gap gap = gap_of(run, &prediction_of(dense_job()));
    CHECK(!gap.predicted);
    CHECK(gap.parts.empty());
    const std::string first = gap_sentences(gap).front();
    CAPTURE(first);
    CHECK(first.find("not the training") != std::string::npos);
    CHECK(first.find(why) != std::string::npos);
  };
  run.steps.back().samples = 16;
  refused_for("(16 samples a step, predicted 32)");
  run.steps.back().samples = 32;
  CHECK(gap_of(run, &prediction_of(dense_job())).unlike.empty());
  run.numbers.world_size = 64;
  refused_for("(64 GPUs, predicted 16)");
  run.numbers.world_size.reset();
  run.devices.front().name = "NVIDIA H100 80GB HBM3";
  refused_for("(GPU h100, predicted h200)");
  run.devices.front().name = "NVIDIA H200";
  run.manifest.job = expert_job();
  refused_for("parameters, predicted 8,0");
}

TEST_CASE("the answer's table adds up, and its verdict is short") {
  run::Run run = recorded(dense_job(), 1, {});
  lengthen(run, [](size_t i) { return i % 6 == 0 ? 2 * unit::s : Seconds(); });
  const Gap gap = gap_of(run, &prediction_of(dense_job()));
  const answers::Document answer = why_answer(gap, run, "run");
  const DataTable& table = answer.sections.front().tables.front();
  double sum = sum_of(table.rows, [&](const auto& row) { return *number_in(row[1]); });
  CHECK(sum == Approx(gap.measured / unit::s));
  CHECK(answer.verdict.find("every 6 steps") != std::string::npos);
  run.shutdown = {.device = 3, .die_c = 92, .time = 285 * unit::s};
  CHECK(why_answer(gap, run, "run")
            .verdict.ends_with("GPU 3 reaches 92.0 °C after 285 s and shuts "
                               "down; the job ends there."));
}

TEST_CASE("long steps are at what the recording marks then") {
  const auto cause_of = [](const char* region) {
    run::Run run;
    run.manifest.origin = run::Origin::measured;
    const int32_t forward = run.timeline.intern({.name = "forward", .kind = run::SpanKind::pass}),
                  other = run.timeline.intern({.name = region, .kind = run::SpanKind::pass});
    run.timeline.num_ranks = 2;
    Instant time;
    for (size_t i = 0; i < recorded_steps; ++i) {
      const Seconds in_region = (i % 12 == 11 ? 3.0 : 0.1) * unit::s,
                    own = (0.9 + 0.004 * random_normal({3, 9}, i)) * unit::s;
      const Instant middle = time + own, end = middle + in_region;
      run.steps.push_back({time, end, 0, 0});
      for (const int32_t rank : {0, 1})
        run.timeline.spans.push_back({time, middle, forward, rank});
      run.timeline.spans.push_back({middle, end, other, 1});  // the other rank waits
      time = end;
    }
    run::sort(run.timeline);
    const Gap gap = gap_of(run, nullptr);
    return gap.parts.empty() ? std::string() : gap.parts.front().cause;
  };
  CHECK(cause_of("data") == "data_loader");
  CHECK(cause_of("save_checkpoint") == "checkpoint");
  CHECK(cause_of("evaluate") == "region");
}

TEST_CASE("single long steps of less than a hundredth of the training are not told") {
  const auto parts_of = [](double longer) {
    run::Run run;
    run.manifest.origin = run::Origin::measured;
    Instant time;
    for (size_t i = 0; i < recorded_steps; ++i) {
      const bool is_long = i == 7 || i == 31;
      const double own = 1 + 0.004 * random_normal({3, 9}, i) + (is_long ? longer : 0);
      run.steps.push_back({time, time + own * unit::s, 0, 0});
      time = run.steps.back().end;
    }
    return gap_of(run, nullptr).parts.size();
  };
  CHECK(parts_of(0.3 * 0.01 * recorded_steps) == 0);
  CHECK(parts_of(1.5 * 0.01 * recorded_steps) == 1);
}

TEST_CASE("steps behind a break in the numbers are left out, and that is told") {
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run.timeline.num_ranks = 1;
  const int32_t gemm = run.timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
  Instant time;
  for (const int number : {4, 5, 6, 105}) {
    const int32_t mark = run.timeline.intern({.name = fmt::format("ProfilerStep#{}", number),
                                              .kind = run::SpanKind::step,
                                              .stream = run::Stream::host});
    run.timeline.spans.push_back({time, time + 1 * unit::s, mark});
    run.timeline.spans.push_back({time, time + 0.9 * unit::s, gemm});
    time = time + (number == 6 ? 100 : 1) * unit::s;
  }
  run::sort(run.timeline);
  run.steps = steps_of_traces(run.timeline);
  const Gap gap = gap_of(run, nullptr);
  CHECK(gap.measured / unit::s == Approx(1).epsilon(0.05));
  CHECK(std::ranges::any_of(
      gap.untold, [](const std::string& text) { return text.starts_with("1 more marked steps"); }));
}

/// Kernels and the communication of one group, in milliseconds.
struct SmallTrace {
  run::Run run;
  int32_t gemm = 0, talk = 0;

  SmallTrace(int32_t ranks, spec::Collective collective) {
    run.manifest.origin = run::Origin::imported;
    run.timeline.num_ranks = ranks;
    run.timeline.names = run::NameKind::kernels;
    run.timeline.communicators = {{.name = "group", .size = ranks}};
    gemm = run.timeline.intern({.name = "gemm", .kind = run::SpanKind::compute});
    talk = run.timeline.intern({.name = "nccl",
                                .kind = run::SpanKind::communication,
                                .stream = run::Stream::communication,
                                .op_class = spec::OpClass::communication,
                                .collective = collective});
  }
  void add(double begin, double end, int32_t rank, int64_t number = -1) {
    const auto at = [](double ms) { return instant_at(ms * unit::ms); };
    if (rank < 0) return run.steps.push_back({at(begin), at(end), 0, 0});
    run.timeline.spans.push_back({at(begin), at(end), number < 0 ? gemm : talk, rank});
    run.timeline.details.push_back({.communicator = number < 0 ? -1 : 0, .sequence = number});
  }
  Gap gap() {
    run::sort(run.timeline);
    return gap_of(run, nullptr);
  }
};

/// Ranks that compute with collectives beside; rank 1 takes `slower` times as long.
Gap overlapped(double slower) {
  constexpr int32_t ranks = 4, steps = 20, layers = 16;
  SmallTrace trace(ranks, spec::Collective::all_reduce);
  double start = 0, done = 0;
  for (int32_t step = 0; step < steps; ++step) {
    std::vector<double> now(ranks, start);
    for (int32_t layer = 0; layer < layers; ++layer) {
      for (int32_t rank = 0; rank < ranks; ++rank) {
        const double begin = now[as_size(rank)];
        trace.add(begin, now[as_size(rank)] = begin + 0.4 * (rank == 1 ? slower : 1), rank);
      }
      if (layer < layers / 2 || layer % 2 == 0) continue;
      const double end = std::max(done, std::ranges::max(now)) + 0.3;
      for (int32_t rank = 0; rank < ranks; ++rank)
        trace.add(std::max(done, now[as_size(rank)]), end, rank, step * layers + layer);
      done = end;
    }
    trace.add(start, done, -1);
    start = done;
  }
  return trace.gap();
}

TEST_CASE("a late rank costs what the step loses, though some waits are hidden") {
  for (const double slower : {1.3, 1.5}) {
    CAPTURE(slower);
    const Gap gap = overlapped(slower);
    REQUIRE(!gap.parts.empty());
    CHECK(gap.parts.front().what.starts_with("Rank 1 slows the others"));
    CHECK(gap.parts.front().cost / (gap.measured - overlapped(1).measured) ==
          Approx(1).epsilon(0.15));
  }
}

TEST_CASE("waits for the stage before are the pipeline's, and no transfer") {
  SmallTrace trace(2, spec::Collective::send_recv);
  for (int i = 0; i < 60; ++i) {  // the stages take turns
    const double begin = 5 * i, end = begin + 5;
    trace.add(begin, end - 0.1, i % 2);
    trace.add(end - 0.1, end, i % 2, i);
    trace.add(begin, end, 1 - i % 2, i);
    if (i % 2 == 0) trace.add(begin, begin + 10, -1);
  }
  const Gap gap = trace.gap();
  CHECK(cost_of(gap, "bubble") == Approx(5e6).epsilon(0.05));
  CHECK(cost_of(gap, "exposed_communication") == 0);
}

TEST_CASE("what takes longer in one proportion has one part") {
  const auto has = [](const GapPart& part, const char* words) {
    return part.what.find(words) != std::string::npos;
  };
  for (const bool knows_clocks : {false, true}) {
    const Sources sources{.recording = knows_clocks, .traces = true};
    const run::Run fair = recorded(dense_job(), 1, sources);
    run::Run slow = recorded(dense_job(), 1, sources);
    for (run::Span& span : slow.timeline.spans) {
      span.begin = Instant() + 1.2 * (span.begin - Instant());
      span.end = Instant() + 1.2 * (span.end - Instant());
    }
    const Seconds more = 0.2 * (slow.steps[0].end - slow.steps[0].begin);
    lengthen(slow, [&](size_t) { return more; });
    for (const run::Run* against : {&fair, &prediction_of(dense_job())}) {
      const Gap gap = gap_of(slow, against);
      REQUIRE(gap.parts.size() == 1);
      CHECK(gap.parts[0].cause == "everything");
      CHECK(has(gap.parts[0], "takes 20 % longer"));
      CHECK(has(gap.parts[0], "lower clock") != knows_clocks);
      CHECK(has(gap.parts[0], "prediction") == (against != &fair));
      CHECK(gap.parts[0].cost / (gap.measured - gap.base) == Approx(1).epsilon(0.05));
    }
  }
}

TEST_CASE("two slow GPUs in lockstep are both named, and cost what they are slower than the next") {
  spec::Job job = dense_job();
  job.environment.faults = {spec::parse_fault("gpu=3,power=0.5").value(),
                            spec::parse_fault("gpu=12,heat_path=4").value()};
  const run::Run run = sim::simulate(job, {});
  const Gap gap = gap_of(run, &prediction_of(dense_job()));
  std::set<std::string> causes;
  for (const GapPart& part : gap.parts)
    causes.insert(part.cause);
  CHECK(causes.contains("heat"));
  CHECK(causes.contains("power_limit"));
  CHECK(abs(gap.unexplained) < 0.03 * gap.measured);
}

}  // namespace
}  // namespace triplepoint::advise
