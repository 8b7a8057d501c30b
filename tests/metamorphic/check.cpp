// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/parallel.h"

#include "triplepoint/sim/simulate.h"

#include "tests/metamorphic/laws.h"
#include "tests/metamorphic/relation.h"

namespace triplepoint::metamorphic {
namespace {

/// What one law says of one job; absent: nothing.
struct Finding {
  size_t law = 0;
  double excess = 0;  // beyond what is allowed
};

double allowed(const Law& law, const Outcome& before, const Outcome& after) {
  return law.slack != nullptr && before.trained && after.trained ? law.slack->of(before, after) : 0;
}

/// `first_law`: number of the relation's first law in the whole list.
void check_relation(const Relation& relation, size_t first_law, const spec::Job& job,
                    const Outcome& as_drawn, std::vector<Finding>& findings) {
  spec::Job prepared = job;
  if (relation.prepare != nullptr && (!relation.prepare(prepared) || !is_legal(prepared))) return;
  const Outcome before = relation.prepare != nullptr ? outcome_of(prepared) : as_drawn;
  if (!before.trained) return;
  spec::Job changed = prepared;
  if (!relation.change(changed) || !is_legal(changed)) return;
  const Outcome after = outcome_of(changed);
  for (size_t i = 0; i < relation.laws.size(); ++i) {
    const Law& law = relation.laws[i];
    if (const auto excess = law.excess(before, after))
      findings.push_back({first_law + i, *excess - allowed(law, before, after)});
  }
}

/// The job in a few words; its seed gives the whole of it.
std::string in_words(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return fmt::format("{} of {} on {} x {}, TP{} PP{} CP{} EP{}", spec::name_of(job.task),
                     job.model.name, job.cluster.num_nodes, job.cluster.name,
                     plan.tensor_parallel_size, plan.pipeline_parallel_size,
                     plan.context_parallel_size, plan.expert_parallel_size);
}

/// Jobs in parallel, tallies in their order.
std::vector<Tally> collect(std::vector<Tally> tallies, uint64_t jobs,
                           const std::function<std::vector<Finding>(uint64_t seed)>& look_at) {
  std::vector<std::vector<Finding>> found(jobs);
  parallel_for(jobs, available_threads(), [&](size_t i) { found[i] = look_at(i + 1); });
  for (size_t i = 0; i < jobs; ++i)
    for (const Finding& finding : found[i]) {
      Tally& tally = tallies[finding.law];
      ++tally.jobs;
      if (finding.excess <= 0) continue;
      tally.violations.push_back(fmt::format("job {} ({}): beyond what is allowed by {:.3g}", i + 1,
                                             in_words(random_job(i + 1)), finding.excess));
    }
  return tallies;
}

/// Everything of an outcome that a user reads, in one row.
std::vector<double> numbers_of(const Outcome& o) {
  std::vector<double> all = {*memory(o), o.trained ? 1.0 : 0.0};
  if (!o.trained) return all;
  for (const Value value : {step, energy, power, mean_die, mean_clock, model_flops, hardware_flops})
    all.push_back(value(o).value_or(0));
  const metrics::Metrics& m = o.metrics;
  for (const auto* list : {&m.power_per_gpu_w, &m.temperature_per_gpu_c, &m.sm_clock_per_gpu_mhz})
    all.insert(all.end(), list->begin(), list->end());
  for (const auto& [part, joules] : m.energy_ledger_j)
    all.push_back(joules);
  return all;
}

}  // namespace

std::vector<Tally> check_relations(const std::vector<Relation>& relations, uint64_t jobs) {
  std::vector<Tally> tallies;
  std::vector<size_t> first_laws;
  for (const Relation& relation : relations) {
    first_laws.push_back(tallies.size());
    for (const Law& law : relation.laws)
      tallies.push_back({.name = fmt::format("{}: {}", relation.change_name, law.name),
                         .allowed = law.slack != nullptr ? law.slack->name : ""});
  }
  return collect(std::move(tallies), jobs, [&](uint64_t seed) {
    const spec::Job job = random_job(seed);
    const Outcome as_drawn = outcome_of(job);
    std::vector<Finding> findings;
    for (size_t i = 0; i < relations.size(); ++i)
      check_relation(relations[i], first_laws[i], job, as_drawn, findings);
    return findings;
  });
}

std::vector<Tally> check_identities(const std::vector<Identity>& all, uint64_t jobs) {
  std::vector<Tally> tallies;
  for (const Identity& identity : all)
    tallies.push_back({.name = identity.name, .allowed = identity.allowed});
  return collect(std::move(tallies), jobs, [&](uint64_t seed) {
    const spec::Job job = random_job(seed);
    const Outcome outcome = outcome_of(job);
    std::vector<Finding> findings;
    for (size_t i = 0; i < all.size(); ++i) {
      if (seed % all[i].once_in != 0) continue;
      if (const auto excess = all[i].excess(job, outcome))
        findings.push_back({i, *excess - all[i].tolerance});
    }
    return findings;
  });
}

Outcome outcome_of(const spec::Job& job) {
  Outcome outcome;
  outcome.run = sim::simulate(job, {});
  outcome.trained = !outcome.run.steps.empty();
  if (outcome.trained) outcome.metrics = metrics::measure(outcome.run);
  return outcome;
}

std::optional<double> same_bits(const Outcome& before, const Outcome& after) {
  return numbers_of(before) == numbers_of(after) ? 0 : 1;
}

std::optional<double> same_numbers(const Outcome& before, const Outcome& after) {
  // Devices may have changed places.
  std::vector<double> a = numbers_of(before), b = numbers_of(after);
  std::ranges::sort(a);
  std::ranges::sort(b);
  if (a.size() != b.size()) return 1;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i])
      largest = std::max(largest, std::abs(a[i] - b[i]) / std::max(std::abs(a[i]), std::abs(b[i])));
  return largest;
}

}  // namespace triplepoint::metamorphic
