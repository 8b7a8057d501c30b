// SPDX-License-Identifier: Apache-2.0
// Studies side by side, and comparisons for machines.

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

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
      if (std::find(names.begin(), names.end(), row.name) == names.end()) names.push_back(row.name);
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

Json number_json(const Value& value) {
  return value ? Json(*value) : Json();
}

Json rows_json(const ComparedSection& section) {
  Json rows = Json::array();
  for (const ComparedRow& row : section.rows) {
    Json values = Json::array(), differences = Json::array(), relative = Json::array();
    for (std::size_t i = 0; i < row.values.size(); ++i) {
      values.push_back(number_json(row.values[i]));
      const auto by = difference(row, i);
      differences.push_back(by ? Json(by->absolute) : Json());
      relative.push_back(by && by->relative ? Json(*by->relative) : Json());
    }
    rows.push_back({{"key", row.key},
                    {"title", row.title},
                    {"values", std::move(values)},
                    {"difference", std::move(differences)},
                    {"relative", std::move(relative)}});
  }
  return rows;
}

Json sections_json(const Comparison& c) {
  Json sections = Json::array();
  for (const ComparedSection& section : c.sections)
    sections.push_back(
        {{"name", section.name}, {"title", section.title}, {"rows", rows_json(section)}});
  return sections;
}

/// job (of studies),section,key,A,B,B difference,B relative,...
triplepoint::DataTable numbers_table(const std::vector<std::string>& names, bool with_job) {
  triplepoint::DataTable table;
  if (with_job) table.columns.push_back({.key = "job", .title = {}});
  for (const char* key : {"section", "key"})
    table.columns.push_back({.key = key, .title = {}});
  for (std::size_t i = 0; i < names.size(); ++i)
    for (const char* what : {"", " difference", " relative"})
      if (i > 0 || *what == 0) table.columns.push_back({.key = names[i] + what, .title = {}});
  return table;
}

void add_rows(triplepoint::DataTable& table, const Comparison& c, const std::string* job) {
  const auto cell = [](const Value& value) -> DataCell {
    if (value && std::isfinite(*value)) return *value;
    return Missing{"not known"};
  };
  for (const ComparedSection& section : c.sections)
    for (const ComparedRow& row : section.rows) {
      std::vector<DataCell> cells;
      if (job != nullptr) cells.emplace_back(*job);
      cells.emplace_back(section.name);
      cells.emplace_back(row.key);
      for (std::size_t i = 0; i < row.values.size(); ++i) {
        cells.push_back(cell(row.values[i]));
        if (i == 0) continue;
        const auto by = difference(row, i);
        cells.push_back(cell(by ? Value(by->absolute) : Value()));
        cells.push_back(cell(by ? by->relative : Value()));
      }
      table.add(std::move(cells));
    }
}

std::vector<std::string> names_of(const Comparison& c) {
  std::vector<std::string> names;
  names.reserve(c.sides.size());
  for (const Side& side : c.sides)
    names.push_back(side.name);
  return names;
}

std::string mean_words(const StudyComparison::Mean& mean, const char* more, const char* less) {
  if (std::abs(mean.ratio - 1) < 1e-3) return "the same";
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
  if (mean_words(*step, "", "") == "the same")
    text = fmt::format("Over the {} jobs that ran in both, a step of {} takes as long as in {}",
                       step->jobs, c.names[side], c.names[0]);
  if (const auto energy = c.mean_ratio("energy_j", side))
    text += fmt::format(" and costs {} energy", mean_words(*energy, "more", "less"));
  sentences.push_back(text + " (geometric means).");
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
  return Mean{std::exp(sum / static_cast<double>(count)), count};
}

std::vector<std::string> sentences_of(const StudyComparison& c) {
  std::vector<std::string> sentences = c.scores;
  for (std::size_t i = 1; i < c.names.size(); ++i) {
    add_study_sentences(c, i, sentences);
    add_verdict_sentences(c, i, sentences);
  }
  return sentences;
}

namespace {

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

triplepoint::DataTable jobs_table(const StudyComparison& c, std::size_t most) {
  std::vector<TextColumn> columns = {{"job", Align::left}};
  for (const std::string& name : c.names)
    columns.push_back({name + ": verdict", Align::left, 1});
  for (const ShownNumber& number : shown_numbers)
    for (std::size_t i = 0; i < c.names.size(); ++i) {
      columns.push_back({c.names[i] + ": " + number.title, Align::right, number.optional});
      if (i > 0) columns.push_back({"difference", Align::right, number.optional});
    }
  triplepoint::DataTable table = text_table(std::move(columns));
  std::vector<const ComparedJob*> jobs;
  for (const ComparedJob& job : c.jobs)
    jobs.push_back(&job);
  if (jobs.size() > most) {
    std::ranges::stable_sort(jobs, std::greater(),
                             [](const ComparedJob* job) { return change_of_step(*job); });
    jobs.resize(most);
  }
  for (const ComparedJob* job : jobs)
    table.add(cells_of(*job));
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
    settings[name] = values;
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
  triplepoint::DataTable table = numbers_table(names_of(c), false);
  add_rows(table, c, nullptr);
  return table_csv(table);
}

std::string comparison_csv(const StudyComparison& c) {
  triplepoint::DataTable table = numbers_table(c.names, true);
  for (const ComparedJob& job : c.jobs)
    add_rows(table, job.numbers, &job.name);
  return table_csv(table);
}

}  // namespace triplepoint::report
