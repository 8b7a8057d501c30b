// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/score_card.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/spec/names.h"

namespace triplepoint::metrics {
namespace {

/// Absent where a number is missing, or no ratio can be made of it.
std::optional<double> job_score(const spec::ScoreRules& rules, const JobScore& job,
                                const JobScore& reference) {
  double logs = 0, weights = 0;
  for (const spec::ScoreWeight& weight : rules.metric) {
    if (weight.weight <= 0) continue;
    const auto metric = as_size(weight.name);
    const auto &value = job.values[metric], &other = reference.values[metric];
    if (!value || !other) return std::nullopt;
    if (!weight.halves && (*value <= 0 || *other <= 0)) return std::nullopt;
    logs += weight.weight * std::log(factor(weight, *value, *other));
    weights += weight.weight;
  }
  return std::exp(logs / weights);
}

std::string card_name(const spec::Cluster& cluster) {
  return fmt::format("{} x {}", cluster.name, cluster.num_nodes);
}

ScoreCard card_of(const spec::StudyPlan& suite, const std::string& name,
                  const std::vector<ScoredRun>& runs) {
  ScoreCard card{name, {}};
  for (const auto& [wanted, diagnoses] : suite.jobs) {
    std::vector<ScoreValues> repeats;
    std::vector<std::string> broken;
    for (const ScoredRun& run : runs) {
      if (run.card != name || run.job != wanted.name) continue;
      repeats.push_back(run.values);
      broken.insert(broken.end(), run.broken.begin(), run.broken.end());
    }
    card.jobs.push_back(combine_repeats(wanted.name, repeats));
    JobScore& job = card.jobs.back();
    if (job.repeats < suite.score->repeats)
      broken.push_back(fmt::format("{} repeats, not {}", job.repeats, suite.score->repeats));
    job.broken = std::move(broken);
  }
  return card;
}

}  // namespace

double factor(const spec::ScoreWeight& weight, double value, double reference) {
  const bool more = weight.name == ScoreMetric::tokens_per_second_per_gpu;
  if (weight.halves)
    return std::exp2((more ? value - reference : reference - value) / *weight.halves);
  return more ? value / reference : reference / value;
}

ScoreCard scored(ScoreCard card, const ScoreCard& reference, const spec::ScoreRules& rules) {
  bool broken = false;
  double logs = 0;
  // In the reference's order, whatever the card's is: the same bits.
  for (const JobScore& wanted : reference.jobs)
    for (JobScore& job : card.jobs) {
      if (job.name != wanted.name) continue;
      broken = broken || !job.broken.empty();
      job.score = job_score(rules, job, wanted);
      if (!job.score) continue;
      logs += std::log(*job.score);
      ++card.scored;
    }
  if (card.scored > 0) card.score = std::exp(logs / as_real(card.scored));
  card.is_official = card.scored == reference.jobs.size() && !broken;
  return card;
}

JobScore combine_repeats(const std::string& name, const std::vector<ScoreValues>& repeats) {
  JobScore job{name, static_cast<int64_t>(repeats.size())};
  for (std::size_t m = 0; m < job.values.size(); ++m) {
    std::vector<double> known;
    for (const ScoreValues& values : repeats)
      if (values[m]) known.push_back(*values[m]);
    if (!known.empty() && known.size() == repeats.size()) job.values[m] = median(known);
  }
  return job;
}

std::optional<ScoredRun> score_run(const spec::StudyPlan& suite, const std::string& run_name,
                                   const run::Run& run) {
  const spec::Job* wanted = meant_job(suite, run_name);
  if (wanted == nullptr || !run.manifest.job) return std::nullopt;
  ScoredRun result{card_name(run.manifest.job->cluster), wanted->name, {}, {}};
  if (run.manifest.origin != run::Origin::simulated)
    result.card += fmt::format(", {}", run::name_of(run.manifest.origin));
  result.values = measure_for_score(run, suite.score->warm_up);
  for (const std::string& rule : broken_rules(*suite.score, *wanted, run))
    result.broken.push_back(fmt::format("{}: {}", run_name, rule));
  return result;
}

SuiteScore score_suite(const spec::StudyPlan& suite, const std::vector<ScoredRun>& runs) {
  SuiteScore result;
  for (const ScoredRun& run : runs)
    if (!holds(result.cards, run.card, &ScoreCard::name))
      result.cards.push_back(card_of(suite, run.card, runs));
  if (result.cards.empty()) return result;
  const std::string own = card_name(suite.jobs.front().job.cluster);
  const auto found = std::ranges::find(result.cards, own, &ScoreCard::name);
  ScoreCard reference = found == result.cards.end() ? result.cards.front() : *found;
  if (!suite.score->reference.empty()) reference = {own, {}};
  for (const spec::ScoreReference& of_job : suite.score->reference) {
    reference.jobs.push_back({of_job.job});
    std::ranges::copy(of_job.values, reference.jobs.back().values.begin());
  }
  result.reference = reference.name;
  for (ScoreCard& card : result.cards)
    card = scored(std::move(card), reference, *suite.score);
  return result;
}

Json score_json(const SuiteScore& suite) {
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  Json cards = Json::array();
  for (const ScoreCard& card : suite.cards) {
    Json jobs = Json::array();
    for (const JobScore& job : card.jobs) {
      Json values = Json::object();
      for (std::size_t m = 0; m < job.values.size(); ++m)
        values[std::string(spec::enum_names<ScoreMetric>[m])] = number(job.values[m]);
      jobs.push_back({{"name", job.name},
                      {"repeats", job.repeats},
                      {"values", std::move(values)},
                      {"score", number(job.score)},
                      {"broken_rules", job.broken}});
    }
    cards.push_back({{"name", card.name},
                     {"score", number(card.score)},
                     {"jobs_scored", card.scored},
                     {"official", card.is_official},
                     {"jobs", std::move(jobs)}});
  }
  return {{"reference", suite.reference}, {"cards", std::move(cards)}};
}

}  // namespace triplepoint::metrics
