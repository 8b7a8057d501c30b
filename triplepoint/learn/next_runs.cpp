// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/next_runs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/base/parallel.h"

namespace triplepoint::learn {
namespace {

constexpr std::size_t most_jobs = 4;  // whose neighbours are looked at

struct Change {
  const char* name;
  int64_t& (*size_of)(spec::Job&);
};
constexpr std::array<Change, 4> changes = {{
    {"micro_batch_size", [](spec::Job& job) -> int64_t& { return job.plan.micro_batch_size; }},
    {"tensor_parallel_size",
     [](spec::Job& job) -> int64_t& { return job.plan.tensor_parallel_size; }},
    {"pipeline_parallel_size",
     [](spec::Job& job) -> int64_t& { return job.plan.pipeline_parallel_size; }},
    {"nodes", [](spec::Job& job) -> int64_t& { return job.cluster.num_nodes; }},
}};

struct Candidate {
  spec::Job job;
  const char* change = nullptr;  // absent: it was measured
  int64_t from = 0, to = 0;
  std::optional<Evidence> evidence;  // nothing where it cannot run
  double log_time = 0;
};

std::vector<Candidate> candidates(const std::vector<MeasuredJob>& measured) {
  std::vector<Candidate> all;
  for (std::size_t j = 0; j < std::min(measured.size(), most_jobs); ++j) {
    const auto& [job, evidence] = measured[j];
    all.push_back({.job = job, .evidence = evidence});
    for (const Change& change : changes) {
      Candidate next{.job = job, .change = change.name, .evidence = {}};
      int64_t& size = change.size_of(next.job);
      next.from = size;
      next.to = size *= 2;
      all.push_back(std::move(next));
    }
  }
  return all;
}

void predict(const Posterior& known, Candidate& candidate) {
  const spec::Job& job = candidate.job;
  if (candidate.evidence) return;
  if (spec::has_errors(spec::diagnose(job))) return;
  const spec::Job there = scaled(job, known.mean(knobs_of(job)));
  const auto time = log_step_time(there);
  if (!time) return;
  candidate.log_time = *time;
  candidate.evidence =
      Evidence{.run = {}, .slopes = sensitivities(there, *time), .knobs = knobs_of(job)};
}

/// The share that a candidate takes of the variance of all.
double narrowing_of(const Posterior& known, const std::vector<Candidate>& all,
                    const Candidate& measured) {
  double before = 0, taken = 0;
  for (const Candidate& one : all) {
    if (!one.evidence) continue;
    const double spread = known.spread(one.evidence->slopes, one.evidence->knobs);
    before += spread * spread;
    taken += known.narrowed(*one.evidence, *measured.evidence);
  }
  return taken / before;
}

}  // namespace

std::vector<NextRun> next_runs(const Posterior& known, const std::vector<MeasuredJob>& measured,
                               int threads) {
  std::vector<Candidate> all = candidates(measured);
  parallel_for(all.size(), threads, [&](std::size_t i) { predict(known, all[i]); });
  int64_t used = 0;
  for (const MeasuredJob& one : measured)
    used = std::max(used, one.job.world_size());
  std::optional<NextRun> within, beyond;
  for (const Candidate& one : all) {
    if (one.change == nullptr || !one.evidence) continue;
    const NextRun next{
        .change = fmt::format("{} {} in the place of {}", one.change, one.to, one.from),
        .of = one.job.name,
        .gpus = one.job.world_size(),
        .seconds = std::exp(one.log_time + known.remainder(one.evidence->knobs)),
        .narrowing = narrowing_of(known, all, one)};
    std::optional<NextRun>& best = next.gpus <= used ? within : beyond;
    if (!best || next.narrowing > best->narrowing) best = next;
  }
  std::vector<NextRun> chosen;
  if (within) chosen.push_back(*within);
  if (beyond && (!within || beyond->narrowing > within->narrowing)) chosen.push_back(*beyond);
  return chosen;
}

}  // namespace triplepoint::learn
