// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/names.h"

#include "triplepoint/advise/place.h"
#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::advise {
namespace {

using answers::Remark;
using answers::Section;

// ---- groups

const char* const not_measured = "not measured";

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

DataTable groups_table(const GroupedMachine& seen) {
  DataTable table{.name = "thermal_groups",
                  .title = "GPUs by " + std::string(name_of(seen.groups.sign)) + ", " + seen.source,
                  .columns = {{.key = "group", .title = "group"},
                              {.key = "gpus", .title = "GPUs"},
                              {.key = "slots", .title = "slots"},
                              {.key = "temperature_c", .title = "°C", .digits = 1},
                              {.key = "power_w", .title = "W"},
                              {.key = "sm_clock_mhz", .title = "MHz"},
                              {.key = "throttled", .title = "throttled %", .scale = 0.01}}};
  for (size_t g = 0; g < seen.groups.groups.size(); ++g) {
    const ThermalGroup& group = seen.groups.groups[g];
    std::set<int64_t> slots;
    for (const size_t i : group.members)
      slots.insert(seen.devices[i].local);
    table.add({static_cast<int64_t>(g), static_cast<int64_t>(group.members.size()),
               fmt::format("{}", fmt::join(slots, " ")), cell_of(group.temperature_c, not_measured),
               cell_of(group.power_w, not_measured), cell_of(group.clock_mhz, not_measured),
               cell_of(group.throttled, not_measured)});
  }
  return table;
}

/// "GPU 3", "GPU 3 of node 1", "GPUs 3 and 5".
std::string gpus_text(const GroupedMachine& seen, const std::vector<size_t>& which) {
  const bool one_node = std::ranges::all_of(
      seen.devices, [](const ThermalSample& device) { return device.node == 0; });
  const std::vector<std::string> names = mapped(which, [&](const size_t i) {
    return one_node ? fmt::format("{}", seen.devices[i].local)
                    : fmt::format("{} of node {}", seen.devices[i].local, seen.devices[i].node);
  });
  return fmt::format("GPU{} {}", which.size() > 1 ? "s" : "", fmt::join(names, ", "));
}

/// Devices far above the others, which no group of two or more makes.
std::string outliers_text(const GroupedMachine& seen) {
  constexpr double far_k = 10;
  if (seen.groups.sign != ThermalSign::temperature || seen.groups.groups.size() > 1) return "";
  std::vector<double> all;
  for (const ThermalSample& device : seen.devices)
    if (device.temperature_c) all.push_back(*device.temperature_c);
  if (all.size() < 4) return "";
  const double usual = median(all);
  const double far = std::max(far_k, 5 * robust_deviation(all));
  std::vector<size_t> hot;
  for (size_t i = 0; i < seen.devices.size(); ++i)
    if (seen.devices[i].temperature_c.value_or(usual) > usual + far) hot.push_back(i);
  if (hot.empty()) return "";
  return fmt::format(" {} {} far hotter than the others: {:.0f} °C against {:.0f} °C.",
                     gpus_text(seen, hot), hot.size() > 1 ? "are" : "is",
                     *seen.devices[hot.front()].temperature_c, usual);
}

/// How far apart the groups are and how probably that is chance, who is in none, and who is far
/// hotter than the others.
std::string grouping_text(const GroupedMachine& seen) {
  const ThermalGroups& groups = seen.groups;
  const size_t count = groups.groups.size();
  const size_t read = seen.devices.size() - groups.unread.size();
  std::string text;
  if (groups.tests.empty())
    text = read < 4 ? "Too few GPUs to form groups; at least four are needed."
                    : fmt::format("One group: the {} of all GPUs {} alike.", name_of(groups.sign),
                                  groups.load_slope > 0 ? "at equal load is" : "is");
  const char* const unit = groups.sign == ThermalSign::temperature ? " K" : "";
  for (const GroupingTest& test : groups.tests) {
    const std::string apart = fmt::format(
        "{:.1f}{} apart, with {:.1f} % of the scatter inside of them (p = {:.3f}, of "
        "1000 random spreads)",
        test.step, unit, 100 * test.left, test.chance);
    if (as_size(test.groups) == count)
      text = fmt::format("{} groups, {}.", count, apart);
    else if (count == 1 && test.groups == 2)
      text = fmt::format("One group: two would be {}.", apart);
  }
  if (groups.load_slope > 0) {
    text += fmt::format(" Temperatures are compared at equal load ({:.4f} K/W)", groups.load_slope);
    std::vector<size_t> without;
    for (size_t i = 0; i < seen.devices.size(); ++i)
      if (seen.devices[i].temperature_c && !seen.devices[i].power_w) without.push_back(i);
    text += without.empty() ? "."
                            : fmt::format(", but that of {}, without a power, as it is.",
                                          gpus_text(seen, without));
  }
  if (!groups.unread.empty())
    text += fmt::format(" {} {} no {}: in no group, and last in every order.",
                        gpus_text(seen, groups.unread), groups.unread.size() > 1 ? "have" : "has",
                        name_of(groups.sign));
  return text + outliers_text(seen);
}

/// "1,2,5,7,0,3,4,6", or the order of each node where they differ.
std::string slots_text(const GroupedMachine& seen) {
  const auto orders = cold_first_order(seen.groups, seen.devices);
  const bool alike =
      std::adjacent_find(orders.begin(), orders.end(), std::not_equal_to<>()) == orders.end();
  if (alike) return fmt::format("{}", fmt::join(orders.front(), ","));
  std::string text;
  for (size_t node = 0; node < orders.size(); ++node)
    text += fmt::format("{}node {}: {}", node > 0 ? "; " : "", node, fmt::join(orders[node], ","));
  return text;
}

Json groups_json(const GroupedMachine& seen) {
  Json json = {{"by", name_of(seen.groups.sign)},
               {"source", seen.source},
               {"kelvin_per_watt", seen.groups.load_slope},
               {"groups", Json::array()},
               {"tests", Json::array()},
               {"node_effects", seen.groups.node_effects},
               {"cold_first_order", cold_first_order(seen.groups, seen.devices)}};
  for (const ThermalGroup& group : seen.groups.groups) {
    Json gpus = Json::array();
    for (const size_t i : group.members)
      gpus.push_back({{"node", seen.devices[i].node}, {"gpu", seen.devices[i].local}});
    json["groups"].push_back({{"gpus", gpus},
                              {"temperature_c", number_or_null(group.temperature_c)},
                              {"power_w", number_or_null(group.power_w)},
                              {"sm_clock_mhz", number_or_null(group.clock_mhz)},
                              {"throttled", number_or_null(group.throttled)}});
  }
  for (const size_t i : seen.groups.unread)
    json["without_readings"].push_back(
        {{"node", seen.devices[i].node}, {"gpu", seen.devices[i].local}});
  for (const GroupingTest& test : seen.groups.tests)
    json["tests"].push_back({{"groups", test.groups},
                             {"scatter_left", test.left},
                             {"chance", test.chance},
                             {"gain", test.gain},
                             {"step", test.step},
                             {"possible", test.possible}});
  return json;
}

Section groups_section(const GroupedMachine& seen) {
  Section section{.id = "groups", .title = "Thermal groups", .tables = {groups_table(seen)}};
  section.remarks.push_back({grouping_text(seen)});
  return section;
}

// ---- placements

const char* const no_memory = "does not fit in memory";

std::string layers_text(const spec::Job& job) {
  return fmt::format("{}", fmt::join(layers_of(job), " "));
}

const Placement& fastest_of(const PlaceResult& result) {
  return result.placements[result.fastest];
}

const Placement& baseline_of(const PlaceResult& result) {
  return result.placements.front();
}

Json stage_json(const PlacedStage& stage) {
  return {{"stage", stage.stage},
          {"layers", stage.layers},
          {"coldness", stage.coldness},
          {"busy_s", stage.busy_s},
          {"sm_clock_mhz", stage.clock_mhz},
          {"temperature_c", stage.temperature_c},
          {"power_w", stage.power_w}};
}

Json placement_json(const Placement& placement) {
  const PlacementOutcome& outcome = placement.outcome;
  const spec::Plan& plan = placement.job.plan;
  Json json = {{"placement", placement_name(placement)},
               {"kind", name_of(placement.kind)},
               {"same_as", placement.same_as.empty() ? Json(nullptr) : Json(placement.same_as)},
               {"fits", outcome.fits},
               {"layers_per_stage", layers_of(placement.job)},
               {"rank_order", spec::enum_name(plan.rank_order)},
               {"device_order", Json::array()},
               {"node_order", plan.node_order},
               {"launch", launch_lines(placement.job)}};
  for (int64_t node = 0; node < placement.job.cluster.num_nodes; ++node)
    json["device_order"].push_back(visible_devices(placement.job, node));
  if (!outcome.fits) return json;
  json["step_time_s"] = outcome.step_time;
  json["tokens_per_s"] = outcome.tokens_per_s;
  json["tokens_per_joule"] = outcome.tokens_per_j;
  json["samples_per_s_mj"] = outcome.samples_per_s_mj;
  json["energy_j"] = outcome.energy;
  json["temperature_c"] = {{"gap", outcome.gap},
                           {"variance", outcome.variance},
                           {"mean", outcome.mean_c},
                           {"peak", outcome.peak_c}};
  json["throttled"] = outcome.throttled;
  if (placement.over.machines > 0)
    json["speed_gain_on_drawn_machines"] = {{"machines", placement.over.machines},
                                            {"mean", placement.over.mean},
                                            {"worst", placement.over.worst},
                                            {"gaining", placement.over.gaining}};
  json["stages"] = Json::array();
  for (const PlacedStage& stage : outcome.stages)
    json["stages"].push_back(stage_json(stage));
  json["critical_stage"] = critical_stage(outcome).stage;
  return json;
}

/// Empty on a machine that is known.
DataCell drawn_cell(const Placement& placement, DataCell value) {
  if (placement.over.machines == 0) return Missing{"not judged on drawn machines"};
  return value;
}

DataTable placements_table(const PlaceResult& result) {
  DataTable table{.name = "placements",
                  .title = "What each placement reaches, at thermal steady state",
                  .columns = {{.key = "placement", .title = "placement"},
                              {.key = "layers", .title = "layers"},
                              {.key = "step_time_s", .title = "step s", .digits = 3},
                              {.key = "speed_gain", .title = "speed %", .scale = 0.01, .digits = 2},
                              {.key = "mean_gain", .title = "mean %", .scale = 0.01, .digits = 2},
                              {.key = "worst_gain", .title = "worst %", .scale = 0.01, .digits = 2},
                              {.key = "gaining_machines", .title = "gains on"},
                              {.key = "tokens_per_s", .title = "tokens/s"},
                              {.key = "samples_per_s_mj", .title = "/(s GPU MJ)", .digits = 2},
                              {.key = "efficiency_gain", .title = "%", .scale = 0.01, .digits = 2},
                              {.key = "tokens_per_joule", .title = "tokens/J", .digits = 3},
                              {.key = "energy_j", .title = "GPU MJ", .scale = 1e6, .digits = 3},
                              {.key = "gap_k", .title = "gap K", .digits = 2},
                              {.key = "variance_k2", .title = "var K²", .digits = 1},
                              {.key = "peak_c", .title = "peak °C", .digits = 1},
                              {.key = "throttled", .title = "thr. %", .scale = 0.01}}};
  const PlacementOutcome& base = baseline_of(result).outcome;
  for (const Placement& placement : result.placements) {
    const PlacementOutcome& now = placement.outcome;
    std::vector<DataCell> row = {placement_name(placement), layers_text(placement.job)};
    if (now.fits)
      row.insert(
          row.end(),
          {now.step_time, base.step_time / now.step_time - 1,
           drawn_cell(placement, placement.over.mean), drawn_cell(placement, placement.over.worst),
           drawn_cell(placement, placement.over.gaining), now.tokens_per_s, now.samples_per_s_mj,
           now.samples_per_s_mj / base.samples_per_s_mj - 1, now.tokens_per_j, now.energy, now.gap,
           now.variance, now.peak_c, now.throttled});
    else
      row.insert(row.end(), table.columns.size() - 2, Missing{no_memory});
    table.add(std::move(row));
  }
  return table;
}

/// ", 12.80 % also on GPUs that are all alike": what is no matter of heat.
std::string alike_text(const PlaceResult& result) {
  if (!result.parts) return "";
  const double alike = result.parts->layers.alike + result.parts->order.alike;
  const double gain = 100 * alike / (baseline_of(result).outcome.step_time - alike);
  if (gain < 0) return fmt::format(", though {:.2f} % slower on GPUs that are all alike", -gain);
  return fmt::format(", {:.2f} % also on GPUs that are all alike", gain);
}

std::string verdict_of(const PlaceResult& result) {
  if (!baseline_of(result).outcome.fits)
    return "Nothing was placed: the job does not fit in memory.";
  if (result.interrupted)
    return fmt::format(
        "The search was interrupted and concludes nothing (the fastest until then is the {} "
        "placement); run it again to its end, or with a lower --judge.",
        placement_name(fastest_of(result)));
  if (result.fastest == 0) return "Leave the job as it is: no placement is faster on its boards.";
  const Placement& fastest = fastest_of(result);
  const MachineGains& over = fastest.over;
  const std::string gain = fmt::format(
      "{:.2f} % faster {}", 100 * result.gain(fastest),
      over.machines > 0
          ? fmt::format("on average over {} drawn machines of this kind ({:.2f} % on the worst; "
                        "faster on {} of them)",
                        over.machines, 100 * over.worst, over.gaining)
          : fmt::format(
                "on mean boards{} ({:.2f} % on boards that are drawn: telemetry does not tell "
                "them)",
                alike_text(result),
                100 * (baseline_of(result).outcome.step_time / fastest.outcome.step_time - 1)));
  if (result.recommended == 0)
    return fmt::format("Leave the job as it is: the {} placement is only {}.",
                       placement_name(fastest), gain);
  return fmt::format("Launch the {} placement: {}.", placement_name(fastest), gain);
}

/// "Of 1.31 s less a step ...": what moving layers gains, what another order, and heat's part.
std::string parts_text(const PlaceResult& result) {
  if (!result.parts || result.recommended == 0) return "";
  const auto& [layers, order] = *result.parts;
  const auto seconds = [](double time) { return fixed_point(time, 3); };
  return fmt::format(
      "Of the {} s that the {} placement gains a step here, {} s come from other layers per stage "
      "and {} s from another order of GPUs and ranks. On GPUs that are all alike {} s are gained; "
      "differences of cooling and faults add {} s, those of boards (drawn, not measured) {} s.",
      seconds(layers.total() + order.total()), placement_name(fastest_of(result)),
      seconds(layers.total()), seconds(order.total()), seconds(layers.alike + order.alike),
      seconds(layers.heat + order.heat), seconds(layers.boards + order.boards));
}

DataTable parts_table(const GainParts& parts) {
  DataTable table{.name = "gain_parts",
                  .title = "Where the gain comes from (s a step, on this machine)",
                  .columns = {{"part", "part"},
                              {"alike_s", "on equal GPUs", 1, 3},
                              {"heat_s", "cooling, faults", 1, 3},
                              {"boards_s", "boards differ", 1, 3},
                              {"total_s", "in all", 1, 3}}};
  const auto add = [&](const char* name, const GainParts::Part& part) {
    table.add({name, part.alike, part.heat, part.boards, part.total()});
  };
  add("other layers per stage", parts.layers);
  add("other order of GPUs and ranks", parts.order);
  return table;
}

std::string search_text(const PlaceResult& result) {
  if (result.judged == 0) return "";
  return fmt::format("The search judged {} neighbouring placements; {}.", whole(result.judged),
                     result.searched_all
                         ? "no neighbour of the last one is faster"
                         : "it was stopped before it found no faster one (--judge goes on)");
}

std::vector<Remark> remarks_of(const PlaceResult& result) {
  std::vector<Remark> remarks;
  if (std::string text = parts_text(result); !text.empty()) remarks.push_back({std::move(text)});
  if (std::string text = search_text(result); !text.empty()) remarks.push_back({std::move(text)});
  for (const std::string& note : result.notes)
    remarks.push_back({note + ".", Remark::Kind::note});
  return remarks;
}

Section launch_section(const Placement& best) {
  Section section{.id = "launch",
                  .title = fmt::format("To launch the {} placement", placement_name(best))};
  for (std::string& line : launch_lines(best.job))
    section.remarks.push_back({std::move(line), Remark::Kind::command});
  return section;
}

std::string signed_percent(double share) {
  return fmt::format("{}{:.2f} %", share < 0 ? "−" : "+", 100 * std::abs(share));
}

std::vector<answers::KeyFigure> key_figures(const PlaceResult& result) {
  const PlacementOutcome& base = baseline_of(result).outcome;
  const Placement& best = result.best();
  const PlacementOutcome& now = best.outcome;
  if (!now.fits) return {};
  if (result.recommended == 0)
    return {{"step", significant(base.step_time, 4) + " s", "as it is"},
            {"hottest die", significant(base.peak_c) + " °C", ""},
            {"hot less cool GPUs", significant(base.gap) + " K", ""},
            {"efficiency", significant(base.samples_per_s_mj), "samples/(s MJ of GPU energy)"}};
  const auto before = [](double value) { return fmt::format("before {}", significant(value)); };
  std::vector<answers::KeyFigure> figures = {
      {"step", significant(now.step_time, 4) + " s",
       fmt::format("{} placement; before {} s", placement_name(best),
                   significant(base.step_time, 4))},
      {"speed here", signed_percent(base.step_time / now.step_time - 1), "against the baseline"},
      {"hottest die", significant(now.peak_c) + " °C", before(base.peak_c) + " °C"},
      {"hot less cool GPUs", significant(now.gap) + " K", before(base.gap) + " K"},
      {"efficiency", significant(now.samples_per_s_mj),
       "samples/(s MJ of GPU energy); " + before(base.samples_per_s_mj)}};
  if (best.over.machines > 0)
    figures.insert(figures.begin() + 2,
                   {"speed on average", signed_percent(best.over.mean),
                    fmt::format("over {} drawn machines", best.over.machines)});
  return figures;
}

// ---- figures

/// How much longer or shorter each placement's step is than the baseline's.
answers::Figure steps_figure(const PlaceResult& result) {
  const double step = baseline_of(result).outcome.step_time;
  answers::DifferenceChart chart{.title = "Step time", .unit = "step time against the baseline"};
  for (const Placement& placement : result.placements) {
    if (placement.kind == PlacementKind::baseline || !placement.outcome.fits ||
        !placement.same_as.empty())
      continue;
    const double share = placement.outcome.step_time / step - 1;
    const int judgement = std::abs(share) < 5e-5 ? 0 : share < 0 ? 1 : -1;
    chart.bars.push_back(
        {placement_name(placement), share, signed_percent(share), judgement, false});
  }
  if (chart.bars.empty()) return {};
  return {.id = "steps",
          .title = "Step time against the baseline",
          .note = "Of these very boards; the table has means over drawn machines.",
          .chart = std::move(chart)};
}

/// The run of a placement, with the stage of each device.
answers::ChassisPicture picture_of(const spec::Job& job) {
  answers::ChassisPicture picture{
      .run = std::make_shared<run::Run>(sim::simulate(job, {.timeline = false}))};
  const workload::RankGrid grid(job);
  for (const run::Device& device : picture.run->devices)
    picture.slot_words.push_back(
        device.rank ? fmt::format("stage {}", grid.coordinates(*device.rank).pipeline) : "");
  return picture;
}

/// Before and after with one scale, so that a colour is the same temperature in both.
std::vector<answers::Figure> chassis_figures(const PlaceResult& result) {
  std::vector<answers::ChassisPicture> pictures = {picture_of(baseline_of(result).job)};
  if (result.recommended > 0) pictures.push_back(picture_of(result.best().job));
  std::pair<double, double> range = {1e9, -1e9};
  for (const answers::ChassisPicture& picture : pictures)
    for (const double value : metrics::measure(*picture.run).temperature_per_gpu_c)
      if (std::isfinite(value))
        range = {std::min(range.first, value), std::max(range.second, value)};
  if (range.first > range.second) return {};
  for (answers::ChassisPicture& picture : pictures)
    picture.range = range;
  std::vector<answers::Figure> figures = {
      {.id = "before",
       .title = "Today: stages on their slots, and how warm they are",
       .chart = std::move(pictures.front())}};
  if (result.recommended > 0)
    figures.push_back({.id = "after",
                       .title = "After: the " + placement_name(result.best()) + " placement",
                       .chart = std::move(pictures.back())});
  return figures;
}

Json numbers_of(const spec::Job& job, const GroupedMachine& seen, const PlaceResult& result) {
  Json json = {{"thermal_groups", groups_json(seen)},
               {"placements", Json::array()},
               {"recommended", placement_name(result.best())},
               {"fastest", placement_name(fastest_of(result))},
               {"energy_scope", metrics::energy_scopes[as_size(result.scope)]},
               {"search", {{"judged", result.judged}, {"searched_all", result.searched_all}}},
               {"notes", result.notes},
               {"job", job.name}};
  for (const Placement& placement : result.placements)
    json["placements"].push_back(placement_json(placement));
  return json;
}

}  // namespace

answers::Document groups_answer(const GroupedMachine& seen, const std::vector<std::string>& notes) {
  answers::Document answer{.kind = "place", .title = "Thermal groups"};
  answer.verdict = "No job was given, so nothing was placed; name one to estimate the gain.";
  answer.sections = {groups_section(seen)};
  if (seen.groups.groups.size() > 1)
    answer.sections.front().remarks.push_back({"Cold first: " + slots_text(seen)});
  for (const std::string& note : notes)
    answer.sections.front().remarks.push_back({note + ".", Remark::Kind::note});
  answer.sections.front().remarks.push_back(
      {"Inlet and power limits of this room: triplepoint calibrate --job JOB TABLE -o mine, then "
       "triplepoint simulate JOB --with mine --sweep \"power-limit=400 W..700 W/50 W\"",
       Remark::Kind::note});
  answer.numbers = {{"thermal_groups", groups_json(seen)}, {"notes", notes}};
  return answer;
}

answers::Document place_answer(const spec::Job& job, const GroupedMachine& seen,
                               const PlaceResult& result, bool pictured) {
  answers::Document answer{
      .kind = "place",
      .title = fmt::format("{}{}, {}", answers::group_label(job), answers::task_label(job),
                           answers::configuration_label(job)),
      .facts = fmt::format(
          "Which stages on which slots, as warm as {}. Every placement is simulated to thermal "
          "steady state on the same boards. Tokens a joule count energy {}.",
          seen.source == "simulated" ? "the simulator has them" : "read " + seen.source,
          metrics::scope_text(result.scope)),
      .verdict = verdict_of(result),
      .key_figures = key_figures(result)};
  if (pictured && result.best().outcome.fits)
    answer.sections = {
        {.figures = {steps_figure(result)}},
        {.id = "chassis", .title = "On the chassis", .figures = chassis_figures(result)}};
  answer.sections.push_back({.id = "placements",
                             .title = "Placements",
                             .remarks = remarks_of(result),
                             .tables = {placements_table(result)}});
  if (result.parts && result.recommended > 0)
    answer.sections.back().tables.push_back(parts_table(*result.parts));
  answer.sections.push_back(groups_section(seen));
  if (result.recommended > 0) answer.sections.push_back(launch_section(result.best()));
  answer.numbers = numbers_of(job, seen, result);
  return answer;
}

}  // namespace triplepoint::advise
