// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/plan_clocks.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/data_table.h"
#include "triplepoint/cli/format_flag.h"
#include "triplepoint/cli/interrupt.h"
#include "triplepoint/cli/job_flags.h"
#include "triplepoint/cli/search_bars.h"
#include "triplepoint/cli/text_table.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::cli {
namespace {

using advise::ClockPlan;
using advise::ClockPoint;

double mhz(Hertz clock) {
  return clock / unit::MHz;
}

template <class T, class Text>
std::string range_text(const std::vector<T>& values, const Text& number) {
  if (values.empty()) return "as it is";
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const std::string a = fmt::format("{:.0f}", number(*low)),
                    b = fmt::format("{:.0f}", number(*high));
  return a == b ? a : a + "-" + b;
}

std::string clock_range(const std::vector<Hertz>& clocks) {
  return range_text(clocks, mhz);
}

DataTable frontier_table(const spec::Job& job, const ClockPlan& plan) {
  DataTable table;
  table.name = "frontier";
  table.title =
      fmt::format("Clocks for {} on {} x {}", job.name, job.world_size(), job.cluster.gpu.name);
  table.columns = {{"point", "#"},
                   {"slowdown", "slower %", 0.01, 2},
                   {"saving", "saved %", 0.01, 2},
                   {"step_time_s", "step s", 1, 3},
                   {"energy_j", "kJ/step", 1e3, 1},
                   {"power_mean_w", "mean W", 1, 0},
                   {"temperature_peak_c", "hot C", 1, 1},
                   {"clock_mhz", "locked MHz"},
                   {"cap_w", "or capped W"},
                   {"capped_slowdown", "slower %", 0.01, 2},
                   {"capped_saving", "saved %", 0.01, 2}};
  const auto add = [&](int64_t number, const ClockPoint& point) {
    const advise::JudgedStep& step = point.step;
    table.add({number, point.slowdown, point.saving, step.time / unit::s, step.energy / unit::J,
               step.mean / unit::W, step.hottest.degrees(), clock_range(point.clocks),
               range_text(point.caps, [](Watts cap) { return cap / unit::W; }),
               point.capped_slowdown, point.capped_saving});
  };
  ClockPoint today;
  today.step = plan.baseline;
  add(0, today);
  for (size_t i = 0; i < plan.frontier.size(); ++i)
    add(static_cast<int64_t>(i + 1), plan.frontier[i]);
  return table;
}

/// What the devices of one stage have, before and after.
struct StageMeans {
  double clock_before = 0, power_before = 0, power_after = 0;
  std::vector<Hertz> clocks;
};

std::vector<StageMeans> stage_means(const spec::Job& job, const ClockPlan& plan,
                                    const ClockPoint* point) {
  const workload::RankGrid grid(job);
  std::vector<StageMeans> stages(plan.stages.size());
  const double share = static_cast<double>(stages.size()) / static_cast<double>(job.world_size());
  for (int64_t rank = 0; rank < job.world_size(); ++rank) {
    const auto d = static_cast<size_t>(grid.device_of(rank));
    StageMeans& stage = stages[static_cast<size_t>(grid.coordinates(rank).pipeline)];
    stage.clock_before += share * plan.baseline.clock_ratio[d] * mhz(*job.cluster.gpu.max_clock);
    stage.power_before += share * (plan.baseline.device_power[d] / unit::W);
    if (point == nullptr) continue;
    stage.power_after += share * (point->step.device_power[d] / unit::W);
    stage.clocks.push_back(point->clocks[d]);
  }
  return stages;
}

DataTable stage_table(const spec::Job& job, const ClockPlan& plan, const ClockPoint* point) {
  DataTable table;
  table.name = "stages";
  table.title = "Stages: what they do today, and what they get";
  table.columns = {{"stage", "stage"},
                   {"worked", "works %", 0.01, 1},
                   {"waited", "waits %", 0.01, 1},
                   {"forward_slack_s", "slack F ms", 1e-3, 2},
                   {"backward_slack_s", "slack B ms", 1e-3, 2},
                   {"clock_before_mhz", "MHz today", 1, 0},
                   {"clock_mhz", "locked MHz"},
                   {"power_before_w", "W today", 1, 0},
                   {"power_w", "W then", 1, 0},
                   {"why", "why"}};
  const std::vector<StageMeans> means = stage_means(job, plan, point);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const advise::StageSlack& stage = plan.stages[s];
    const auto milliseconds = [](Seconds slack) { return std::max(0., slack / unit::s); };
    DataCell after = Missing{"no setting was chosen"};
    if (point != nullptr) after = means[s].power_after;
    table.add({stage.stage, stage.worked, stage.waited, milliseconds(stage.forward_slack),
               milliseconds(stage.backward_slack), means[s].clock_before,
               clock_range(means[s].clocks), means[s].power_before, after,
               advise::reason_of(plan, stage)});
  }
  return table;
}

/// The point that saves most and is no slower than asked; null where there is none.
const ClockPoint* chosen_point(const ClockPlan& plan, double slowdown) {
  const double allowed = std::max(slowdown, advise::schedule_tolerance);
  const ClockPoint* chosen = nullptr;
  for (const ClockPoint& point : plan.frontier)
    if (point.slowdown <= allowed) chosen = &point;
  return chosen;
}

Result<bool> write_setting(Console& console, const spec::Library& library, const spec::Job& job,
                           const ClockPlan& plan, const ClockPoint& point, const Path& folder) {
  if (auto made = make_folder(folder); !made) return tl::unexpected(made.error());
  spec::Job limited = job;
  limited.environment.device_clock_limits = point.clocks;
  const std::pair<const char*, std::string> files[] = {
      {"clocks.csv", advise::clock_csv(job, plan, point)},
      {"clocks.sh", advise::clock_script(job, point)},
      {"job.toml", spec::write_job(limited, library)}};
  for (const auto& [name, text] : files)
    if (auto written = write_file_atomically(folder / name, text); !written)
      return tl::unexpected(written.error());
  console.warn(
      fmt::format("clocks.csv (per rank), clocks.sh (to read, then to run on each node) and "
                  "job.toml (with these limits) in {}\n",
                  folder.string()));
  return true;
}

std::string chosen_text(const ClockPoint& point) {
  return fmt::format(
      "Written and shown for the stages: {:.2f} % less energy at {:.2f} % longer steps. Clocks "
      "are locked for a whole run (nvidia-smi -lgc); as power caps the same points save {:.2f} % "
      "at {:.2f} %.",
      100 * point.saving, 100 * std::max(0., point.slowdown), 100 * point.capped_saving,
      100 * std::max(0., point.capped_slowdown));
}

Json clocks_json(const spec::Job& job, const ClockPlan& plan, const DataTable& frontier,
                 const DataTable& stages, const ClockPoint* chosen) {
  Json json = {{"model", job.model.name},
               {"cluster", job.cluster.name},
               {"gpus", job.world_size()},
               {"frontier", table_json(frontier)["rows"]},
               {"stages", table_json(stages)["rows"]}};
  if (!plan.nothing.empty()) json["nothing"] = plan.nothing;
  if (chosen == nullptr) return json;
  Json clocks = Json::array(), caps = Json::array();
  for (size_t d = 0; d < chosen->clocks.size(); ++d) {
    clocks.push_back(mhz(chosen->clocks[d]));
    caps.push_back(chosen->caps[d] / unit::W);
  }
  json["chosen"] = {{"slowdown", chosen->slowdown},
                    {"saving", chosen->saving},
                    {"device_clock_mhz", clocks},
                    {"device_cap_w", caps}};
  return json;
}

Result<void> require_clocks(const spec::Job& job) {
  TPT_TRY(require_valid(job));
  if (job.task == spec::Task::pretrain || job.task == spec::Task::lora) return {};
  return error(
      "clocks are planned for training only (the job's task says otherwise); leave it out");
}

}  // namespace

Result<double> parse_slowdown(std::string_view text) {
  const bool percent = text.ends_with('%');
  const std::string number(text.substr(0, text.size() - (percent ? 1 : 0)));
  char* end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(value >= 0) || value > (percent ? 100 : 1))
    return error(
        fmt::format("--slowdown {} is no share (it says how much longer a step may take); "
                    "try --slowdown 2%",
                    text));
  return percent ? value / 100 : value;
}

Result<int> plan_the_clocks(Console& console, const spec::Library& library, const spec::Job& job,
                            const ClockRequest& request) {
  TPT_TRY(require_clocks(job));
  ClockPlan plan;
  {
    SearchBars bars(console);
    advise::ClockOptions options;
    options.most_slowdown = std::max(options.most_slowdown, request.slowdown);
    options.threads = request.threads;
    options.begin = [&](const char* what, size_t total) { bars.begin(what, total); };
    options.advance = [&] { bars.advance(); };
    options.stopped = [] { return interrupted(); };
    plan = advise::plan_clocks(job, options);
  }
  if (!plan.fits)
    return error(
        fmt::format("{} does not fit in memory (there is no step whose clocks could be "
                    "chosen); see triplepoint simulate for what is too large",
                    job.name));
  const ClockPoint* chosen = chosen_point(plan, request.slowdown);
  const DataTable frontier = frontier_table(job, plan), stages = stage_table(job, plan, chosen);
  if (request.format == "json") {
    print_json(console, clocks_json(job, plan, frontier, stages, chosen));
  } else if (request.format == "csv") {
    console.print(table_csv(frontier));
  } else {
    const auto line = [&](const std::string& text) {
      console.print(wrap(text, console.abilities().width.value_or(100), "  ") + "\n");
    };
    console.print(table_text(frontier, console));
    if (!plan.nothing.empty()) line(plan.nothing);
    console.print("\n" + table_text(stages, console));
    if (chosen != nullptr) line(chosen_text(*chosen));
  }
  if (request.output && chosen == nullptr)
    return error(
        "nothing was written (no setting within --slowdown saves energy); allow more, as "
        "in --slowdown 5%");
  if (request.output)
    TPT_TRY(write_setting(console, library, job, plan, *chosen, Path(*request.output)));
  return interrupted() ? exit_interrupted : exit_ok;
}

}  // namespace triplepoint::cli
