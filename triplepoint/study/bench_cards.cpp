// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/bench_cards.h"

#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/tui/console.h"

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

std::string file_stem(const std::string& name) {
  std::string stem;
  for (const char c : name)
    if (c != ' ') stem += c == '/' ? '-' : c;
  return stem;
}

Result<ScoreCard> read_card(const std::string& file) {
  const std::string text = TPT_TRY(read_file(file));
  return metrics::card_from_json(TPT_TRY(parse_json(text, file)), file);
}

Result<std::vector<ScoreCard>> read_cards(const std::vector<std::string>& files) {
  if (files.size() < 2)
    return error(
        "compare needs two cards or more (one has nothing to be compared with); name "
        "card files of triplepoint bench -o");
  std::vector<ScoreCard> cards;
  for (const std::string& file : files)
    cards.push_back(TPT_TRY(read_card(file)));
  for (std::size_t i = 1; i < cards.size(); ++i)
    if (cards[i].suite != cards[0].suite)
      return error(
          fmt::format("{} is of {}, {} of {} (scores of different suites are not "
                      "comparable); name cards of one suite",
                      files[0], cards[0].suite, files[i], cards[i].suite));
  return cards;
}

Result<Scoring> score_cards(const spec::Library& library, const Suite& suite,
                            std::vector<ScoreCard> cards,
                            const std::optional<std::string>& reference) {
  Scoring scoring{.suite = suite, .reference = cards.front(), .cards = {}};
  const Path published = Path(library.root) / "suites" / (suite.label() + ".reference.json");
  if (reference || path_exists(published))
    scoring.reference = TPT_TRY(read_card(reference.value_or(published.string())));
  for (ScoreCard& card : cards) {
    metrics::CardScore score = metrics::score(card, scoring.reference, suite);
    scoring.cards.push_back({std::move(card), std::move(score)});
  }
  return scoring;
}

DataTable cards_table(const Scoring& scoring) {
  const auto& [suite, reference, cards] = scoring;
  DataTable table = numbers_table(cards, suite);
  for (const metrics::SuiteJob& wanted : suite.jobs)
    for (const ScoredCard& scored : cards)
      for (std::size_t i = 0; i < scored.card.jobs.size(); ++i)
        if (scored.card.jobs[i].name == wanted.name) add_row(table, scored, i, cards.size() > 1);
  return table;
}

Json cards_json(const Scoring& scoring) {
  const auto& [suite, reference, cards] = scoring;
  Json json = {{"schema", 1}, {"suite", suite.label()}, {"reference", reference.name}};
  json["cards"] = Json::array();
  for (const ScoredCard& scored : cards)
    json["cards"].push_back(metrics::card_json(scored.card, &scored.score));
  return json;
}

void print_cards(tui::Console& console, const Scoring& scoring) {
  const auto& [suite, reference, cards] = scoring;
  console.print(tui::table_text(cards_table(scoring), console) + "\n");
  for (const std::string& sentence : report::score_sentences(cards, reference, suite))
    tui::print_wrapped(console, sentence);
  for (const ScoredCard& scored : cards)
    for (const JobResult& job : scored.card.jobs)
      for (const std::string& rule : job.broken)
        tui::print_wrapped(
            console, fmt::format("Rule broken, {}, {}: {}", scored.card.name, job.name, rule));
}

Result<void> write_cards(const Scoring& scoring, const Path& folder) {
  const auto& [suite, reference, cards] = scoring;
  TPT_TRY(make_folder(folder));
  TPT_TRY(write_file_atomically(folder / "card.html", report::score_page(cards, reference, suite)));
  for (const ScoredCard& scored : cards)
    TPT_TRY(
        write_file_atomically(folder / (file_stem(scored.card.name) + ".json"),
                              json_text(metrics::card_json(scored.card, &scored.score)) + "\n"));
  return {};
}

}  // namespace triplepoint::study
