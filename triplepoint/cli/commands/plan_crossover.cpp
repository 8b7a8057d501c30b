// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/process.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/commands/plan.h"
#include "triplepoint/report/figures/crossover_figure.h"
#include "triplepoint/search/plan_tables.h"
#include "triplepoint/study/crossover.h"
#include "triplepoint/tui/console.h"

// Where one cluster overtakes another, each with its best plan.

namespace triplepoint::cli {
namespace {

using study::CrossoverAnswer;
using study::CrossoverPoint;
using study::CrossoverQuestion;
using study::PlannedSide;
using study::Varied;

Result<CrossoverQuestion> question_of(const spec::Library& library, const spec::Job& base,
                                      const CrossoverRequest& request) {
  CrossoverQuestion asked{.base = base, .against = base};
  asked.over = *study::varied_named(request.over);
  asked.against.cluster = TPT_TRY(spec::load_cluster(library, request.against));
  if (request.against_nodes)
    asked.against.cluster.num_nodes = *request.against_nodes;
  else if (!spec::is_own_cluster(request.against))
    asked.against.cluster.num_nodes = base.cluster.num_nodes;
  if (asked.against.cluster.num_nodes < 1)
    return error("--against-nodes is below 1 (no node can train); give 1 or more");
  if (!request.values) {
    asked.values = study::usual_values(asked);
  } else {
    for (const std::string& word : TPT_TRY(split_list(*request.values)))
      asked.values.push_back(TPT_TRY(study::parse_varied(asked.over, word)));
    std::ranges::sort(asked.values);
    const auto repeated = std::ranges::unique(asked.values);
    asked.values.erase(repeated.begin(), repeated.end());
  }
  for (const double value : asked.values)
    if (const auto jobs = study::jobs_at(asked, value); !jobs) return tl::unexpected(jobs.error());
  if (asked.values.size() < 2)
    return error(
        "--values needs two values at least (a crossover lies between two); try --values "
        "\"100 Gb/s,400 Gb/s\" or --values 64,128,256");
  return asked;
}

std::string side_text(const spec::Job& job, bool with_nodes) {
  if (!with_nodes) return job.cluster.name;
  return fmt::format("{} ({} node{}, {} GPUs)", job.cluster.name, job.cluster.num_nodes,
                     job.cluster.num_nodes == 1 ? "" : "s", job.cluster.num_gpus());
}

/// The two clusters as the answer calls them: nodes only where they do not change.
struct Names {
  std::string base, against;
};
Names names_of(const CrossoverQuestion& asked) {
  Names names{
      side_text(asked.base, asked.over != Varied::nodes),
      side_text(asked.against, asked.over != Varied::nodes && asked.over != Varied::against_nodes)};
  if (names.base == names.against) names.against += " (the other)";
  return names;
}

std::string over_text(Varied over) {
  switch (over) {
    case Varied::nic_bandwidth:
      return "NIC bandwidth";
    case Varied::batch:
      return "batch (sequences)";
    case Varied::nodes:
      return "nodes";
    case Varied::against_nodes:
      return "nodes of the other cluster";
  }
  return "";
}

/// What the goal compares, of a step.
struct Measure {
  const char* key;
  const char* title;
  int digits;
  double (*of)(const search::Finalist&);
};
Measure measure_of(search::Goal goal) {
  using F = search::Finalist;
  if (goal == search::Goal::throughput)
    return {"tokens_per_second", "tokens/s", 0, [](const F& f) { return f.tokens_per_second; }};
  if (goal == search::Goal::energy)
    return {"tokens_per_joule", "tokens/J", 4,
            [](const F& f) { return f.tokens_per_second * f.time / f.energy; }};
  return {"steps_per_objective", "1 / objective of a step", 8,
          [](const F& f) { return 1 / f.value; }};
}

DataCell plan_cell(const PlannedSide& side) {
  if (side.plan) return search::plan_text(*side.plan);
  return Missing{side.why_none};
}

template <class Of>
DataCell number_cell(const PlannedSide& side, const Of& of) {
  if (side.plan) return of(*side.plan);
  return Missing{side.why_none};
}

DataTable table_of(const CrossoverQuestion& asked, const CrossoverAnswer& answer,
                   const Measure& measure) {
  const Names names = names_of(asked);
  const auto time = [](const search::Finalist& plan) { return plan.time; };
  DataTable table;
  table.name = "crossover";
  table.title = fmt::format("Best plans of {} on {} and on {}", asked.base.model.name, names.base,
                            names.against);
  table.columns = {{.key = "value", .title = over_text(asked.over), .align = Align::left},
                   {.key = "base_plan", .title = names.base, .optional = 1},
                   {.key = "base_step_s", .title = "step s", .digits = 3},
                   {.key = fmt::format("base_{}", measure.key),
                    .title = measure.title,
                    .digits = measure.digits},
                   {.key = "against_plan", .title = names.against, .optional = 1},
                   {.key = "against_step_s", .title = "step s", .digits = 3},
                   {.key = fmt::format("against_{}", measure.key),
                    .title = measure.title,
                    .digits = measure.digits},
                   {.key = "advantage", .title = "ratio", .digits = 3}};
  for (const CrossoverPoint& point : answer.points) {
    const auto advantage = point.advantage();
    const bool both = point.base.plan && point.against.plan;
    table.add({study::varied_text(asked.over, point.value), plan_cell(point.base),
               number_cell(point.base, time), number_cell(point.base, measure.of),
               plan_cell(point.against), number_cell(point.against, time),
               number_cell(point.against, measure.of),
               both ? DataCell(*advantage) : DataCell(Missing{"one side has no plan"})});
  }
  return table;
}

std::string range_text(const CrossoverQuestion& asked, double low, double high) {
  return fmt::format("{} and {}", study::varied_text(asked.over, low),
                     study::varied_text(asked.over, high));
}

/// Why a side has no plan, where that is so; of several the first.
std::vector<std::string> missing_sentences(const CrossoverAnswer& answer,
                                           const CrossoverQuestion& asked, const Names& names) {
  std::vector<std::string> sentences;
  for (const auto side : {&CrossoverPoint::base, &CrossoverPoint::against})
    for (const CrossoverPoint& point : answer.points)
      if (!(point.*side).plan) {
        sentences.push_back(fmt::format(
            "{} has no plan at {}: {}.", side == &CrossoverPoint::base ? names.base : names.against,
            study::varied_text(asked.over, point.value), (point.*side).why_none));
        break;
      }
  return sentences;
}

/// "1.214 to 1.329", or "1.329" where both read alike.
std::string span_text(double low, double high) {
  const std::string from = fmt::format("{:.4g}", low), to = fmt::format("{:.4g}", high);
  return from == to ? to : from + " to " + to;
}

std::string no_crossover(const CrossoverAnswer& answer, const CrossoverQuestion& asked,
                         const Names& names) {
  double least = INFINITY, most = 0;
  const char* where = "every value";
  for (const CrossoverPoint& point : answer.points)
    if (const auto advantage = point.advantage()) {
      least = std::min(least, *advantage);
      most = std::max(most, *advantage);
    } else {
      where = "every value at which a plan is found";
    }
  const std::string range =
      range_text(asked, answer.points.front().value, answer.points.back().value);
  if (least > most) return fmt::format("Neither cluster has a plan between {}.", range);
  if (least == 1 && most == 1)
    return fmt::format("No crossover between {}: both are equal at {}.", range, where);
  const bool base_leads = most > 1, everywhere = least > 1 || most < 1;
  const double low = base_leads ? least : 1 / most, high = base_leads ? most : 1 / least;
  const std::string by = std::isfinite(high) ? ", by a factor of " + span_text(low, high) : "";
  return fmt::format("No crossover between {}: {} is {} at {}{}.", range,
                     base_leads ? names.base : names.against,
                     everywhere ? "better" : "better or equal", where, by);
}

std::vector<std::string> statements(const CrossoverAnswer& answer, const CrossoverQuestion& asked) {
  const Names names = names_of(asked);
  std::vector<std::string> sentences;
  for (const study::Crossover& crossover : answer.crossovers) {
    const std::string& below = crossover.base_leads_above ? names.against : names.base;
    const std::string& above = crossover.base_leads_above ? names.base : names.against;
    sentences.push_back(fmt::format("{} overtakes {} between {} ({}).", above, below,
                                    range_text(asked, crossover.low, crossover.high),
                                    over_text(asked.over)));
  }
  if (sentences.empty() && !answer.points.empty())
    sentences.push_back(no_crossover(answer, asked, names));
  for (std::string& sentence : missing_sentences(answer, asked, names))
    sentences.push_back(std::move(sentence));
  return sentences;
}

Json side_json(const PlannedSide& side) {
  Json json = {{"nodes", side.job.cluster.num_nodes}, {"gpus", side.job.cluster.num_gpus()}};
  if (!side.plan) {
    json["plan"] = nullptr;
    json["why_none"] = side.why_none;
    return json;
  }
  const search::Finalist& plan = *side.plan;
  json["plan"] = search::plan_text(plan);
  json["step_time_s"] = plan.time;
  json["tokens_per_second"] = plan.tokens_per_second;
  json["energy_j"] = plan.energy;
  json["power_mean_w"] = plan.power_mean;
  json["temperature_peak_c"] = plan.hottest;
  json["objective"] = plan.value;
  return json;
}

Json json_of(const CrossoverQuestion& asked, const CrossoverAnswer& answer,
             const std::vector<std::string>& sentences) {
  const bool rate = asked.over == Varied::nic_bandwidth;
  const auto number = [&](double value) { return rate ? value * 8 / 1e9 : value; };
  Json points = Json::array(), crossovers = Json::array();
  for (const CrossoverPoint& point : answer.points) {
    const auto advantage = point.advantage();
    points.push_back(
        {{"value", number(point.value)},
         {"bisected", point.halved},
         {"base", side_json(point.base)},
         {"against", side_json(point.against)},
         {"advantage",
          advantage && point.base.plan && point.against.plan ? Json(*advantage) : Json()}});
  }
  for (const study::Crossover& crossover : answer.crossovers)
    crossovers.push_back({{"low", number(crossover.low)},
                          {"high", number(crossover.high)},
                          {"better_above", crossover.base_leads_above ? "base" : "against"}});
  return {{"schema", 1},
          {"model", asked.base.model.name},
          {"over", study::name_of(asked.over)},
          {"unit", rate                          ? "Gb/s"
                   : asked.over == Varied::batch ? "sequences"
                                                 : "nodes"},
          {"base", asked.base.cluster.name},
          {"against", asked.against.cluster.name},
          {"points", std::move(points)},
          {"crossovers", std::move(crossovers)},
          {"statements", sentences}};
}

report::CrossoverFigure figure_of(const CrossoverQuestion& asked, const CrossoverAnswer& answer,
                                  const Measure& measure) {
  const Names names = names_of(asked);
  report::CrossoverFigure figure{
      .title = fmt::format("{}: {} or {}", asked.base.model.name, asked.base.cluster.name,
                           asked.against.cluster.name),
      .x_name = over_text(asked.over),
      .y_name = measure.title,
      .base = names.base,
      .against = names.against,
      .spots = {},
      .crossovers = {}};
  const auto words = [](const PlannedSide& side) {
    return side.plan ? search::plan_text(*side.plan) : side.why_none;
  };
  const auto number = [&](const PlannedSide& side) {
    return side.plan ? std::optional(measure.of(*side.plan)) : std::nullopt;
  };
  for (const CrossoverPoint& point : answer.points)
    figure.spots.push_back({point.value, study::varied_text(asked.over, point.value),
                            number(point.base), number(point.against), words(point.base),
                            words(point.against), !point.halved});
  for (const study::Crossover& crossover : answer.crossovers)
    figure.crossovers.push_back({crossover.low, crossover.high});
  return figure;
}

}  // namespace

Result<int> plan_against(tui::Console& console, const spec::Library& library, const spec::Job& base,
                         const CrossoverRequest& request) {
  const CrossoverQuestion asked = TPT_TRY(question_of(library, base, request));
  const CrossoverAnswer answer =
      TPT_TRY(study::find_crossovers(asked, request.best_plan, [] { return interrupted(); }));
  if (answer.points.empty()) {
    console.warn("triplepoint: interrupted before the first plan was found\n");
    return exit_interrupted;
  }
  const Measure measure = measure_of(request.goal);
  const DataTable table = table_of(asked, answer, measure);
  const std::vector<std::string> sentences = statements(answer, asked);
  if (request.format == "json") {
    print_json(console, json_of(asked, answer, sentences));
  } else if (request.format == "csv") {
    console.print(table_csv(table));
  } else {
    console.print(tui::table_text(table, console));
    for (const std::string& sentence : sentences)
      tui::print_wrapped(console, sentence);
  }
  if (request.output) {
    const Path folder(*request.output);
    TPT_TRY(make_folder(folder));
    TPT_TRY(write_file_atomically(folder / "crossover.svg",
                                  report::crossover_svg(figure_of(asked, answer, measure))));
    TPT_TRY(write_file_atomically(folder / "crossover.csv", table_csv(table)));
    console.warn(fmt::format("crossover.svg and crossover.csv in {}\n", folder.string()));
  }
  return interrupted() ? exit_interrupted : exit_ok;
}

}  // namespace triplepoint::cli
