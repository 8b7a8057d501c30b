// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/place_tables.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/advise/placement.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/pipeline_layout.h"

namespace triplepoint::advise {
namespace {

using advise::Placement;
using advise::PlacementKind;
using advise::ThermalGroups;

const char* const not_measured = "not measured";
const char* const no_memory = "does not fit in memory";

/// "of 999 even spreads 12 do as well" from the share that counts the machine itself.
int64_t spreads_as_good(const advise::GroupingTest& test) {
  return std::lround(test.chance * 1000) - 1;
}

Json number_or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

std::string layers_text(const spec::Job& job) {
  return fmt::format("{}", fmt::join(advise::layers_of(job), " "));
}

const Placement& baseline_of(const advise::PlaceResult& result) {
  return result.placements.front();
}

Json stage_json(const advise::PlacedStage& stage) {
  return {{"stage", stage.stage},
          {"layers", stage.layers},
          {"coldness", stage.coldness},
          {"busy_s", stage.busy_s},
          {"sm_clock_mhz", stage.clock_mhz},
          {"temperature_c", stage.temperature_c},
          {"power_w", stage.power_w}};
}

Json placement_json(const Placement& placement) {
  const advise::PlacementOutcome& outcome = placement.outcome;
  const spec::Plan& plan = placement.job.plan;
  Json json = {{"placement", placement_name(placement)},
               {"kind", name_of(placement.kind)},
               {"same_as", placement.same_as.empty() ? Json(nullptr) : Json(placement.same_as)},
               {"fits", outcome.fits},
               {"layers_per_stage", advise::layers_of(placement.job)},
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
  for (const advise::PlacedStage& stage : outcome.stages)
    json["stages"].push_back(stage_json(stage));
  json["critical_stage"] = advise::critical_stage(outcome).stage;
  return json;
}

}  // namespace

std::string placement_name(const Placement& placement) {
  if (placement.kind != PlacementKind::asymmetric) return name_of(placement.kind);
  return fmt::format("{} +{}", name_of(placement.kind), placement.shift);
}

DataTable groups_table(const GroupedMachine& seen) {
  DataTable table{.name = "groups",
                  .title = "GPUs by " + std::string(name_of(seen.groups.sign)) + ", " + seen.source,
                  .columns = {{.key = "group", .title = "group"},
                              {.key = "gpus", .title = "GPUs"},
                              {.key = "slots", .title = "slots"},
                              {.key = "temperature_c", .title = "°C", .digits = 1},
                              {.key = "power_w", .title = "W"},
                              {.key = "sm_clock_mhz", .title = "MHz"},
                              {.key = "throttled", .title = "throttled %", .scale = 0.01}},
                  .rows = {}};
  for (size_t g = 0; g < seen.groups.groups.size(); ++g) {
    const advise::ThermalGroup& group = seen.groups.groups[g];
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

namespace {

/// "GPU 3", "GPU 3 of node 1", "GPUs 3 and 5".
std::string gpus_text(const GroupedMachine& seen, const std::vector<size_t>& which) {
  const bool one_node = std::ranges::all_of(
      seen.devices, [](const ThermalSample& device) { return device.node == 0; });
  std::vector<std::string> names;
  for (const size_t i : which)
    names.push_back(
        one_node ? fmt::format("{}", seen.devices[i].local)
                 : fmt::format("{} of node {}", seen.devices[i].local, seen.devices[i].node));
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

}  // namespace

std::string grouping_text(const GroupedMachine& seen) {
  const ThermalGroups& groups = seen.groups;
  const size_t count = groups.groups.size();
  const size_t read = seen.devices.size() - groups.unread.size();
  std::string text;
  if (groups.tests.empty())
    text = read < 4 ? "Too few GPUs to form groups; at least four are needed."
                    : fmt::format("One group: the {} of all GPUs {} alike.", name_of(groups.sign),
                                  groups.load_slope > 0 ? "at equal load is" : "is");
  const char* const unit = groups.sign == advise::ThermalSign::temperature ? " K" : "";
  for (const advise::GroupingTest& test : groups.tests) {
    const bool chosen = static_cast<size_t>(test.groups) == count;
    if (chosen)
      text = fmt::format(
          "{} groups leave {:.1f} % of the scatter; {} of 999 random samples group as well (limit "
          "9). Neighbouring groups differ by {:.1f}{}.",
          count, 100 * test.left, spreads_as_good(test), test.step, unit);
    else if (count == 1 && test.groups == 2)
      text = fmt::format(
          "One group: two leave {:.1f} % of the scatter; {} of 999 random samples group as well "
          "(limit 9). They differ by {:.1f}{}.",
          100 * test.left, spreads_as_good(test), test.step, unit);
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

namespace {

/// Empty on a machine that is known.
DataCell drawn_cell(const Placement& placement, DataCell value) {
  if (placement.over.machines == 0) return Missing{"the machine is known"};
  return value;
}

}  // namespace

DataTable placements_table(const advise::PlaceResult& result) {
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
                              {.key = "samples_per_s_mj", .title = "/(s MJ)", .digits = 2},
                              {.key = "efficiency_gain", .title = "%", .scale = 0.01, .digits = 2},
                              {.key = "tokens_per_joule", .title = "tokens/J", .digits = 3},
                              {.key = "energy_j", .title = "MJ", .scale = 1e6, .digits = 3},
                              {.key = "gap_k", .title = "gap K", .digits = 2},
                              {.key = "variance_k2", .title = "var K²", .digits = 1},
                              {.key = "peak_c", .title = "peak °C", .digits = 1},
                              {.key = "throttled", .title = "thr. %", .scale = 0.01}},
                  .rows = {}};
  const advise::PlacementOutcome& base = baseline_of(result).outcome;
  for (const Placement& placement : result.placements) {
    const advise::PlacementOutcome& now = placement.outcome;
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

std::string gains_text(const advise::PlaceResult& result) {
  const Placement& best = result.best();
  if (best.over.machines < 2 || result.recommended == 0) return "";
  return fmt::format(
      "Over {} drawn machines of this kind the {} placement gains {:.2f} % on average ({:.2f} % on "
      "the worst); it gains on {} of them.",
      best.over.machines, placement_name(best), 100 * best.over.mean, 100 * best.over.worst,
      best.over.gaining);
}

std::string search_text(const advise::PlaceResult& result) {
  if (result.judged == 0) return "";
  return fmt::format("The search judged {} neighbours; {}.", whole(result.judged),
                     result.searched_all
                         ? "none of the last placement is faster"
                         : "it was stopped before it found no faster one (--judge goes on)");
}

Json groups_json(const GroupedMachine& seen) {
  Json json = {{"by", name_of(seen.groups.sign)},
               {"source", seen.source},
               {"kelvin_per_watt", seen.groups.load_slope},
               {"groups", Json::array()},
               {"tests", Json::array()},
               {"node_effects", seen.groups.node_effects},
               {"cold_first_order", cold_first_order(seen.groups, seen.devices)}};
  for (const advise::ThermalGroup& group : seen.groups.groups) {
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
  for (const advise::GroupingTest& test : seen.groups.tests)
    json["tests"].push_back({{"groups", test.groups},
                             {"scatter_left", test.left},
                             {"chance", test.chance},
                             {"gain", test.gain},
                             {"step", test.step},
                             {"possible", test.possible}});
  return json;
}

Json place_json(const GroupedMachine& seen, const advise::PlaceResult& result) {
  Json json = {{"thermal_groups", groups_json(seen)},
               {"placements", Json::array()},
               {"recommended", placement_name(result.best())},
               {"search", {{"judged", result.judged}, {"searched_all", result.searched_all}}},
               {"notes", result.notes}};
  for (const Placement& placement : result.placements)
    json["placements"].push_back(placement_json(placement));
  return json;
}

// Placements as files that launchers read.

namespace {

int64_t node_of_block(const spec::Job& job, int64_t block) {
  const auto& order = job.plan.node_order;
  return order.empty() ? block : order[static_cast<size_t>(block)];
}

std::string host_name(int64_t node, const std::vector<std::string>& hosts) {
  const auto n = static_cast<size_t>(node);
  return n < hosts.size() && !hosts[n].empty() ? hosts[n] : fmt::format("node{}", node);
}

std::string file_stem(const advise::Placement& placement) {
  std::string stem = placement_name(placement);
  std::erase(stem, ' ');
  std::replace(stem.begin(), stem.end(), '+', '-');
  return stem;
}

bool nodes_differ(const spec::Job& job) {
  return static_cast<int64_t>(job.plan.device_order.size()) > job.cluster.gpus_per_node;
}

}  // namespace

std::string visible_devices(const spec::Job& job, int64_t node) {
  const auto& order = job.plan.device_order;
  const int64_t per_node = job.cluster.gpus_per_node;
  std::vector<int64_t> devices;
  for (int64_t local = 0; local < per_node; ++local) {
    const int64_t at = nodes_differ(job) ? node * per_node + local : local;
    devices.push_back(order.empty() ? local : order[static_cast<size_t>(at)]);
  }
  return fmt::format("{}", fmt::join(devices, ","));
}

std::vector<std::string> launch_lines(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  std::vector<std::string> lines = {
      fmt::format("layers per stage: {}", fmt::join(advise::layers_of(job), " "))};
  if (nodes_differ(job))
    for (int64_t block = 0; block < job.cluster.num_nodes; ++block) {
      const int64_t node = node_of_block(job, block);
      lines.push_back(
          fmt::format("node {}: CUDA_VISIBLE_DEVICES={}", node, visible_devices(job, node)));
    }
  else
    lines.push_back(fmt::format("every node: CUDA_VISIBLE_DEVICES={}", visible_devices(job, 0)));
  if (!plan.layers_per_stage.empty())
    lines.push_back(
        fmt::format("Megatron-Core: --pipeline-model-parallel-layout '{}'; the NeMo launcher sets "
                    "only the layers of the first and last stage",
                    formats::write_pipeline_layout(plan.layers_per_stage)));
  if (!plan.node_order.empty())
    lines.push_back(fmt::format("order of nodes (host file): {}", fmt::join(plan.node_order, " ")));
  if (plan.rank_order == spec::RankOrder::tp_pp_dp)
    lines.emplace_back(
        "rank order tp-pp-dp: --use-tp-pp-dp-mapping (Megatron), model.use_tp_pp_dp_mapping "
        "(NeMo)");
  return lines;
}

std::string devices_script(const spec::Job& job) {
  std::string text =
      "# Source this on every node before the training starts: ranks then fill the GPUs in this "
      "order.\n"
      "# NODE_RANK: place of the node in the host file.\n"
      "case \"${SLURM_NODEID:-${NODE_RANK:?place of this node in the host file}}\" in\n";
  for (int64_t block = 0; block < job.cluster.num_nodes; ++block)
    text += fmt::format("  {}) export CUDA_VISIBLE_DEVICES={} ;;\n", block,
                        visible_devices(job, node_of_block(job, block)));
  return text + "esac\n";
}

std::string host_file(const spec::Job& job, const std::vector<std::string>& hosts) {
  std::string text;
  for (int64_t block = 0; block < job.cluster.num_nodes; ++block)
    text += fmt::format("{} slots={}\n", host_name(node_of_block(job, block), hosts),
                        job.cluster.gpus_per_node);
  return text;
}

Result<std::string> write_placements(const Path& folder, const spec::Library& library,
                                     const PlaceResult& result, const spec::Job& original,
                                     const std::vector<std::string>& hosts) {
  TPT_TRY(make_folder(folder));
  std::string remarks;
  for (const Placement& placement : result.placements) {
    // The machine is the user's own; what it was made to look like is no part of his job.
    spec::Job job = original;
    job.plan = placement.job.plan;
    const std::string stem = file_stem(placement);
    job.name = fmt::format("{}-{}", original.name, stem);
    remarks += TPT_TRY(formats::write_job_files(library, job, folder / stem));
    TPT_TRY(write_file_atomically(folder / (stem + "-devices.sh"), devices_script(job)));
    TPT_TRY(write_file_atomically(folder / (stem + "-hostfile"), host_file(job, hosts)));
  }
  return remarks;
}

}  // namespace triplepoint::advise
