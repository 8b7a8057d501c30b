// SPDX-License-Identifier: Apache-2.0
// Studies side by side, and comparisons for machines.

#include <algorithm>
#include <cmath>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/json_of.h"
#include "triplepoint/calibrate/tables/score_summary.h"
#include "triplepoint/report/compare/compare.h"
#include "triplepoint/report/findings/study_document.h"

namespace triplepoint::report {
namespace {

using Value = std::optional<double>;

const StudyRow* row_of(const Study& study, const std::string& name) {
  for (const StudyRow& row : study.rows)
    if (row.name == name) return &row;
  return nullptr;
}

/// Names of jobs, those of the first study first.
std::vector<std::string> all_names(const std::vector<Study>& studies) {
  std::vector<std::string> names;
  for (const Study& study : studies)
    for (const StudyRow& row : study.rows)
      if (!holds(names, row.name)) names.push_back(row.name);
  return names;
}

ComparedJob compare_job(const std::vector<Study>& studies, const std::vector<std::string>& names,
                        const std::string& name) {
  ComparedJob job{name, {}, {}, {}};
  std::vector<Side> sides;
  for (std::size_t i = 0; i < studies.size(); ++i) {
    const StudyRow* row = row_of(studies[i], name);
    job.verdicts.emplace_back(row != nullptr ? name_of(row->verdict) : std::string_view());
    job.origins.push_back(row != nullptr ? std::optional(row->origin) : std::nullopt);
    sides.push_back({.name = names[i], .row = row != nullptr ? *row : StudyRow()});
  }
  job.numbers = compare_runs(std::move(sides));
  return job;
}

Json rows_json(const ComparedSection& section) {
  Json rows = Json::array();
  for (const ComparedRow& row : section.rows) {
    Json values = Json::array(), differences = Json::array(), relative = Json::array();
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      values.push_back(answers::of(row.values[i]));
      const auto by = difference(row, i);
      differences.push_back(by ? Json(by->absolute) : Json());
      relative.push_back(by && by->relative ? Json(*by->relative) : Json());
    }
    Json json = {{"key", row.key},
                 {"title", row.title},
                 {"values", std::move(values)},
                 {"difference", std::move(differences)},
                 {"relative", std::move(relative)}};
    if (!row.whose.empty()) json["whose"] = row.whose;
    rows.push_back(std::move(json));
  }
  return rows;
}

Json sections_json(const Comparison& c) {
  return mapped<Json>(c.sections, [](const ComparedSection& section) -> Json {
    return {{"name", section.name}, {"title", section.title}, {"rows", rows_json(section)}};
  });
}

/// key,title,A,B,B_difference,B_relative,...
std::vector<std::string> csv_header(const std::vector<std::string>& names, bool with_job) {
  std::vector<std::string> header;
  if (with_job) header.emplace_back("job");
  header.insert(header.end(), {"section", "key"});
  for (std::size_t i = 0; i < names.size(); ++i) {
    header.push_back(names[i]);
    if (i == 0) continue;
    header.push_back(names[i] + " difference");
    header.push_back(names[i] + " relative");
  }
  return header;
}

void add_number(CsvWriter& csv, const Value& value) {
  if (value && std::isfinite(*value))
    csv.cell(*value);
  else
    csv.empty_cell();
}

void add_values(CsvWriter& csv, const ComparedRow& row) {
  for (std::size_t i = 0; i < row.values.size(); ++i) {
    add_number(csv, row.values[i]);
    if (i == 0) continue;
    const auto by = difference(row, i);
    add_number(csv, by ? Value(by->absolute) : Value());
    add_number(csv, by ? by->relative : Value());
  }
}

void add_rows(CsvWriter& csv, const Comparison& c, const std::string* job) {
  for (const ComparedSection& section : c.sections)
    for (const ComparedRow& row : section.rows) {
      if (job != nullptr) csv.cell(*job);
      csv.cell(section.name).cell(row.key);
      add_values(csv, row);
      csv.end_row();
    }
}

std::vector<std::string> names_of(const Comparison& c) {
  return mapped(c.sides, &Side::name);
}

struct Extreme {
  const ComparedJob* job = nullptr;
  const ComparedRow* row = nullptr;
  double ratio = 1;
};

/// The job whose number grew (or shrank) most against the first study.
Extreme most_changed(const StudyComparison& c, const char* key, std::size_t side, bool grew) {
  Extreme most;
  for (const ComparedJob& job : c.jobs) {
    const ComparedRow* row = job.numbers.find(key);
    if (row == nullptr || !row->values[0] || !row->values[side] || *row->values[0] <= 0) continue;
    const double ratio = *row->values[side] / *row->values[0];
    if (grew ? ratio > most.ratio * (1 + 1e-3) : ratio < most.ratio * (1 - 1e-3))
      most = {&job, row, ratio};
  }
  return most;
}

bool is_same(const StudyComparison::Mean& mean) {
  return std::abs(mean.ratio - 1) < 1e-3;
}

std::string mean_words(const StudyComparison::Mean& mean, const char* more, const char* less) {
  if (is_same(mean)) return "the same";
  return fmt::format("{} % {}", significant(100 * std::abs(mean.ratio - 1), 2),
                     mean.ratio > 1 ? more : less);
}

void add_study_sentences(const StudyComparison& c, std::size_t side,
                         std::vector<std::string>& sentences) {
  const auto step = c.mean_ratio("step_time_s", side);
  if (!step) {
    sentences.push_back(
        fmt::format("{} and {} have no job in common that ran.", c.names[0], c.names[side]));
    return;
  }
  std::string text =
      fmt::format("Over the {} jobs that ran in both, a step of {} takes {} than in {}", step->jobs,
                  c.names[side], mean_words(*step, "longer", "less time"), c.names[0]);
  if (is_same(*step))
    text = fmt::format("Over the {} jobs that ran in both, a step of {} takes as long as in {}",
                       step->jobs, c.names[side], c.names[0]);
  if (const auto energy = c.mean_ratio("energy_j", side))
    text += fmt::format(" and costs {} energy", mean_words(*energy, "more", "less"));
  sentences.push_back(text + " (geometric means).");
  for (const bool grew : {true, false}) {
    const Extreme most = most_changed(c, "step_time_s", side, grew);
    if (most.job != nullptr)
      sentences.push_back(fmt::format("{}: {}, {} s against {} s ({}).",
                                      grew ? "Slowed down most" : "Sped up most", most.job->name,
                                      most.row->value_text(side), most.row->value_text(0),
                                      difference_text(*most.row, side)));
  }
}

void add_verdict_sentences(const StudyComparison& c, std::size_t side,
                           std::vector<std::string>& sentences) {
  std::string changed, missing, added;
  for (const ComparedJob& job : c.jobs) {
    const std::string& before = job.verdicts[0];
    const std::string& now = job.verdicts[side];
    if (before.empty())
      added += (added.empty() ? "" : ", ") + job.name;
    else if (now.empty())
      missing += (missing.empty() ? "" : ", ") + job.name;
    else if (before != now)
      changed += fmt::format("{}{} ({} instead of {})", changed.empty() ? "" : ", ", job.name, now,
                             before);
  }
  if (!changed.empty()) sentences.push_back("Other verdicts: " + changed + ".");
  if (!missing.empty()) sentences.push_back(fmt::format("Not in {}: {}.", c.names[side], missing));
  if (!added.empty()) sentences.push_back(fmt::format("Only in {}: {}.", c.names[side], added));
}

/// The numbers that one looks at first. Where there is no room, those of a higher number go first.
struct ShownNumber {
  const char *key, *title;
  int optional;
};
constexpr ShownNumber shown_numbers[] = {{"step_time_s", "step (s)", 0},
                                         {"energy_j", "energy (MJ)", 2},
                                         {"power_mean_w", "power (W)", 3},
                                         {"temperature_peak_c", "peak (°C)", 2},
                                         {"sm_clock_mean_mhz", "clock (MHz)", 3}};

std::vector<DataCell> cells_of(const ComparedJob& job) {
  std::vector<DataCell> cells = {job.name};
  for (const std::string& verdict : job.verdicts)
    cells.emplace_back(verdict.empty() ? "not there" : verdict);
  for (const ShownNumber& number : shown_numbers) {
    const ComparedRow* row = job.numbers.find(number.key);
    for (std::size_t i = 0; i < job.verdicts.size(); ++i) {
      cells.emplace_back(row != nullptr ? row->value_text(i) : "–");
      if (i > 0) cells.push_back(row != nullptr ? difference_cell(*row, i) : "–");
    }
  }
  return cells;
}

double change_of_step(const ComparedJob& job) {
  const ComparedRow* row = job.numbers.find("step_time_s");
  const auto by = row != nullptr ? difference(*row, 1) : std::nullopt;
  return by && by->relative ? std::abs(*by->relative) : -1;
}

}  // namespace

StudyComparison compare_studies(const std::vector<Study>& studies, std::vector<std::string> names) {
  StudyComparison comparison{std::move(names), {}, {}};
  for (std::size_t i = 0; i < studies.size(); ++i)
    if (studies[i].score)
      for (const std::string& sentence : score_sentences(*studies[i].score))
        comparison.scores.push_back(comparison.names[i] + ": " + sentence);
  for (const std::string& name : all_names(studies))
    comparison.jobs.push_back(compare_job(studies, comparison.names, name));
  return comparison;
}

std::optional<StudyComparison::Mean> StudyComparison::mean_ratio(const std::string& key,
                                                                 std::size_t side) const {
  double sum = 0;
  int64_t count = 0;
  for (const ComparedJob& job : jobs) {
    const ComparedRow* row = job.numbers.find(key);
    if (row == nullptr || !row->values[0] || !row->values[side]) continue;
    if (*row->values[0] <= 0 || *row->values[side] <= 0) continue;
    sum += std::log(*row->values[side] / *row->values[0]);
    ++count;
  }
  if (count == 0) return std::nullopt;
  return Mean{std::exp(sum / as_real(count)), count};
}

std::vector<std::string> sentences_of(const StudyComparison& c) {
  std::vector<std::string> sentences = c.scores;
  for (std::size_t i = 1; i < c.names.size(); ++i) {
    add_study_sentences(c, i, sentences);
    if (const auto score = score_prediction(c, i)) sentences.push_back(sentence_of(*score, c, i));
    add_verdict_sentences(c, i, sentences);
  }
  return sentences;
}

DataTable jobs_table(const StudyComparison& c, std::size_t most) {
  std::vector<TextColumn> columns = {{"job", Align::left}};
  for (const std::string& name : c.names)
    columns.push_back({name + ": verdict", Align::left, 1});
  for (const ShownNumber& number : shown_numbers)
    for (std::size_t i = 0; i < c.names.size(); ++i) {
      columns.push_back({c.names[i] + ": " + number.title, Align::right, number.optional});
      if (i > 0) columns.push_back({"difference", Align::right, number.optional});
    }
  DataTable table = text_table(std::move(columns));
  std::vector<const ComparedJob*> jobs =
      mapped(c.jobs, [&](const ComparedJob& job) { return &job; });
  if (jobs.size() > most) {
    std::ranges::stable_sort(jobs, std::greater(),
                             [](const ComparedJob* job) { return change_of_step(*job); });
    jobs.resize(most);
  }
  for (const ComparedJob* job : jobs)
    table.add(cells_of(*job), job->name);
  return table;
}

Json comparison_json(const Comparison& c) {
  Json sides = Json::array(), settings = Json::object();
  for (const Side& side : c.sides)
    sides.push_back({{"name", side.name},
                     {"origin", run::name_of(side.row.origin)},
                     {"fidelity", side.fidelity},
                     {"verdict", name_of(side.row.verdict)},
                     {"num_gpus", side.row.slots.size()},
                     {"step_s", side.step_s}});
  for (const auto& [name, values] : c.settings)
    settings[name] = mapped<Json>(values, [](const auto& each) { return each.value_or("–"); });
  return {{"schema", 1},
          {"kind", "runs"},
          {"runs", std::move(sides)},
          {"sentences", sentences_of(c)},
          {"settings", std::move(settings)},
          {"sections", sections_json(c)}};
}

Json comparison_json(const StudyComparison& c) {
  Json jobs = Json::array(), means = Json::array();
  for (const ComparedJob& job : c.jobs)
    jobs.push_back(
        {{"name", job.name}, {"verdicts", job.verdicts}, {"sections", sections_json(job.numbers)}});
  for (std::size_t i = 0; i < c.names.size(); ++i) {
    Json of_side = Json::object();
    for (const char* key : {"step_time_s", "energy_j", "power_mean_w", "sm_clock_mean_mhz"})
      if (const auto mean = c.mean_ratio(key, i))
        of_side[key] = {{"ratio", mean->ratio}, {"jobs", mean->jobs}};
    if (const auto score = i > 0 ? score_prediction(c, i) : std::nullopt)
      of_side["prediction"] = {{"jobs", score->jobs},
                               {"median_error", score->median_error},
                               {"largest_error", score->largest_error},
                               {"worst_job", score->worst},
                               {"rank_correlation", answers::of(score->rank_correlation)}};
    means.push_back(std::move(of_side));
  }
  return {{"schema", 1},
          {"kind", "studies"},
          {"studies", c.names},
          {"sentences", sentences_of(c)},
          {"geometric_mean_ratios", std::move(means)},
          {"jobs", std::move(jobs)}};
}

std::string comparison_csv(const Comparison& c) {
  CsvWriter csv(csv_header(names_of(c), false));
  add_rows(csv, c, nullptr);
  return csv.text();
}

std::string comparison_csv(const StudyComparison& c) {
  CsvWriter csv(csv_header(c.names, true));
  for (const ComparedJob& job : c.jobs)
    add_rows(csv, job.numbers, &job.name);
  return csv.text();
}

std::optional<PredictionScore> score_prediction(const StudyComparison& c, std::size_t side) {
  PredictionScore score;
  std::vector<double> predicted, measured, errors;
  for (const ComparedJob& job : c.jobs) {
    constexpr auto simulated = run::Origin::simulated, by_sensors = run::Origin::measured;
    const bool forward = job.origins[0] == simulated && job.origins[side] == by_sensors;
    const bool backward = job.origins[0] == by_sensors && job.origins[side] == simulated;
    const ComparedRow* row = job.numbers.find("step_time_s");
    if ((!forward && !backward) || row == nullptr || !row->values[0] || !row->values[side])
      continue;
    predicted.push_back(*row->values[forward ? 0 : side]);
    measured.push_back(*row->values[forward ? side : 0]);
    errors.push_back(std::abs(predicted.back() / measured.back() - 1));
    if (errors.back() >= score.largest_error)
      score.largest_error = errors.back(), score.worst = job.name;
  }
  constexpr std::size_t min_jobs = 3;
  if (errors.size() < min_jobs) return std::nullopt;
  score.jobs = errors.size();
  score.median_error = median(errors);
  score.rank_correlation = calibrate::rank_correlation(predicted, measured);
  return score;
}

std::string sentence_of(const PredictionScore& score, const StudyComparison& c, std::size_t side) {
  const std::string order = score.rank_correlation
                                ? fmt::format("; it orders them with a rank correlation of {}",
                                              significant(*score.rank_correlation, 2))
                                : "";
  return fmt::format(
      "As a prediction, the simulated one of {} and {} is off by {} % in the median of {} jobs and "
      "by {} % at most ({}){}.",
      c.names[0], c.names[side], significant(100 * score.median_error, 2), score.jobs,
      significant(100 * score.largest_error, 2), score.worst, order);
}

}  // namespace triplepoint::report
