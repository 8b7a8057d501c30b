// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/pages/score_section.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

namespace triplepoint::report {

using metrics::JobScore;
using metrics::ScoreCard;

std::vector<std::string> score_sentences(const metrics::SuiteScore& suite) {
  std::vector<std::string> sentences;
  for (const ScoreCard& card : suite.cards) {
    const auto broken =
        std::ranges::count_if(card.jobs, [](const JobScore& job) { return !job.broken.empty(); });
    const std::string status =
        card.is_official ? "all rules kept"
                         : fmt::format("unofficial: {} of {} jobs scored, rules broken in {}",
                                       card.scored, card.jobs.size(), broken);
    sentences.push_back(card.score ? fmt::format("{} scores {} against {} ({}).", card.name,
                                                 significant(card.score), suite.reference, status)
                                   : fmt::format("{} has no score ({}).", card.name, status));
  }
  return sentences;
}

namespace {

/// A row for each job and card: medians of the repeats, and the score.
triplepoint::DataTable score_table(const metrics::SuiteScore& suite) {
  struct Column {
    const char* title;
    double scale;
    int digits;
  };
  constexpr Column columns[spec::score_metric_count] = {
      {"tokens/s a GPU", 1, 0},   {"GPU J/token", 1, 4},      {"peak (W)", 1, 0},
      {"peak (°C)", 1, 1},        {"throttled (%)", 0.01, 1}, {"spread (K)", 1, 1},
      {"variation (%)", 0.01, 2}, {"drift (%)", 0.01, 2}};
  triplepoint::DataTable table;
  table.title = "Medians of the repeats after the warm-up; the reference scores 1";
  table.columns = {{"cluster", "cluster"}, {"job", "job"}};
  for (std::size_t m = 0; m < std::size(columns); ++m)
    table.columns.push_back({std::string(spec::EnumNames<spec::ScoreMetric>::names[m]),
                             columns[m].title, columns[m].scale, columns[m].digits});
  table.columns.push_back({"score", "score", 1, 3});
  constexpr const char* why = "no run of the job knows it";
  for (const ScoreCard& card : suite.cards)
    for (const JobScore& job : card.jobs) {
      std::vector<DataCell> row = {card.name, job.name};
      for (const std::optional<double>& value : job.values)
        row.push_back(cell_of(value, why));
      row.push_back(cell_of(job.score, why));
      table.add(std::move(row));
    }
  return table;
}

}  // namespace

answers::Section score_section(const metrics::SuiteScore& suite) {
  using answers::Remark;
  answers::Section section{"score", "Score"};
  for (std::string& sentence : score_sentences(suite))
    section.remarks.push_back({std::move(sentence)});
  for (const ScoreCard& card : suite.cards)
    for (const JobScore& job : card.jobs)
      for (const std::string& rule : job.broken)
        section.remarks.push_back(
            {fmt::format("rule broken: {}, {}: {}", card.name, job.name, rule),
             Remark::Kind::warning});
  section.tables = {score_table(suite)};
  return section;
}

}  // namespace triplepoint::report
