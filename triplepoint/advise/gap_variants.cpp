// SPDX-License-Identifier: Apache-2.0
// Which settings and disturbances would explain the step?
//
// Each leaves marks in several classes of kernels and parts of the step at once: recomputation in
// GEMMs and attention alike, an overlap that is off in exposed communication alone. The list is
// short on purpose: only what exists, and only what this job can have.
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/advise/gap_model.h"

namespace triplepoint::advise {
namespace {

using spec::Job;
using spec::Plan;

void add(std::vector<JobVariant>& all, const Job& job, JobVariant variant) {
  const Job changed = variant.of(job, variant.degree);
  if (changed != job && !spec::has_errors(spec::diagnose(changed)))
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
    add(all, job,
        {.cause = overlap.cause,
         .what = fmt::format("the {} is not overlapped", overlap.of),
         .advice = fmt::format("turn it on ({}), or check its buckets", overlap.flag),
         .change = [on = overlap.on](Job& changed, double) { changed.plan.*on = false; }});
}

void add_recompute(const Job& job, std::vector<JobVariant>& all) {
  using spec::Recompute;
  for (const Recompute mode : {Recompute::selective, Recompute::full})
    if (mode > job.plan.recompute)
      add(all, job,
          {.cause = "recompute",
           .what = fmt::format("activations are recomputed ({})",
                               mode == Recompute::full ? "full" : "selective"),
           .advice = "turn recomputation off (--recompute-granularity)",
           .change = [mode](Job& changed, double) {
             changed.plan.recompute = mode;
             changed.plan.recompute_layers.reset();
           }});
}

void add_layout(const Job& job, std::vector<JobVariant>& all) {
  using spec::RankOrder;
  add(all, job,
      {.cause = "rank_order",
       .what =
           "ranks are in another order than predicted: groups that should stay inside a node span "
           "several",
       .advice = "give ranks in the order of the launcher's host file, tensor-parallel ranks first",
       .change = [](Job& changed, double) {
         changed.plan.rank_order = changed.plan.rank_order == RankOrder::tp_pp_dp
                                       ? RankOrder::tp_cp_ep_dp_pp
                                       : RankOrder::tp_pp_dp;
       }});
  if (job.plan.sequence_parallel)
    add(all, job,
        {.cause = "sequence_parallel",
         .what = "sequence parallelism is off",
         .advice = "turn it on (--sequence-parallel)",
         .change = [](Job& changed, double) { changed.plan.sequence_parallel = false; }});
}

std::string percent_left(double degree) {
  return percent(1 / (1 + degree));
}
std::string times_as_much(double degree) {
  return significant(1 + degree, 2);
}

void add_faults(const Job& job, std::vector<JobVariant>& all) {
  const auto fault = [&](JobVariant variant, spec::FaultKind kind, std::optional<int64_t> gpu,
                         std::optional<int64_t> node) {
    variant.change = [=](Job& changed, double degree) {
      const bool is_link = kind == spec::FaultKind::link;
      changed.environment.faults.push_back({.kind = kind,
                                            .gpu = gpu,
                                            .node = node,
                                            .share = is_link ? 1 / (1 + degree) : 1 + degree});
    };
    add(all, job, std::move(variant));
  };
  using Kind = spec::FaultKind;
  const bool has_nodes = job.cluster.num_nodes > 1;
  // A timeline shows the first replica: most ranks wait for the slow node, and it is none of them.
  const int64_t last = job.cluster.num_nodes - 1;
  for (const double degree : {0.5, 2.0}) {
    if (has_nodes)
      fault(
          {.cause = "links",
           .what = "the network of one node, or of all, is slower than predicted: about {} of its "
                   "bandwidth is left",
           .advice = "check NICs, cables and switch ports; trace all ranks of two nodes to see "
                     "which",
           .degree = degree,
           .degree_text = percent_left},
          Kind::link, {}, last);
    const bool has_gpus = job.cluster.shared_cores == 0;
    fault(
        {.cause = "links",
         .what = has_gpus
                     ? "the links of a GPU inside its node are slower than predicted: about {} of "
                       "their bandwidth is left"
                     : "ranks exchange data more slowly than predicted: about {} of the bandwidth "
                       "between them is left",
         .advice = has_gpus ? "check the errors of its links (nvidia-smi nvlink -e, amd-smi xgmi) "
                              "and the topology"
                            : "look for other programs on the cores, on which ranks wait for each "
                              "other",
         .degree = degree,
         .degree_text = percent_left},
        Kind::link, 0, {});
    if (has_nodes)
      fault({.cause = "host",
             .what = "the host of one node takes about {} times as long as predicted to launch "
                     "kernels",
             .advice = "look for other processes, the CPU's clock and the binding of ranks to "
                       "cores there",
             .degree = degree,
             .degree_text = times_as_much},
            Kind::host, {}, last);
    fault({.cause = "host",
           .what = "hosts take about {} times as long as predicted to launch kernels",
           .advice = "look for other processes, the CPU's clock and the binding of ranks to cores",
           .degree = degree,
           .degree_text = times_as_much},
          Kind::host, {}, {});
  }
}

void add_experts(const Job& job, std::vector<JobVariant>& all) {
  if (!job.model.moe) return;
  const double usual = job.model.moe->load_imbalance;
  for (const double degree : {0.4, 1.2})
    add(all, job,
        {.cause = "expert_imbalance",
         .what = "experts are loaded unevenly: the fullest rank has about {} times the load that "
                 "was predicted",
         .advice = "raise the load-balancing loss, or set a capacity factor",
         .change = [usual](Job& changed,
                           double more) { changed.model.moe->load_imbalance = usual * (1 + more); },
         .degree = degree,
         .degree_text = times_as_much});
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

}  // namespace triplepoint::advise
