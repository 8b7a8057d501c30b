// SPDX-License-Identifier: Apache-2.0
// Which setting would explain the step?
//
// A setting leaves marks in several classes of kernels and parts of the step at once: recomputation
// in GEMMs and attention alike, an overlap that is off in exposed communication alone. So the job
// is simulated with each one changed, and the marks are compared.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <string_view>
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
constexpr double least_for_two = 0.15;     // of what differs, that one leaves: then two are tried,
constexpr double better_by_two = 0.5;      // if they leave less than this of that
constexpr double least_share = 0.3, most_share = 2;  // of a variant whose degree is a guess

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

using Marks = std::vector<double>;

/// A change of the job, and what it adds to the marks of the prediction.
struct Candidate {
  size_t variant = 0;
  std::string_view cause;
  bool has_degree = false;
  Marks difference;
};

/// Some candidates that add up to what is seen, how much of each, and what they leave.
struct Fit {
  std::vector<const Candidate*> of;
  std::vector<double> shares;
  double left = 0;

  std::set<std::string_view> causes() const {
    std::set<std::string_view> all;
    for (const Candidate* one : of)
      all.insert(one->cause);
    return all;
  }
};

/// What is seen without the others, along one difference.
double share_along(const Marks& rest, const Marks& difference) {
  double along = 0, length = 0;
  for (size_t i = 0; i < rest.size(); ++i) {
    along += rest[i] * difference[i];
    length += difference[i] * difference[i];
  }
  return length > 0 ? std::clamp(along / length, least_share, most_share) : 0;
}

/// Least squares, one share after the other; what has no degree is there as a whole.
Fit fit_of(const Marks& seen, std::vector<const Candidate*> of) {
  Fit fit{.of = std::move(of), .shares = {}, .left = 0};
  fit.shares.assign(fit.of.size(), 1);
  const auto rest_without = [&](size_t out) {
    Marks rest = seen;
    for (size_t c = 0; c < fit.of.size(); ++c)
      for (size_t i = 0; c != out && i < rest.size(); ++i)
        rest[i] -= fit.shares[c] * fit.of[c]->difference[i];
    return rest;
  };
  constexpr int rounds = 20;
  for (int round = 0; round < rounds; ++round)
    for (size_t c = 0; c < fit.of.size(); ++c)
      if (fit.of[c]->has_degree)
        fit.shares[c] = share_along(rest_without(c), fit.of[c]->difference);
  for (const double mark : rest_without(fit.of.size()))
    fit.left += std::abs(mark);
  return fit;
}

void sort_by_left(std::vector<Fit>& fits) {
  std::ranges::stable_sort(fits, {}, &Fit::left);
}

std::vector<Fit> fits_of_one(const Marks& seen, const std::vector<Candidate>& all) {
  std::vector<Fit> fits;
  for (const Candidate& one : all)
    fits.push_back(fit_of(seen, {&one}));
  sort_by_left(fits);
  return fits;
}

std::vector<Fit> fits_of_two(const Marks& seen, const std::vector<Candidate>& all) {
  std::vector<Fit> fits;
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j)
      if (all[i].cause != all[j].cause) fits.push_back(fit_of(seen, {&all[i], &all[j]}));
  sort_by_left(fits);
  return fits;
}

/// The first, without the candidates whose cause another one that is nearly as good does not need.
Fit certain_part(const std::vector<Fit>& sorted) {
  Fit best = sorted.front();
  for (const Fit& fit : sorted) {
    if (fit.left >= ambiguous * best.left) break;
    const std::set<std::string_view> causes = fit.causes();
    for (size_t c = best.of.size(); c-- > 0;)
      if (!causes.contains(best.of[c]->cause)) {
        best.of.erase(best.of.begin() + static_cast<std::ptrdiff_t>(c));
        best.shares.erase(best.shares.begin() + static_cast<std::ptrdiff_t>(c));
      }
  }
  return best;
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

std::vector<Match> matching_variants(const Job& job, const std::vector<double>& seen,
                                     const metrics::Metrics& predicted) {
  const Marks plain = fingerprint(predicted);
  if (seen.size() != plain.size() || plain.empty()) return {};
  const auto apart_from_plain = [&](const Marks& marks) {
    Marks apart = marks;
    for (size_t i = 0; i < plain.size(); ++i)
      apart[i] -= plain[i];
    return apart;
  };
  const Marks target = apart_from_plain(seen);
  const double apart = fit_of(target, {}).left;
  const double least = least_difference * (predicted.parts->total() / unit::s);
  if (apart < least) return {};
  std::vector<JobVariant> variants = variants_of(job);
  std::vector<metrics::Metrics> results(variants.size());
  parallel_for(variants.size(), available_threads(),
               [&](size_t i) { results[i] = metrics_of(variants[i].job); });
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < variants.size(); ++i)
    if (const Marks marks = fingerprint(results[i]); marks.size() == plain.size())
      candidates.push_back({i, variants[i].cause, variants[i].has_degree, apart_from_plain(marks)});
  if (candidates.empty()) return {};
  std::vector<Fit> fits = fits_of_one(target, candidates);
  if (fits.front().left > std::max(least_for_two * apart, least)) {
    std::vector<Fit> pairs = fits_of_two(target, candidates);
    if (!pairs.empty() && pairs.front().left < better_by_two * fits.front().left)
      fits = std::move(pairs);
  }
  if (fits.front().left > (1 - least_explained) * apart) return {};
  const Fit found = certain_part(fits);
  std::vector<Match> matches;
  for (size_t c = 0; c < found.of.size(); ++c)
    matches.push_back(
        {variants[found.of[c]->variant], found.shares[c], results[found.of[c]->variant]});
  return matches;
}

}  // namespace triplepoint::advise
