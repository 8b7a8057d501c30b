// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/neighbours.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/diagnose_parts.h"

#include "triplepoint/search/layout_scan.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::search {
namespace {

/// A job beside another, and why it cannot run; empty: it can.
struct Beside {
  std::string what;
  spec::Job job;
  std::string problem;
};
using Jobs = std::vector<Beside>;

bool has_stages_of(const spec::Plan& plan, const spec::Plan& other) {
  return plan.pipeline_parallel_size == other.pipeline_parallel_size &&
         plan.virtual_pipeline_size == other.virtual_pipeline_size;
}

/// What a size rules out goes with it: nothing else of the plan changes. Uneven layers are of other
/// stages than those of `before`.
spec::Plan settled(spec::Plan plan, const spec::Plan& before) {
  if (!has_stages_of(plan, before)) plan.layers_per_stage.clear();
  if (plan.tensor_parallel_size == 1) plan.sequence_parallel = plan.overlap_tensor = false;
  if (plan.expert_parallel_size == 1) plan.overlap_expert = false;
  if (plan.pipeline_parallel_size == 1) {
    plan.virtual_pipeline_size = 1;
    plan.overlap_pipeline = false;
  }
  if (plan.virtual_pipeline_size == 1 && plan.schedule == spec::Schedule::interleaved)
    plan.schedule = spec::Schedule::one_f_one_b;
  if (plan.virtual_pipeline_size == 1) plan.overlap_pipeline = false;
  if (plan.virtual_pipeline_size > 1 && plan.schedule == spec::Schedule::one_f_one_b)
    plan.schedule = spec::Schedule::interleaved;
  return plan;
}

int64_t replicas_of(const spec::Job& job) {
  return job.data_parallel_size() * job.plan.context_parallel_size;
}

Beside beside(const spec::Job& job, std::string what, const spec::Plan& plan) {
  Beside other{std::move(what), job, {}};
  if (!job.plan.layers_per_stage.empty() && !has_stages_of(plan, job.plan))
    other.what += ", even layers";
  other.job.plan = settled(plan, job.plan);
  const std::vector<spec::Diagnosis> found = spec::diagnose(other.job);
  const auto error =
      std::ranges::find(found, spec::Diagnosis::Severity::error, &spec::Diagnosis::severity);
  if (error != found.end()) {
    other.problem = error->what;
    return other;
  }
  if (replicas_of(job) == 1 && replicas_of(other.job) > 1)
    other.job.plan.sharding = spec::Sharding::optimizer;
  return other;
}

/// The nearest sizes above and below that can run; where none can, twice the size and why not.
void add_sizes(Jobs& jobs, const spec::Job& job, const char* name, int64_t spec::Plan::*size) {
  constexpr int64_t most = 4;
  const int64_t now = job.plan.*size;
  const auto sized = [&](int64_t other) {
    spec::Plan plan = job.plan;
    plan.*size = other;
    return beside(job, fmt::format("{}{} instead of {}", name, other, now), plan);
  };
  const size_t before = jobs.size();
  const auto add_first = [&](int64_t from, int64_t end, int64_t step) {
    for (int64_t other = from; other != end; other += step)
      if (Beside next = sized(other); next.problem.empty()) return jobs.push_back(std::move(next));
  };
  add_first(now + 1, most * now + 1, 1);
  add_first(now - 1, 0, -1);
  if (jobs.size() == before) jobs.push_back(sized(2 * now));
}

void add_sharding(Jobs& jobs, const spec::Job& job) {
  spec::Plan next = job.plan;
  const bool is_fsdp = next.sharding == spec::Sharding::parameters;
  next.sharding = is_fsdp ? spec::Sharding::optimizer : spec::Sharding::parameters;
  next.sharding_group_size = 0;
  if (!is_fsdp && job.data_parallel_size() * next.context_parallel_size == 1) return;
  jobs.push_back(beside(job, is_fsdp ? "ZeRO-1 instead of FSDP" : "FSDP", next));
}

void add_sequence_parallel(Jobs& jobs, const spec::Job& job) {
  if (job.plan.tensor_parallel_size == 1) return;
  spec::Plan next = job.plan;
  next.sequence_parallel = !next.sequence_parallel;
  next.overlap_tensor &= next.sequence_parallel;
  jobs.push_back(beside(job, next.sequence_parallel ? "SP" : "no SP", next));
}

void add_recompute(Jobs& jobs, const spec::Job& job) {
  constexpr std::pair<spec::Recompute, const char*> ways[] = {
      {spec::Recompute::none, "nothing recomputed"},
      {spec::Recompute::selective, "attention recomputed"},
      {spec::Recompute::full, "everything recomputed"}};
  for (const auto& [kind, what] : ways) {
    if (kind == job.plan.recompute) continue;
    spec::Plan next = job.plan;
    next.recompute = kind;
    next.recompute_layers.reset();
    next.recompute_modules.clear();
    jobs.push_back(beside(job, what, next));
  }
}

void add_overlap(Jobs& jobs, const spec::Job& job) {
  spec::Plan next = job.plan;
  next.overlap_tensor = next.overlap_gradient = next.overlap_parameter = false;
  next.overlap_pipeline = next.overlap_expert = false;
  if (next != job.plan) jobs.push_back(beside(job, "nothing overlapped", next));
}

constexpr int64_t most_node_growth = 64, most_group_growth = 4;

bool can_run(const spec::Job& job) {
  return !spec::has_errors(spec::diagnose(job)) && workload::estimate_memory(job).fits();
}

/// The job on these nodes with another layout; its plan otherwise as it is.
spec::Job resized(const spec::Job& job, int64_t nodes, int64_t tensor, int64_t pipeline) {
  spec::Job next = job;
  next.cluster.num_nodes = nodes;
  next.plan.tensor_parallel_size = tensor;
  next.plan.pipeline_parallel_size = pipeline;
  next.plan = settled(next.plan, job.plan);
  return next;
}

/// Layouts of growing model-parallel size; of equal size, tensor parallelism within a node first.
std::vector<std::pair<int64_t, int64_t>> larger_layouts(const spec::Job& job, int64_t devices) {
  std::vector<std::pair<int64_t, int64_t>> layouts;
  const int64_t least_tensor = job.plan.tensor_parallel_size;
  for (int64_t tensor = least_tensor; tensor <= std::max(least_tensor, job.cluster.gpus_per_node);
       tensor *= 2)
    for (int64_t pipeline = job.plan.pipeline_parallel_size; tensor * pipeline <= devices;
         pipeline *= 2)
      layouts.emplace_back(tensor, pipeline);
  std::ranges::stable_sort(layouts, {},
                           [](const auto& l) { return std::pair(l.first * l.second, l.second); });
  return layouts;
}

/// Of the job as it is and its ways to save activations (smaller microbatches too) the fastest that
/// fits.
std::optional<spec::Job> fastest_that_fits(const spec::Job& job) {
  std::vector<spec::Job> ways = {job};
  const auto add = [&](const auto& save) {
    for (size_t i = 0, count = ways.size(); i < count; ++i) {
      spec::Job next = ways[i];
      save(next.plan);
      if (next.plan != ways[i].plan) ways.push_back(std::move(next));
    }
  };
  for (int64_t size = job.plan.micro_batch_size; size % 2 == 0; size /= 2) {
    ways.push_back(job);
    ways.back().plan.micro_batch_size = size / 2;
  }
  if (!spec::is_inference(job.task)) {
    if (job.plan.tensor_parallel_size > 1)
      add([](spec::Plan& plan) { plan.sequence_parallel = true; });
    if (job.plan.recompute != spec::Recompute::full)
      add([](spec::Plan& plan) {
        plan.recompute = spec::Recompute::full;
        plan.recompute_modules.clear();
        plan.recompute_layers.reset();
      });
  }
  std::optional<spec::Job> best;
  double least = 0;
  std::erase_if(ways, [](const spec::Job& each) { return !can_run(each); });
  for (const spec::Job& each : ways) {
    const double time = ways.size() > 1 ? evaluate_plan(each, {}).step.time : 0;
    if (!best || time < least) best = each, least = time;
  }
  return best;
}

/// One choice of the job made differently, in each dimension.
Jobs jobs_beside(const spec::Job& job) {
  Jobs jobs;
  add_sizes(jobs, job, "TP", &spec::Plan::tensor_parallel_size);
  add_sizes(jobs, job, "PP", &spec::Plan::pipeline_parallel_size);
  if (job.plan.pipeline_parallel_size > 1)
    add_sizes(jobs, job, "VPP", &spec::Plan::virtual_pipeline_size);
  add_sizes(jobs, job, "CP", &spec::Plan::context_parallel_size);
  add_sizes(jobs, job, "microbatch ", &spec::Plan::micro_batch_size);
  if (job.model.moe) add_sizes(jobs, job, "EP", &spec::Plan::expert_parallel_size);
  add_sharding(jobs, job);
  add_sequence_parallel(jobs, job);
  add_recompute(jobs, job);
  add_overlap(jobs, job);
  return jobs;
}

Jobs jobs_that_run(const spec::Job& job) {
  Jobs jobs = jobs_beside(job);
  std::erase_if(jobs, [](const Beside& each) { return !each.problem.empty(); });
  return jobs;
}

}  // namespace

std::optional<spec::Job> nearest_that_fits(const spec::Job& job) {
  if (spec::predicted_without_power(job)) return std::nullopt;  // plans are judged with power
  const int64_t now = job.cluster.num_nodes;
  std::optional<spec::Job> best;
  double best_time = 0;
  int64_t first = 0;  // model-parallel size of the first that fits
  for (int64_t nodes = now; !best && nodes <= most_node_growth * now; nodes *= 2)
    for (const auto& [tensor, pipeline] : larger_layouts(job, nodes * job.cluster.gpus_per_node)) {
      if (best && (spec::is_inference(job.task) || tensor * pipeline > most_group_growth * first))
        break;
      auto next = fastest_that_fits(resized(job, nodes, tensor, pipeline));
      if (!next) continue;
      if (!best) first = tensor * pipeline;
      const double time = evaluate_plan(*next, {}).step.time;
      if (!best || time < best_time) best = std::move(next), best_time = time;
    }
  return best;
}

std::string flags_between(const spec::Job& job, const spec::Job& other) {
  std::vector<std::string> flags;
  const auto add = [&](const char* flag, int64_t before, int64_t after) {
    if (before != after) flags.push_back(fmt::format("{} {}", flag, after));
  };
  add("--nodes", job.cluster.num_nodes, other.cluster.num_nodes);
  add("--tp", job.plan.tensor_parallel_size, other.plan.tensor_parallel_size);
  add("--pp", job.plan.pipeline_parallel_size, other.plan.pipeline_parallel_size);
  add("--mbs", job.plan.micro_batch_size, other.plan.micro_batch_size);
  if (job.plan.sequence_parallel != other.plan.sequence_parallel)
    flags.emplace_back("--sequence-parallel");
  if (job.plan.recompute != other.plan.recompute) flags.emplace_back("--recompute full");
  return fmt::format("{}", fmt::join(flags, " "));
}

OtherPlan judged_plan(std::string what, const spec::Job& job, const Objective& objective,
                      const Limits& limits) {
  OtherPlan other{.what = std::move(what)};
  other.plan.candidate = evaluate_plan(job, objective);
  const Bytes memory = other.plan.candidate.memory, whole = usable_memory(job, {});
  if (whole > Bytes() && memory > whole) {
    other.missing = memory - whole;
    return other;
  }
  other.plan = simulate_in_full(job, objective);
  other.plan.refused = over_limit(other.plan, limits, job);
  if (whole > Bytes())
    other.missing_headroom = std::max(Bytes(), memory - usable_memory(job, limits));
  return other;
}

std::vector<OtherPlan> neighbours_of(const spec::Job& job, const Objective& objective,
                                     const Limits& limits) {
  std::vector<OtherPlan> others;
  for (Beside& next : jobs_beside(job)) {
    if (next.problem.empty())
      others.push_back(judged_plan(next.what, next.job, objective, limits));
    else
      others.push_back({.what = next.what, .problem = next.problem});
  }
  return others;
}

std::vector<OtherPlan> best_changes(const spec::Job& job, const Objective& objective,
                                    const Limits& limits) {
  std::vector<OtherPlan> changes;
  // The schedule alone chooses, which is quick; the whole simulation judges.
  double least = evaluate_plan(job, objective).value;
  const auto best_of = [&](Jobs jobs) {
    std::optional<Beside> best;
    for (Beside& next : jobs) {
      const Candidate candidate = evaluate_plan(next.job, objective);
      if (candidate.memory > usable_memory(next.job, limits) || candidate.value >= least) continue;
      least = candidate.value;
      best = std::move(next);
    }
    if (best) changes.push_back(judged_plan(best->what, best->job, objective, limits));
  };
  const Jobs single = jobs_that_run(job);
  best_of(single);
  // Of pairs one half may gain nothing, or not fit, by itself.
  Jobs pairs;
  for (const Beside& first : single)
    for (Beside& second : jobs_that_run(first.job))
      if (second.job.plan != job.plan)
        pairs.push_back({first.what + ", " + second.what, std::move(second.job), {}});
  best_of(std::move(pairs));
  return changes;
}

std::string causes_text(const Finalist& plan, const Finalist& against) {
  std::vector<std::pair<double, Term>> causes;
  for (size_t t = 0; t < term_count; ++t)
    causes.emplace_back(plan.terms[t] - against.terms[t], static_cast<Term>(t));
  std::ranges::stable_sort(causes, std::greater(),
                           [](const auto& cause) { return std::abs(cause.first); });
  std::string text;
  double rest = 0;
  for (const auto& [seconds, term] : causes) {
    if (std::abs(seconds) < 5e-3 * against.time) {
      rest += seconds;
      continue;
    }
    text += fmt::format("{}{} {}{} s", text.empty() ? "" : ", ", name_of(term),
                        seconds < 0 ? "−" : "+", significant(std::abs(seconds)));
  }
  if (std::abs(rest) > 5e-4 * against.time)
    text += fmt::format("{}others {}{} s", text.empty() ? "" : ", ", rest < 0 ? "−" : "+",
                        significant(std::abs(rest)));
  return text.empty() ? "nothing of note" : text;
}

std::string missing_text(const OtherPlan& other) {
  return fmt::format("out of memory by {} GiB", significant(other.missing / unit::GiB));
}

std::string own_text(const OtherPlan& own, const Finalist& first) {
  const std::string name = plan_text(own.plan);
  if (own.missing > Bytes())
    return fmt::format("Your job, {}, does not fit: {}.", name, missing_text(own));
  const double longer = own.plan.time / first.time - 1;
  const double behind = own.plan.time - first.time;
  return fmt::format("Your job, {}, takes {} s a step, {}{} s ({}{}) against plan 1: {}.", name,
                     significant(own.plan.time), behind < 0 ? "−" : "+",
                     significant(std::abs(behind)), longer < 0 ? "−" : "+",
                     percent(std::abs(longer)), causes_text(own.plan, first));
}

std::string why_not(const OtherPlan& other, const Finalist& first, Goal goal) {
  if (!other.problem.empty()) return "not possible: " + other.problem;
  if (other.missing > Bytes()) return missing_text(other);
  const std::string behind = behind_text(other.plan, first, goal) +
                             (other.plan.refused.empty() ? "" : "; " + other.plan.refused);
  if (other.missing_headroom == Bytes()) return behind;
  return fmt::format("{}; {} GiB short of --memory-headroom", behind,
                     significant(other.missing_headroom / unit::GiB));
}

std::string behind_text(const Finalist& plan, const Finalist& first, Goal goal) {
  if (goal == Goal::throughput)
    return plan.time <= first.time ? "not slower" : cause_text(plan, first);
  const double more = plan.value / first.value - 1;
  return more <= 0 ? fmt::format("not more {}", name_of(goal))
                   : fmt::format("{} +{:.1f} %", name_of(goal), 100 * more);
}

std::string cause_text(const Finalist& plan, const Finalist& first) {
  constexpr double worth_telling = 5e-4;
  const Loss loss = largest_loss(plan, first);
  const double share = loss.seconds / first.time, rest = plan.time / first.time - 1 - share;
  if (share < worth_telling) return "nearly equal";
  std::string text = fmt::format("{} +{:.1f} %", reason_of(loss.term), 100 * share);
  if (rest < -worth_telling) text += fmt::format(", others −{:.1f} %", -100 * rest);
  return text;
}

}  // namespace triplepoint::search
