// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/run_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

#include "triplepoint/run/shutdown.h"

#include "triplepoint/metrics/run/inference.h"
#include "triplepoint/metrics/run/results_json.h"
#include "triplepoint/report/findings/labels.h"
#include "triplepoint/report/findings/pace_words.h"
#include "triplepoint/tui/run_sparklines.h"
#include "triplepoint/tui/sparkline.h"
#include "triplepoint/tui/table_text.h"

namespace triplepoint::tui {
namespace {

std::string seconds_text(const std::optional<Seconds>& time) {
  return time ? significant(*time / unit::s) + " s" : "–";
}

std::string with_unit(const std::optional<double>& value, const char* unit_name, int digits = 3) {
  return value ? fmt::format("{} {}", significant(*value, digits), unit_name) : "–";
}

std::string share_text(const std::optional<double>& share) {
  return share ? percent(*share) : "–";
}

std::string heading(const run::Run& run) {
  if (!run.manifest.job) return run.manifest.name;
  const spec::Job& job = *run.manifest.job;
  return fmt::format("{}, {}, {}, microbatch {}, batch {}, DP {}, stack {}",
                     report::group_label(job), report::configuration_label(job),
                     report::variant_label(job), job.plan.micro_batch_size,
                     job.plan.global_batch_size, job.data_parallel_size(), job.stack.name);
}

std::string verdict_line(const Console& console, const run::Run& run) {
  if (run.memory.empty()) return "memory not known";
  const std::size_t worst = metrics::worst_stage(run);
  std::string line = fmt::format(": the fullest GPU (stage {}) needs {} GiB", worst,
                                 significant(run.memory[worst].total() / unit::GiB));
  if (run.memory_limit)
    line += fmt::format(" of {} GiB", significant(*run.memory_limit / unit::GiB));
  return (run.manifest.fits_memory ? console.styled("fits in memory", Style::good)
                                   : console.styled("out of memory", Style::bad)) +
         line;
}

std::string memory_table(const Console& console, const run::Run& run) {
  DataTable table = text_table({{"stage"},
                                {"weights"},
                                {"gradients"},
                                {"optimizer"},
                                {"activations"},
                                {"logits", Align::right, true},
                                {"buffers", Align::right, true},
                                {"reserve", Align::right, true},
                                {"total GiB"}});
  for (std::size_t i = 0; i < run.memory.size(); ++i) {
    const run::MemoryUse& use = run.memory[i];
    std::vector<DataCell> cells = {std::to_string(i)};
    for (Bytes part : {use.weights, use.gradients, use.optimizer, use.activations, use.logits,
                       use.buffers, use.reserve}) {
      cells.emplace_back(significant(part / unit::GiB));
    }
    const bool over = run.memory_limit && use.total() > *run.memory_limit;
    cells.emplace_back(significant(use.total() / unit::GiB), over ? Style::bad : Style::plain);
    table.add(std::move(cells));
  }
  return table_text(table, console);
}

std::string throttle_text(const metrics::Metrics& m) {
  std::string text;
  for (const auto& [reason, share] : m.throttle) {
    if (share > 0)
      text += fmt::format("{}{} by {}", text.empty() ? "" : ", ", percent(share),
                          report::throttle_reason_text(reason));
  }
  return text.empty() ? "none" : text;
}

/// Steps of training take megajoules, passes of inference joules.
std::string energy_text(const std::optional<double>& joules, bool trains) {
  if (!joules || !trains) return with_unit(joules, "J");
  return with_unit(*joules / 1e6, "MJ");
}

std::string waiting_text(const metrics::Metrics& m) {
  if (!m.parts || !m.step_time || m.parts->waiting < 0.005 * *m.step_time) return "";
  return fmt::format(", waiting for late peers {}", seconds_text(m.parts->waiting));
}

template <class Row>
void inference_row(const run::Run& run, const metrics::Metrics& m, const Row& row) {
  const auto speed = metrics::inference_speed(run.manifest.job->task, m);
  if (speed.time_to_first_token)
    row("first token", seconds_text(speed.time_to_first_token), "of every prompt of the batch");
  if (speed.time_per_output_token)
    row("next token", seconds_text(speed.time_per_output_token), "of every sequence of the batch");
}

/// Name, value, and what else belongs to it.
std::string overview(const Console& console, const run::Run& run, const metrics::Metrics& m,
                     const std::optional<metrics::Interval>& step_time) {
  const bool trains = !metrics::is_inference(run);
  DataTable table = text_table({{"", Align::left}, {"", Align::right}, {"", Align::left}});
  const auto row = [&](const char* name, std::string value, std::string more) {
    table.add({name, std::move(value), std::move(more)});
  };
  row("step time", seconds_text(m.step_time),
      fmt::format("{}bubble {}, exposed communication {}{}",
                  step_time ? interval_text(*step_time) + "; " : "", share_text(m.bubble_fraction),
                  seconds_text(m.exposed_communication), waiting_text(m)));
  if (!trains) inference_row(run, m, row);
  row("speed", with_unit(m.tokens_per_second, "tokens/s"),
      with_unit(m.tokens_per_second_per_gpu, "a GPU"));
  row("utilization", "MFU " + share_text(m.mfu),
      fmt::format("{}{} model TFLOP/s a GPU",
                  trains ? fmt::format("HFU {}, ", share_text(m.hfu)) : std::string(),
                  significant(m.model_tflops_per_gpu)));
  row("power", with_unit(m.power_mean_w, "W"),
      fmt::format("a GPU; peak {} by the sensor, {} in the hungriest kernel",
                  with_unit(m.power_peak_w, "W"), with_unit(m.power_kernel_peak_w, "W")));
  row("energy", with_unit(m.joules_per_token, "J/token"),
      fmt::format(
          "{} a step{}", energy_text(m.energy_j, trains),
          trains ? fmt::format(", {} samples/(s MJ)", significant(m.samples_per_s_mj)) : ""));
  row("temperature", with_unit(m.temperature_mean_c, "°C"),
      fmt::format("peak {}, hot slots {}, cool slots {}", with_unit(m.temperature_peak_c, "°C"),
                  significant(m.hot_mean_c), significant(m.cool_mean_c)));
  row("SM clock", with_unit(m.sm_clock_mean_mhz, "MHz", 4), "throttled: " + throttle_text(m));
  return table_text(table, console);
}

std::vector<DataCell> kernel_cells(const metrics::KernelSeconds& k) {
  std::vector<DataCell> cells;
  for (Seconds part : {k.compute, k.memory, k.send_recv, k.all_reduce, k.all_gather,
                       k.reduce_scatter, k.all_to_all, k.waiting, k.total()}) {
    cells.emplace_back(significant(part / unit::s));
  }
  return cells;
}

std::string stage_table(const Console& console, const metrics::Metrics& m) {
  DataTable table = text_table({{"stage"},
                                {"compute"},
                                {"memory"},
                                {"send/recv"},
                                {"all-reduce"},
                                {"all-gather"},
                                {"red.-scat."},
                                {"all-to-all", Align::right, true},
                                {"waiting"},
                                {"total s"},
                                {"W", Align::right, true},
                                {"°C", Align::right, true},
                                {"MHz", Align::right, true}});
  const auto add = [&](std::string name, const metrics::KernelSeconds& kernels,
                       std::vector<DataCell> rest) {
    std::vector<DataCell> cells = kernel_cells(kernels);
    cells.insert(cells.begin(), std::move(name));
    cells.insert(cells.end(), rest.begin(), rest.end());
    table.add(std::move(cells));
  };
  for (const metrics::Stage& stage : m.stages) {
    add(std::to_string(stage.stage), stage.kernels,
        {significant(stage.power_mean_w), significant(stage.die_mean_c),
         significant(stage.sm_clock_mean_mhz, 4)});
  }
  add("mean", m.kernels,
      {significant(m.power_mean_w), significant(m.temperature_mean_c),
       significant(m.sm_clock_mean_mhz, 4)});
  return table_text(table, console);
}

/// The overview has no headings: its first line would be empty.
std::string without_first_line(const std::string& text) {
  return text.substr(text.find('\n') + 1);
}

}  // namespace

std::string interval_text(const metrics::Interval& interval) {
  return fmt::format("80 %: {}-{}", significant(interval.low), significant(interval.high));
}

void print_run(Console& console, const run::Run& run, const metrics::Metrics& metrics,
               const std::optional<metrics::Interval>& step_time) {
  console.print(console.styled(heading(run), Style::bold) + "\n");
  console.print(verdict_line(console, run) + "\n\n");
  if (run::has_trained(run)) {
    console.print(without_first_line(overview(console, run, metrics, step_time)) + "\n");
    for (const run::PaceSetter& setter : metrics.pace_setters)
      console.print(wrap(report::pace_sentence(setter, *metrics.step_time) + " " +
                             report::pace_advice(setter),
                         console.abilities().width.value_or(100), "") +
                    "\n\n");
    if (!run.timeline.empty())
      console.print("Kernel seconds of a GPU in one step, waiting inside collectives included\n" +
                    stage_table(console, metrics) + "\n");
  }
  if (run::has_trained(run))
    if (const std::string lines = run_sparklines(console, run); !lines.empty())
      console.print(lines + "\n");
  if (!run.memory.empty()) console.print("Memory of a GPU (GiB)\n" + memory_table(console, run));
  for (const std::string& note : run.manifest.notes)
    console.print("note: " + note + "\n");
}

}  // namespace triplepoint::tui
