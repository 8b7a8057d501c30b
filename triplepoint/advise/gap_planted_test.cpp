// SPDX-License-Identifier: Apache-2.0
// Causes that are planted in simulated runs are named, with their seconds.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <set>

#include "triplepoint/advise/gap_testing.h"

namespace triplepoint::advise {
namespace {

/// Two stages, one on each node.
const spec::Job& pipeline_job() {
  static const spec::Job job =
      job_of("llama3-8b", 2, 16, "tensor_parallel_size = 2\npipeline_parallel_size = 2\n");
  return job;
}

/// Kernels as short as their launches.
const spec::Job& short_kernels_job() {
  static const spec::Job job = job_of("gpt3-1.3b", 4, 32, "tensor_parallel_size = 8\n");
  return job;
}

/// The share of steps whose number leaves this rest.
double often(size_t every, size_t rest) {
  return as_real((recorded_steps - rest + every - 1) / every) / as_real(recorded_steps);
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

}  // namespace
}  // namespace triplepoint::advise
