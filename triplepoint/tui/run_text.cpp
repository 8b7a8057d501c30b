// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/run_text.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/plots.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/findings/labels.h"
#include "triplepoint/report/findings/run_findings.h"
#include "triplepoint/tui/console.h"

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
  const std::size_t worst = metrics::fullest_stage(run.memory);
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
                                {"logits", Align::right, 1},
                                {"buffers", Align::right, 1},
                                {"reserve", Align::right, 1},
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

/// The bubble; where no pipeline is known, the time without a kernel.
std::string bubble_text(const metrics::Metrics& m) {
  if (!m.bubble_fraction && m.idle && m.step_time)
    return "no kernel runs for " + share_text(*m.idle / *m.step_time);
  return "bubble " + share_text(m.bubble_fraction);
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
      fmt::format("{}{}, exposed communication {}{}",
                  step_time ? interval_text(*step_time) + "; " : "", bubble_text(m),
                  seconds_text(m.exposed_communication), waiting_text(m)));
  if (!trains) inference_row(run, m, row);
  row("speed", with_unit(m.tokens_per_second, "tokens/s"),
      with_unit(m.tokens_per_second_per_gpu, "a GPU"));
  row("utilization", "MFU " + share_text(m.mfu),
      fmt::format("{}{} model TFLOP/s a GPU",
                  trains ? fmt::format("HFU {}, ", share_text(m.hfu)) : std::string(),
                  significant(m.model_tflops_per_gpu)));
  row("power", with_unit(m.power_mean_w, "W"),
      fmt::format("a GPU; peak {} by the sensor, {} in a kernel{}", with_unit(m.power_peak_w, "W"),
                  with_unit(m.power_kernel_peak_w, "W"), report::limit_beside_peak(run, m)));
  if (m.bursts.swing_w)
    row("power swing", with_unit(m.bursts.swing_w, "W"), report::power_swing_text(m));
  row("energy", with_unit(m.joules_per_token, "J/token"),
      fmt::format(
          "{} a step{}", energy_text(m.energy_j, trains),
          trains ? fmt::format(", {} samples/(s MJ)", significant(m.samples_per_s_mj)) : ""));
  row("temperature", with_unit(m.temperature_mean_c, "°C"),
      fmt::format("peak {}{}{}", with_unit(m.temperature_peak_c, "°C"), report::slots_text(m),
                  report::cool_down_text(m)));
  row("SM clock", with_unit(m.sm_clock_mean_mhz, "MHz", 4),
      "throttled: " + (run.shutdown ? "–" : throttle_text(m)));
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
  // Kinds of kernels that no stage runs go first, power, heat and clock last.
  const auto kind = [](const char* title, Seconds time) {
    return TextColumn{title, Align::right, time > Seconds() ? 2 : 3};
  };
  DataTable table = text_table({{"stage"},
                                {"compute"},
                                {"memory", Align::right, 2},
                                kind("send/recv", m.kernels.send_recv),
                                kind("all-reduce", m.kernels.all_reduce),
                                kind("all-gather", m.kernels.all_gather),
                                kind("red.-scat.", m.kernels.reduce_scatter),
                                kind("all-to-all", m.kernels.all_to_all),
                                {"waiting", Align::right, 2},
                                {"total s"},
                                {"W", Align::right, 1},
                                {"°C", Align::right, 1},
                                {"MHz", Align::right, 1}});
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
    if (const std::string text = report::limit_not_kept(run, metrics); !text.empty())
      console.print(wrap(text, console.abilities().width.value_or(100)) + "\n\n");
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

std::string run_sparklines(const Console& console, const run::Run& run) {
  constexpr std::size_t taken = 66;  // by name and numbers
  const std::size_t width = console.abilities().width.value_or(100);
  const std::size_t points = std::clamp<std::size_t>(width > taken ? width - taken : 0, 12, 60);
  DataTable table = text_table({{"mean of the devices over time", Align::left},
                                {"", Align::left},
                                {"begin"},
                                {"end"},
                                {"lowest"},
                                {"highest"}});
  bool any = false;
  for (const answers::Plot& plot : answers::plots_of(run, points)) {
    const auto mean = answers::mean_curve(plot);
    const auto extremes = answers::extremes_of(plot);
    if (mean.size() < 4 || !mean.front() || !mean.back()) continue;
    table.add({plot.unit, sparkline(mean, console.abilities().unicode),
               significant(mean.front(), 4), significant(mean.back(), 4),
               significant(extremes->lowest, 4), significant(extremes->highest, 4)});
    any = true;
  }
  return any ? table_text(table, console) : "";
}

namespace {

using metrics::PowerProfile;

DataTable level_table(const PowerProfile& profile) {
  DataTable table;
  table.name = "power_profile";
  table.title =
      fmt::format("Power over a step of {} s, {}", significant(profile.step / unit::s),
                  profile.of_devices_only ? "GPUs over the supplies' efficiency" : "at the wall");
  table.columns = {{"level", "level"},
                   {"units", "of them"},
                   {"mean_w", "mean kW", 1e3, 2},
                   {"lowest_w", "lowest", 1e3, 2},
                   {"peak_w", "peak", 1e3, 2},
                   {"swing_w", "swing kW", 1e3, 2},
                   {"swing_share", "of peak %", 0.01, 1},
                   {"ramp_up_w_per_s", "ramp up kW/s", 1e3, 1},
                   {"ramp_down_w_per_s", "down kW/s", 1e3, 1},
                   {"coincidence", "coincidence", 1, 3}};
  for (const metrics::PowerLevel& level : profile.levels)
    table.add({level.name, level.units, level.mean / unit::W, level.lowest / unit::W,
               level.highest / unit::W, level.swing() / unit::W, level.swing() / level.highest,
               level.ramp_up_w_per_s, level.ramp_down_w_per_s, level.coincidence});
  return table;
}

std::string smoothing_text(const PowerProfile& profile) {
  const metrics::Smoothing& s = profile.smoothing;
  if (profile.levels.back().swing() <= s.allowed_swing)
    return fmt::format(
        "Smoothing: a battery or capacitors of {} kJ and {} kW make the site flat. It swings by no "
        "more than the allowed {} kW: no floor and no stagger are needed.",
        significant(s.storage / unit::kJ), significant(s.storage_power / unit::kW),
        significant(s.allowed_swing / unit::kW));
  return fmt::format(
      "Smoothing: a battery or capacitors of {} kJ and {} kW make the site flat. To swing by no "
      "more than {} kW: a floor of {} kW burns {} kJ a step ({:.1f} % of its energy); nodes that "
      "begin one after the other over {} s swing by {} kW{} (steps may get that much longer).",
      significant(s.storage / unit::kJ), significant(s.storage_power / unit::kW),
      significant(s.allowed_swing / unit::kW), significant(s.floor / unit::kW),
      significant(s.floor_energy / unit::kJ), 100 * s.floor_share, significant(s.stagger / unit::s),
      significant(s.staggered_swing / unit::kW), s.stagger_suffices ? "" : ", which is not enough");
}

}  // namespace

std::string lifetime_use_text(const metrics::RunLifetimeUse& use) {
  std::string text = fmt::format(
      "Lifetime use: {} (mean of the GPUs; fastest {} on GPU {}, slowest {})",
      significant(use.mean), significant(use.highest), use.worst_device, significant(use.lowest));
  if (use.gpu_hours_per_million_tokens)
    text += fmt::format("; {} GPU hours of the reference per million tokens",
                        significant(*use.gpu_hours_per_million_tokens));
  return text +
         fmt::format(".\n  {}; relative to the reference; compares jobs, does not predict years.\n",
                     use.reference);
}

void print_power_profile(Console& console, const PowerProfile& profile) {
  console.print("\n" + table_text(level_table(profile), console));
  console.print(wrap(smoothing_text(profile), console.abilities().width.value_or(100), "  ") +
                "\n");
}

}  // namespace triplepoint::tui
