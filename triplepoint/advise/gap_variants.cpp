// SPDX-License-Identifier: Apache-2.0
// Which setting would explain the step?
//
// A setting leaves marks in several classes of kernels and parts of the step at once: recomputation
// in GEMMs and attention alike, an overlap that is off in exposed communication alone. So the job
// is simulated with each one changed, and the marks are compared.
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/advise/gap.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::advise {
namespace {

using spec::Job;
using spec::Plan;

constexpr double least_explained = 0.65;   // of what the fingerprints differ by
constexpr double ambiguous = 1.3;          // of what the best leaves, another leaves at most
constexpr double least_difference = 0.02;  // of the predicted step

template <class Change>
void add(std::vector<JobVariant>& all, const Job& job, JobVariant variant, Change change) {
  variant.job = job;
  change(variant.job);
  if (variant.job == job || spec::has_errors(spec::diagnose(variant.job))) return;
  all.push_back(std::move(variant));
}

void add_overlaps(const Job& job, std::vector<JobVariant>& all) {
  struct Overlap {
    const char *cause, *of, *flag;
    bool Plan::*on;
  };
  constexpr Overlap overlaps[] = {
      {"overlap_gradient", "gradient reduction", "--overlap-grad-reduce", &Plan::overlap_gradient},
      {"overlap_parameter", "parameter gather", "--overlap-param-gather", &Plan::overlap_parameter},
      {"overlap_tensor", "tensor-parallel communication", "--tp-comm-overlap",
       &Plan::overlap_tensor},
      {"overlap_pipeline", "pipeline send and receive", "--overlap-p2p-communication",
       &Plan::overlap_pipeline},
      {"overlap_expert", "expert all-to-all", "--overlap-moe-expert-parallel-comm",
       &Plan::overlap_expert}};
  for (const Overlap& overlap : overlaps)
    if (job.plan.*overlap.on)
      add(all, job,
          {overlap.cause, fmt::format("the {} is not overlapped", overlap.of),
           fmt::format("turn it on ({}), or check its buckets", overlap.flag)},
          [&](Job& changed) { changed.plan.*overlap.on = false; });
}

void add_recompute(const Job& job, std::vector<JobVariant>& all) {
  using spec::Recompute;
  for (const Recompute mode : {Recompute::selective, Recompute::full})
    if (mode > job.plan.recompute)
      add(all, job,
          {"recompute",
           fmt::format("activations are recomputed ({})",
                       mode == Recompute::full ? "full" : "selective"),
           "turn recomputation off (--recompute-granularity)"},
          [&](Job& changed) {
            changed.plan.recompute = mode;
            changed.plan.recompute_layers.reset();
          });
}

void add_layout(const Job& job, std::vector<JobVariant>& all) {
  using spec::RankOrder;
  add(all, job,
      {"rank_order", "ranks lie in another order: groups span nodes that should not",
       "give ranks in the order of the launcher's host file, tensor-parallel ranks first"},
      [](Job& changed) {
        changed.plan.rank_order = changed.plan.rank_order == RankOrder::tp_pp_dp
                                      ? RankOrder::tp_cp_ep_dp_pp
                                      : RankOrder::tp_pp_dp;
      });
  if (job.plan.sequence_parallel)
    add(all, job, {"sequence_parallel", "sequence parallelism is off", "turn it on"},
        [](Job& changed) { changed.plan.sequence_parallel = false; });
}

void add_faults(const Job& job, std::vector<JobVariant>& all) {
  const auto fault = [&](JobVariant variant, const std::string& text) {
    variant.has_degree = true;
    add(all, job, std::move(variant), [&](Job& changed) {
      if (auto parsed = spec::parse_fault(text)) changed.environment.faults.push_back(*parsed);
    });
  };
  // A timeline shows the first replica: most ranks wait for the slow node, and it is none of them.
  const int64_t last = job.cluster.num_nodes - 1;
  for (const double share : {0.7, 0.5, 0.25}) {
    if (job.cluster.num_nodes > 1)
      fault({"links",
             "the network is slower than predicted, of one node or all",
             "check NICs, cables and switch ports; trace all ranks of two nodes to see which",
             {}},
            fmt::format("node={},link={}", last, share));
    fault({"links",
           "a GPU's links inside the node are slower than predicted",
           "check nvidia-smi nvlink -s and the topology",
           {}},
          fmt::format("gpu=0,link={}", share));
  }
  for (const double factor : {1.5, 3.0}) {
    if (job.cluster.num_nodes > 1)
      fault({"host",
             "the host of one node launches kernels later than predicted",
             "look for other processes, the CPU's clock and the binding of ranks to cores there",
             {}},
            fmt::format("node={},host={}", last, factor));
    fault({"host",
           "hosts launch kernels later than predicted",
           "look for other processes, the CPU's clock and the binding of ranks to cores",
           {}},
          fmt::format("host={}", factor));
  }
}

void add_experts(const Job& job, std::vector<JobVariant>& all) {
  if (!job.model.moe) return;
  for (const double imbalance : {1.3, 1.7, 2.2, 3.0})
    if (imbalance > job.model.moe->load_imbalance)
      add(all, job,
          {.cause = "expert_imbalance",
           .what = fmt::format("experts are loaded unevenly, about {} to the mean", imbalance),
           .advice = "raise the load-balancing loss, or set a capacity factor",
           .job = {},
           .has_degree = true},
          [&](Job& changed) { changed.model.moe->load_imbalance = imbalance; });
}

metrics::Metrics metrics_of(const Job& job) {
  return metrics::measure(
      sim::simulate(job, {.duration = {}, .steps = {}, .timeline = true, .causes = false}));
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += std::abs(a[i] - b[i]);
  return sum;
}

/// `plain` on the way to `changed`, where that is closest to `seen`: a degree between or beyond.
std::vector<double> scaled(const std::vector<double>& plain, const std::vector<double>& changed,
                           const std::vector<double>& seen) {
  constexpr double least = 0.3, most = 2;
  double along = 0, length = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    along += (seen[i] - plain[i]) * (changed[i] - plain[i]);
    length += (changed[i] - plain[i]) * (changed[i] - plain[i]);
  }
  const double share = length > 0 ? std::clamp(along / length, least, most) : 0;
  std::vector<double> marks = plain;
  for (size_t i = 0; i < plain.size(); ++i)
    marks[i] += share * (changed[i] - plain[i]);
  return marks;
}

}  // namespace

std::vector<JobVariant> variants_of(const Job& job) {
  std::vector<JobVariant> all;
  add_overlaps(job, all);
  add_recompute(job, all);
  add_layout(job, all);
  add_experts(job, all);
  add_faults(job, all);
  return all;
}

std::vector<double> fingerprint(const metrics::Metrics& m) {
  if (!m.parts) return {};
  constexpr double by_kind = 0.25;  // waits are part of kinds, and no setting's
  const metrics::KernelSeconds& k = m.kernels;
  const metrics::StepParts& p = *m.parts;
  // Where boards differ, the mean rank computes less and waits for the slowest.
  std::vector<double> marks;
  for (const Seconds time : {k.compute + p.waiting, k.memory, k.other, p.exposed_communication,
                             k.communication() - k.waiting, p.copying, p.gaps + p.bubble})
    marks.push_back(time / unit::s);
  for (const Seconds time :
       {k.send_recv, k.all_gather, k.reduce_scatter, k.all_reduce, k.all_to_all})
    marks.push_back(by_kind * (time / unit::s));
  return marks;
}

std::optional<Match> matching_variant(const Job& job, const metrics::Metrics& measured,
                                      const metrics::Metrics& predicted) {
  const std::vector<double> seen = fingerprint(measured), plain = fingerprint(predicted);
  if (seen.empty() || plain.empty()) return std::nullopt;
  const double apart = distance(seen, plain);
  if (apart < least_difference * (predicted.parts->total() / unit::s)) return std::nullopt;
  std::vector<JobVariant> variants = variants_of(job);
  std::vector<metrics::Metrics> results(variants.size());
  parallel_for(variants.size(), available_threads(),
               [&](size_t i) { results[i] = metrics_of(variants[i].job); });
  std::vector<std::pair<double, size_t>> left;
  for (size_t i = 0; i < variants.size(); ++i) {
    const std::vector<double> marks = fingerprint(results[i]);
    if (marks.size() != seen.size()) continue;
    left.emplace_back(distance(seen, variants[i].has_degree ? scaled(plain, marks, seen) : marks),
                      i);
  }
  std::ranges::sort(left);
  if (left.empty() || left.front().first > (1 - least_explained) * apart) return std::nullopt;
  const size_t best = left.front().second;
  for (const auto& [distance, i] : left)
    if (variants[i].cause != variants[best].cause && distance < ambiguous * left.front().first)
      return std::nullopt;
  return Match{std::move(variants[best]), std::move(results[best])};
}

}  // namespace triplepoint::advise
