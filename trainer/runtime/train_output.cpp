// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/train_output.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/workload/model_flops.h"

namespace triplepoint::trainer {
namespace {

using spec::Collective;
using spec::GroupKind;

constexpr std::array<const char*, memory_term_count> term_names = {
    "weights", "gradients", "optimizer", "activations", "logits", "buffers"};

struct Speed {
  double tokens_per_second = 0, utilization = 0;
};

Speed speed_of(const spec::Job& job, double seconds, double all_peak_flops) {
  const double flops = workload::count_step_flops(job).model / unit::FLOP;
  return {static_cast<double>(workload::tokens_per_step(job)) / seconds,
          flops / seconds / all_peak_flops};
}

/// Of the steps but the first, which warms everything up.
double median_seconds(const std::vector<StepResult>& steps) {
  std::vector<double> seconds;
  for (size_t i = steps.size() > 1 ? 1 : 0; i < steps.size(); ++i)
    seconds.push_back(steps[i].seconds);
  return seconds.empty() ? 0 : upper_median(std::move(seconds));
}

/// Bytes of all ranks, measured and by workload, of one class of one group.
struct TrafficRow {
  GroupKind group;
  Collective collective;
  double measured = 0, expected = 0;
};

std::vector<TrafficRow> traffic_rows(const TrainOutcome& outcome) {
  const auto steps = static_cast<double>(outcome.own.steps.size());
  std::vector<TrafficRow> rows;
  for (size_t group = 0; group < spec::group_kind_count; ++group)
    for (size_t kind = 0; kind < spec::collective_count; ++kind) {
      TrafficRow row{static_cast<GroupKind>(group), static_cast<Collective>(kind)};
      for (const TrainReport& rank : outcome.all) {
        row.measured += rank.traffic[group][kind];
        row.expected += rank.expected[group][kind] * steps;
      }
      if (row.measured > 0 || row.expected > 0) rows.push_back(row);
    }
  return rows;
}

/// The rank of each stage that holds most.
std::vector<const TrainReport*> fullest_ranks(const TrainOutcome& outcome) {
  const auto total = [](const TrainReport& rank) {
    double bytes = 0;
    for (const double term : rank.memory)
      bytes += term;
    return bytes;
  };
  std::vector<const TrainReport*> fullest;
  for (const TrainReport& rank : outcome.all) {
    if (rank.stage >= fullest.size()) fullest.resize(rank.stage + 1);
    const TrainReport*& held = fullest[rank.stage];
    if (held == nullptr || total(rank) > total(*held)) held = &rank;
  }
  return fullest;
}

Json steps_json(const spec::Job& job, const TrainOutcome& outcome) {
  Json steps = Json::array();
  for (const StepResult& step : outcome.own.steps) {
    const Speed speed = speed_of(job, step.seconds, outcome.own.all_peak_flops);
    steps.push_back({{"step", step.step},
                     {"loss", step.loss},
                     {"gradient_norm", step.gradient_norm},
                     {"learning_rate", step.rate},
                     {"seconds", step.seconds},
                     {"tokens_per_second", speed.tokens_per_second},
                     {"mfu", speed.utilization}});
  }
  return steps;
}

Json traffic_json(const TrainOutcome& outcome) {
  Json rows = Json::array();
  for (const TrafficRow& row : traffic_rows(outcome))
    rows.push_back({{"group", spec::name_of(row.group)},
                    {"collective", spec::name_of(row.collective)},
                    {"bytes", row.measured},
                    {"workload_bytes", row.expected}});
  return rows;
}

Json memory_json(const TrainOutcome& outcome) {
  Json stages = Json::array();
  for (const TrainReport* rank : fullest_ranks(outcome)) {
    Json terms;
    for (size_t term = 0; term < memory_term_count; ++term)
      terms[term_names[term]] = {{"bytes", rank->memory[term]},
                                 {"model_bytes", rank->expected_memory[term]}};
    stages.push_back({{"stage", rank->stage}, {"rank", rank->rank}, {"terms", terms}});
  }
  return stages;
}

}  // namespace

std::string step_line(const spec::Job& job, const TrainSettings& settings, const StepResult& step,
                      const TrainReport& report) {
  const Speed speed = speed_of(job, step.seconds, report.all_peak_flops);
  return fmt::format(
      "step {:>{}}/{}  loss {:.5f}  norm {:.3g}  {:.1f} ms  {:.0f} tokens/s  MFU {:.1f} %",
      step.step + 1, std::to_string(settings.steps).size(), settings.steps, step.loss,
      step.gradient_norm, step.seconds * 1e3, speed.tokens_per_second, speed.utilization * 100);
}

std::string summary_text(const spec::Job& job, const TrainOutcome& outcome) {
  const double seconds = median_seconds(outcome.own.steps);
  if (seconds == 0) return "nothing was left to train\n";
  const Speed speed = speed_of(job, seconds, outcome.own.all_peak_flops);
  std::string text = fmt::format(
      "\nmedian step {:.1f} ms, {:.0f} tokens/s, MFU {:.1f} % of {:.1f} GFLOP/s ({} ranks)\n",
      seconds * 1e3, speed.tokens_per_second, speed.utilization * 100,
      outcome.own.all_peak_flops * 1e-9, outcome.all.size());
  const auto rows = traffic_rows(outcome);
  if (!rows.empty())
    text += fmt::format("\n{:<14} {:<15} {:>14} {:>14}\n", "group", "collective", "MB moved",
                        "MB by workload");
  for (const TrafficRow& row : rows)
    text += fmt::format("{:<14} {:<15} {:>14.3f} {:>14.3f}{}\n", spec::name_of(row.group),
                        spec::name_of(row.collective), row.measured * 1e-6, row.expected * 1e-6,
                        row.measured == row.expected ? "" : "  differs");
  text +=
      fmt::format("\n{:<6} {:<12} {:>14} {:>14}\n", "stage", "memory", "MB at peak", "MB by model");
  for (const TrainReport* rank : fullest_ranks(outcome))
    for (size_t term = 0; term < memory_term_count; ++term)
      if (rank->memory[term] > 0 || rank->expected_memory[term] > 0)
        text += fmt::format("{:<6} {:<12} {:>14.3f} {:>14.3f}\n", rank->stage, term_names[term],
                            rank->memory[term] * 1e-6, rank->expected_memory[term] * 1e-6);
  return text;
}

std::string summary_json(const spec::Job& job, const TrainOutcome& outcome) {
  const double seconds = median_seconds(outcome.own.steps);
  Json json = {{"job", job.name},
               {"ranks", outcome.all.size()},
               {"steps", steps_json(job, outcome)},
               {"peak_flops", outcome.own.all_peak_flops},
               {"traffic", traffic_json(outcome)},
               {"memory", memory_json(outcome)},
               {"stopped", outcome.own.stopped}};
  if (seconds > 0) {
    const Speed speed = speed_of(job, seconds, outcome.own.all_peak_flops);
    json["median"] = {{"seconds", seconds},
                      {"tokens_per_second", speed.tokens_per_second},
                      {"mfu", speed.utilization}};
  }
  return json_text(json);
}

}  // namespace triplepoint::trainer
