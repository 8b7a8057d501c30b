// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/score_card.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

namespace triplepoint::metrics {
namespace {

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json job_json(const JobResult& job) {
  Json values = Json::object();
  for (std::size_t m = 0; m < score_metric_count; ++m)
    values[std::string(info_of(static_cast<ScoreMetric>(m)).key)] = number(job.values[m]);
  return {{"name", job.name},          {"verdict", job.verdict},
          {"plan", job.plan},          {"repeats", job.repeats},
          {"values", values},          {"repeat_spread", number(job.repeat_spread)},
          {"broken_rules", job.broken}};
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number_of(const Json& json, std::string_view key) {
  const auto found = json.find(std::string(key));
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

int64_t count_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

JobResult job_from(const Json& json) {
  JobResult job;
  job.name = text_of(json, "name");
  job.verdict = text_of(json, "verdict");
  job.plan = text_of(json, "plan");
  job.repeats = count_of(json, "repeats");
  job.repeat_spread = number_of(json, "repeat_spread");
  if (const auto values = json.find("values"); values != json.end() && values->is_object())
    for (std::size_t m = 0; m < score_metric_count; ++m)
      job.values[m] = number_of(*values, info_of(static_cast<ScoreMetric>(m)).key);
  if (const auto broken = json.find("broken_rules"); broken != json.end() && broken->is_array())
    for (const Json& rule : *broken)
      if (rule.is_string()) job.broken.push_back(rule.get<std::string>());
  return job;
}

}  // namespace

Json card_json(const ScoreCard& card, const CardScore* score) {
  Json json = {{"schema", 1},     {"suite", card.suite},       {"name", card.name},
               {"gpu", card.gpu}, {"num_gpus", card.num_gpus}, {"origin", card.origin}};
  if (!card.source.empty()) json["source"] = card.source;
  json["duration_s"] = card.duration_s;
  if (score != nullptr) {
    json["score"] = number(score->score);
    json["jobs_scored"] = score->scored;
    json["jobs_wanted"] = score->wanted;
    json["official"] = score->is_official;
  }
  json["jobs"] = Json::array();
  for (std::size_t i = 0; i < card.jobs.size(); ++i) {
    json["jobs"].push_back(job_json(card.jobs[i]));
    if (score != nullptr) json["jobs"].back()["score"] = number(score->jobs[i]);
  }
  return json;
}

Result<ScoreCard> card_from_json(const Json& json, const std::string& file) {
  const auto jobs = json.is_object() ? json.find("jobs") : json.end();
  if (!json.is_object() || text_of(json, "suite").empty() || jobs == json.end() ||
      !jobs->is_array())
    return error(
        fmt::format("{} is no score card (it names no suite and jobs); make one with "
                    "triplepoint bench SUITE --format json",
                    file));
  ScoreCard card;
  card.suite = text_of(json, "suite");
  card.name = text_of(json, "name");
  card.gpu = text_of(json, "gpu");
  card.origin = text_of(json, "origin");
  card.source = text_of(json, "source");
  card.num_gpus = count_of(json, "num_gpus");
  card.duration_s = number_of(json, "duration_s").value_or(0);
  for (const Json& job : *jobs)
    card.jobs.push_back(job_from(job));
  return card;
}

double factor(const ScoreWeight& weight, ScoreMetric metric, double value, double reference) {
  const bool more = info_of(metric).more_is_better;
  if (weight.halves)
    return std::exp2((more ? value - reference : reference - value) / *weight.halves);
  return more ? value / reference : reference / value;
}

namespace {

/// Absent where a number is missing, or no ratio can be made of it.
std::optional<double> job_score(const Suite& suite, const JobResult& job,
                                const JobResult& reference) {
  double logs = 0, weights = 0;
  for (std::size_t m = 0; m < score_metric_count; ++m) {
    const ScoreWeight& weight = suite.weights[m];
    if (weight.weight <= 0) continue;
    const auto &value = job.values[m], &other = reference.values[m];
    if (!value || !other) return std::nullopt;
    if (!weight.halves && (*value <= 0 || *other <= 0)) return std::nullopt;
    logs += weight.weight * std::log(factor(weight, static_cast<ScoreMetric>(m), *value, *other));
    weights += weight.weight;
  }
  return std::exp(logs / weights);
}

const JobResult* find_job(const ScoreCard& card, const std::string& name) {
  const auto found = std::find_if(card.jobs.begin(), card.jobs.end(),
                                  [&](const JobResult& job) { return job.name == name; });
  return found == card.jobs.end() ? nullptr : &*found;
}

}  // namespace

CardScore score(const ScoreCard& card, const ScoreCard& reference, const Suite& suite) {
  CardScore result;
  result.jobs.resize(card.jobs.size());
  result.wanted = suite.jobs.size();
  bool broken = false;
  for (std::size_t i = 0; i < card.jobs.size(); ++i) {
    broken = broken || !card.jobs[i].broken.empty();
    if (const JobResult* other = find_job(reference, card.jobs[i].name))
      result.jobs[i] = job_score(suite, card.jobs[i], *other);
  }
  // In the suite's order, whatever the card's is: the same bits.
  double logs = 0;
  for (const SuiteJob& wanted : suite.jobs) {
    const JobResult* job = find_job(card, wanted.name);
    if (job == nullptr) continue;
    const auto& own = result.jobs[static_cast<std::size_t>(job - card.jobs.data())];
    if (!own) continue;
    logs += std::log(*own);
    ++result.scored;
  }
  if (result.scored > 0) result.score = std::exp(logs / static_cast<double>(result.scored));
  result.is_official = result.scored == result.wanted && !broken;
  return result;
}

}  // namespace triplepoint::metrics
