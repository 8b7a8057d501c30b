// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/bench_cards.h"

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "triplepoint/tui/data_table_text.h"
#include "triplepoint/tui/text_table.h"

namespace triplepoint::study {
namespace {

using metrics::info_of;
using metrics::JobResult;
using metrics::ScoreCard;
using metrics::ScoreMetric;
using metrics::Suite;
using report::ScoredCard;

constexpr int digits[metrics::score_metric_count] = {0, 4, 0, 1, 1, 1, 2, 2};

DataTable numbers_table(const std::vector<ScoredCard>& cards, const Suite& suite) {
  DataTable table;
  table.name = "cards";
  table.title = fmt::format("{}, {}", suite.title, suite.label());
  table.columns = {{"job", "job"}};
  if (cards.size() > 1) table.columns.push_back({"cluster", "cluster"});
  for (std::size_t m = 0; m < metrics::score_metric_count; ++m) {
    const auto& info = info_of(static_cast<ScoreMetric>(m));
    table.columns.push_back(
        {std::string(info.key), std::string(info.title), 1 / info.scale, digits[m]});
  }
  table.columns.push_back({"score", "score", 1, 3});
  table.columns.push_back({"plan", "plan"});
  return table;
}

std::string missing_words(const JobResult& job) {
  if (job.verdict == "oom") return "no plan fits in memory";
  if (job.verdict == "invalid") return "no plan is legal on this cluster";
  if (job.verdict == "missing") return "there is no run of it";
  return "a run does not know it";
}

void add_row(DataTable& table, const ScoredCard& scored, std::size_t i, bool names_card) {
  const JobResult& job = scored.card.jobs[i];
  const std::string why = missing_words(job);
  std::vector<DataCell> row = {job.name};
  if (names_card) row.emplace_back(scored.card.name);
  for (const std::optional<double>& value : job.values)
    row.push_back(cell_of(value, why.c_str()));
  row.push_back(cell_of(scored.score.jobs[i], why.c_str()));
  row.emplace_back(job.verdict == "ok" ? job.plan : job.verdict);
  table.add(std::move(row));
}

}  // namespace

DataTable cards_table(const std::vector<ScoredCard>& cards, const Suite& suite) {
  DataTable table = numbers_table(cards, suite);
  for (const metrics::SuiteJob& wanted : suite.jobs)
    for (const ScoredCard& scored : cards)
      for (std::size_t i = 0; i < scored.card.jobs.size(); ++i)
        if (scored.card.jobs[i].name == wanted.name) add_row(table, scored, i, cards.size() > 1);
  return table;
}

Json cards_json(const std::vector<ScoredCard>& cards, const ScoreCard& reference,
                const Suite& suite) {
  Json json = {{"schema", 1}, {"suite", suite.label()}, {"reference", reference.name}};
  json["cards"] = Json::array();
  for (const ScoredCard& scored : cards)
    json["cards"].push_back(metrics::card_json(scored.card, &scored.score));
  return json;
}

void print_cards(tui::Console& console, const std::vector<ScoredCard>& cards,
                 const ScoreCard& reference, const Suite& suite) {
  const std::size_t width = console.abilities().width.value_or(100);
  console.print(tui::table_text(cards_table(cards, suite), console) + "\n");
  for (const std::string& sentence : report::score_sentences(cards, reference, suite))
    console.print(tui::wrap(sentence, width, "  ") + "\n");
  for (const ScoredCard& scored : cards)
    for (const JobResult& job : scored.card.jobs)
      for (const std::string& rule : job.broken)
        console.print(
            tui::wrap(fmt::format("Rule broken, {}, {}: {}", scored.card.name, job.name, rule),
                      width, "  ") +
            "\n");
}

}  // namespace triplepoint::study
