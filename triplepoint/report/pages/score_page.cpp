// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"
#include "triplepoint/report/pages/answer_pages.h"
#include "triplepoint/report/pages/html.h"

namespace triplepoint::report {
namespace {

using metrics::info_of;
using metrics::JobResult;
using metrics::score_metric_count;
using metrics::ScoreCard;
using metrics::ScoreMetric;
using metrics::Suite;

constexpr const char* styles[] = {"s0", "s1", "s2", "s3"};

const char* style_of(std::size_t card) {
  return styles[card % std::size(styles)];
}

const JobResult* find_job(const ScoreCard& card, const std::string& name) {
  for (const JobResult& job : card.jobs)
    if (job.name == name) return &job;
  return nullptr;
}

/// Geometric mean over the jobs that both have.
std::optional<double> factor_of(const ScoreCard& card, const ScoreCard& reference,
                                const Suite& suite, std::size_t metric) {
  double logs = 0, count = 0;
  const auto which = static_cast<ScoreMetric>(metric);
  for (const JobResult& job : card.jobs) {
    const JobResult* other = find_job(reference, job.name);
    if (other == nullptr || !job.values[metric] || !other->values[metric]) continue;
    const double factor =
        metrics::factor(suite.weights[metric], which, *job.values[metric], *other->values[metric]);
    if (!std::isfinite(factor) || factor <= 0) continue;
    logs += std::log(factor);
    count += 1;
  }
  if (count == 0) return std::nullopt;
  return std::exp(logs / count);
}

std::string status_of(const ScoredCard& scored) {
  if (scored.score.is_official) return "all rules kept";
  std::size_t broken = 0;
  for (const JobResult& job : scored.card.jobs)
    broken += job.broken.empty() ? 0 : 1;
  return fmt::format("unofficial: {} of {} jobs{}", scored.score.scored, scored.score.wanted,
                     broken > 0 ? fmt::format(", rules broken in {}", broken) : "");
}

std::string header(const std::vector<ScoredCard>& cards, const ScoreCard& reference,
                   const Suite& suite) {
  return html_header(
      "score card", cards.size() == 1 ? cards[0].card.name : suite.title,
      escape(fmt::format(
          "{}. Suite {}: {} min after {} min of warm-up, median of {} repeats. The reference, {}, "
          "is 1.",
          suite.title, suite.label(), suite.duration / unit::min, suite.warm_up / unit::min,
          suite.repeats, reference.name)));
}

std::string tiles(const std::vector<ScoredCard>& cards) {
  std::vector<Tile> tiles;
  for (const ScoredCard& scored : cards)
    tiles.push_back({scored.card.name, significant(scored.score.score),
                     fmt::format("{} GPUs, {}; {}", scored.card.num_gpus, scored.card.origin,
                                 status_of(scored))});
  return html_tiles(tiles);
}

Bar bar_of(const std::string& label, std::optional<double> value, std::size_t card) {
  Bar bar;
  bar.label = label;
  if (value)
    bar.parts = {{*value, style_of(card), label}};
  else
    bar.status = "no score";
  bar.text = significant(value);
  return bar;
}

std::string label_for(const std::vector<ScoredCard>& cards, std::size_t card,
                      const std::string& what) {
  return cards.size() == 1 ? what : fmt::format("{}, {}", what, cards[card].card.name);
}

BarChart chart_named(const std::string& title, const char* unit_name) {
  BarChart chart{title, unit_name, {}, std::nullopt, "", 0};
  chart.limit = 1;
  chart.limit_name = "reference";
  return chart;
}

Figure jobs_figure(const std::vector<ScoredCard>& cards, const Suite& suite) {
  BarChart chart = chart_named("Score of each job", "times the reference");
  DataTable table{{"job"}, {}};
  for (const ScoredCard& scored : cards)
    table.columns.push_back(scored.card.name);
  for (const metrics::SuiteJob& wanted : suite.jobs) {
    std::vector<std::string> cells = {wanted.name};
    for (std::size_t c = 0; c < cards.size(); ++c) {
      const JobResult* job = find_job(cards[c].card, wanted.name);
      const std::optional<double> score =
          job == nullptr
              ? std::nullopt
              : cards[c].score.jobs[static_cast<std::size_t>(job - cards[c].card.jobs.data())];
      Bar bar = bar_of(label_for(cards, c, wanted.name), score, c);
      if (job != nullptr && job->verdict == "oom") bar.status = "does not fit";
      bar.begins_group = c == 0 && !chart.bars.empty() && cards.size() > 1;
      chart.bars.push_back(std::move(bar));
      cells.push_back(significant(score));
    }
    table.rows.push_back(std::move(cells));
  }
  return {"jobs-score", chart.title,
          "A job's score is the weighted geometric mean of its metrics against the reference.",
          bar_chart_svg(chart), std::move(table)};
}

Figure metrics_figure(const std::vector<ScoredCard>& cards, const ScoreCard& reference,
                      const Suite& suite) {
  BarChart chart = chart_named("Components of the scores", "factor, above 1 is better");
  DataTable table{{"metric", "weight"}, {}};
  for (const ScoredCard& scored : cards)
    table.columns.push_back(scored.card.name);
  for (std::size_t m = 0; m < score_metric_count; ++m) {
    if (suite.weights[m].weight <= 0) continue;
    const std::string title(info_of(static_cast<ScoreMetric>(m)).title);
    std::vector<std::string> cells = {title, percent(suite.weights[m].weight)};
    for (std::size_t c = 0; c < cards.size(); ++c) {
      const auto factor = factor_of(cards[c].card, reference, suite, m);
      Bar bar = bar_of(label_for(cards, c, title), factor, c);
      bar.begins_group = c == 0 && !chart.bars.empty() && cards.size() > 1;
      chart.bars.push_back(std::move(bar));
      cells.push_back(significant(factor));
    }
    table.rows.push_back(std::move(cells));
  }
  return {"metrics-score", chart.title,
          "Geometric mean over the jobs. Less power, heat, throttling and change is better.",
          bar_chart_svg(chart), std::move(table)};
}

/// Shares as per cent to a hundredth: below that, steps of one run differ by less.
std::string value_text(const JobResult& job, std::size_t metric) {
  if (!job.values[metric]) return "–";
  const double scale = info_of(static_cast<ScoreMetric>(metric)).scale;
  const double value = *job.values[metric] * scale;
  return scale == 1 ? significant(value) : fmt::format("{:.2f}", value);
}

std::string numbers(const std::vector<ScoredCard>& cards) {
  DataTable table{{"job", "cluster"}, {}};
  for (std::size_t m = 0; m < score_metric_count; ++m)
    table.columns.emplace_back(info_of(static_cast<ScoreMetric>(m)).title);
  table.columns.insert(table.columns.end(), {"repeats", "score", "plan"});
  for (const ScoredCard& scored : cards)
    for (std::size_t i = 0; i < scored.card.jobs.size(); ++i) {
      const JobResult& job = scored.card.jobs[i];
      std::vector<std::string> cells = {job.name, scored.card.name};
      for (std::size_t m = 0; m < score_metric_count; ++m)
        cells.push_back(value_text(job, m));
      cells.push_back(std::to_string(job.repeats));
      cells.push_back(significant(scored.score.jobs[i]));
      cells.push_back(job.verdict == "ok" ? job.plan : job.verdict);
      table.rows.push_back(std::move(cells));
    }
  return html_section("numbers", "Every number", html_table(table, "What each job reached"));
}

std::string broken_section(const std::vector<ScoredCard>& cards) {
  std::string list;
  for (const ScoredCard& scored : cards)
    for (const JobResult& job : scored.card.jobs)
      for (const std::string& rule : job.broken)
        list += fmt::format("<li>{}, {}: {}</li>", escape(scored.card.name), escape(job.name),
                            escape(rule));
  if (list.empty()) return "";
  return html_section("rules", "Rules that are broken", "<ul>" + list + "</ul>");
}

std::string sentence_of(const ScoredCard& scored, const ScoreCard& reference, const Suite& suite) {
  if (!scored.score.score)
    return fmt::format("{} has no score: {}.", scored.card.name, status_of(scored));
  std::string text =
      fmt::format("{} scores {} against {} ({})", scored.card.name, significant(scored.score.score),
                  reference.name, status_of(scored));
  std::size_t strongest = score_metric_count;
  double most = 0;
  for (std::size_t m = 0; m < score_metric_count; ++m) {
    const auto factor = factor_of(scored.card, reference, suite, m);
    const double pull = factor ? suite.weights[m].weight * std::abs(std::log(*factor)) : 0;
    if (pull > most) most = pull, strongest = m;
  }
  if (strongest == score_metric_count) return text + ".";
  return text + fmt::format("; the largest component is {}, a factor of {}.",
                            info_of(static_cast<ScoreMetric>(strongest)).title,
                            significant(*factor_of(scored.card, reference, suite, strongest)));
}

}  // namespace

std::vector<std::string> score_sentences(const std::vector<ScoredCard>& cards,
                                         const ScoreCard& reference, const Suite& suite) {
  std::vector<std::string> sentences;
  sentences.reserve(cards.size() + 1);
  for (const ScoredCard& scored : cards)
    sentences.push_back(sentence_of(scored, reference, suite));
  const bool two = cards.size() == 2 && cards[0].score.score && cards[1].score.score &&
                   cards[0].score.scored == cards[1].score.scored;
  if (two) {
    const double ratio = *cards[1].score.score / *cards[0].score.score;
    sentences.push_back(fmt::format("{} scores {} times {}.", cards[1].card.name,
                                    significant(ratio), cards[0].card.name));
  }
  return sentences;
}

std::string score_page(const std::vector<ScoredCard>& cards, const ScoreCard& reference,
                       const Suite& suite) {
  std::string body = header(cards, reference, suite) + tiles(cards);
  body +=
      html_section("findings", "Findings", html_findings(score_sentences(cards, reference, suite)));
  body += html_section(
      "scores", "Scores",
      html_figures({jobs_figure(cards, suite), metrics_figure(cards, reference, suite)}));
  body += broken_section(cards) + numbers(cards);
  return html_page(cards.size() == 1 ? cards[0].card.name + ", " + suite.label() : suite.label(),
                   body, Json::object());
}

}  // namespace triplepoint::report
