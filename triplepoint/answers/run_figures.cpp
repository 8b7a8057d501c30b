// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/run_figures.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/fault.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/quantities.h"
#include "triplepoint/metrics/run/bursts.h"

namespace triplepoint::answers {
namespace {

using metrics::Metrics;

// Of what is not known all these are empty.

std::string with_unit(const std::optional<double>& value, const std::string& unit_name,
                      int digits = 3) {
  return value ? fmt::format("{} {}", significant(*value, digits), unit_name) : "";
}

std::string seconds_text(const std::optional<Seconds>& time) {
  return time ? significant(*time / unit::s) + " s" : "";
}

std::string share_text(const std::optional<double>& share) {
  return share ? percent(*share) : "";
}

/// "peak 710 W" of "peak " and "710 W".
std::string after(const char* words, const std::string& text) {
  return text.empty() ? std::string() : words + text;
}

/// Where it is not bf16.
std::string precision_text(const run::Run& run) {
  const auto& job = run.manifest.job;
  if (!job || job->plan.precision == spec::Precision::bf16) return "";
  return std::string(spec::enum_name(job->plan.precision));
}

/// What a rank runs on.
std::string device_word(const run::Run& run) {
  const auto& job = run.manifest.job;
  if (job && job->cluster.shared_cores > 0) return "rank";
  return job && job->cluster.gpu.dies_per_package > 1 ? "die" : "GPU";
}

/// Texts that are there, with commas.
std::string joined(std::initializer_list<std::string> texts, const char* between = ", ") {
  std::string all;
  for (const std::string& text : texts)
    if (!text.empty()) all += (all.empty() ? "" : between) + text;
  return all;
}

/// The bubble; where no pipeline is known, the time without a kernel.
std::string bubble_text(const Metrics& m) {
  if (m.bubble_fraction) return "bubble " + percent(*m.bubble_fraction);
  if (m.idle && m.step_time) return "no kernel runs for " + percent(*m.idle / *m.step_time);
  return "kernels not recorded";
}

std::string exposed_text(const Metrics& m) {
  return after("exposed communication ", seconds_text(m.exposed_communication));
}

std::string waiting_text(const Metrics& m) {
  constexpr double worth_telling = 0.005;  // of a step
  if (!m.parts || !m.step_time || m.parts->waiting < worth_telling * *m.step_time) return "";
  return "waiting for late peers " + seconds_text(m.parts->waiting);
}

/// A large part of the step that no other word of its figure covers.
std::string part_text(const Metrics& m, const char* words, Seconds metrics::StepParts::*part) {
  constexpr double worth_telling = 0.05;  // of a step
  if (!m.parts || !m.step_time || *m.parts.*part < worth_telling * *m.step_time) return "";
  return after(words, seconds_text(*m.parts.*part));
}

/// Of all of a run over time, with the phase in which steps take longest; nothing of a steady
/// state.
std::optional<KeyFigure> whole_run_figure(const run::Run& run, metrics::EnergyScope scope) {
  const std::vector<metrics::FaultPhase> phases = metrics::fault_phases_of(run);
  if (phases.empty()) return std::nullopt;
  if (!phases.front().span.node_energy_j) scope = metrics::EnergyScope::gpu;
  const auto joules = [&](const metrics::FaultSpan& span) {
    return scope == metrics::EnergyScope::gpu ? span.energy_j.value_or(0)
           : scope == metrics::EnergyScope::node
               ? *span.node_energy_j
               : *span.node_energy_j * run.manifest.job->environment.pue.value_or(1);
  };
  const auto text = [&](const metrics::FaultSpan& span, const char* between, const char* die) {
    if (!span.power_w) return std::string();
    return fmt::format("{} hottest die {} °C{}, {} W a GPU, {} MJ {}", between,
                       significant(span.peak_c), die, significant(span.power_w),
                       significant(joules(span) / 1e6), metrics::scope_text(scope));
  };
  const auto [whole, time_per_step, joules_per_token] = *whole_run_of(run);
  // Where training stood still, or steps were lost with a node, time goes by without any.
  const bool stood = time_per_step && *time_per_step > 1.01 * whole.step_time.value_or(Seconds());
  std::string detail =
      fmt::format("a step, mean of {} in {} s{}{}", whole.steps, significant(whole.end / unit::s),
                  stood ? ", or " + seconds_text(time_per_step) + " with the time lost" : "",
                  text(whole, ";", ""));
  if (joules_per_token)
    detail += fmt::format(", {} J/token",
                          significant(*joules_per_token * joules(whole) / *whole.energy_j));
  const auto rank = [](const metrics::FaultPhase& phase) {
    return std::pair(phase.span.step_time.value_or(Seconds()), phase.span.peak_c);
  };
  if (const auto worst = std::ranges::max_element(phases.begin() + 1, phases.end(), {}, rank);
      worst != phases.end() && worst->span.step_time > 1.01 * whole.step_time.value_or(Seconds()))
    detail += fmt::format("; slowest phase: {}, {} a step{}", worst->name,
                          seconds_text(worst->span.step_time),
                          text(worst->span, ",", " (mean of a step)"));
  return KeyFigure{"whole run", seconds_text(whole.step_time), detail};
}

/// "likely 13.5-26.8 (80 % interval, from 3 own runs)"; empty where nothing is known.
std::string likely_text(const run::Run& run) {
  const auto interval = interval_of(run);
  if (!interval) return "";
  std::string text = interval_text(*interval);
  if (const auto own = run.numbers.own_runs)
    text.insert(text.size() - 1, fmt::format(", from {} own run{}", *own, *own == 1 ? "" : "s"));
  return text;
}

/// `whole_run`: it stands behind that of all steps, and all that follow are of the last one; where
/// heat ended the job, of the mean one.
KeyFigure step_figure(const run::Run& run, const Metrics& m, bool whole_run) {
  const bool ended = m.step_time || run.shutdown || !run::has_trained(run) ||
                     run.manifest.origin != run::Origin::simulated;
  if (!ended) return {"step time", "not known", "no step ends within the time simulated"};
  return {!whole_run     ? "step time"
          : run.shutdown ? "mean step"
                         : "last step",
          seconds_text(m.step_time),
          joined({whole_run ? "as all figures below but peaks" : "", likely_text(run),
                  joined({bubble_text(m), exposed_text(m), waiting_text(m),
                          m.bubble_fraction
                              ? part_text(m, "gaps between kernels ", &metrics::StepParts::gaps)
                              : "",
                          part_text(m, "copies ", &metrics::StepParts::copying)})},
                 "; ")};
}

/// Prompts of a batch that is more than one microbatch end one after the other.
std::string prompts_text(const spec::Job& job, const Metrics& m) {
  const double n = as_real(job.num_microbatches());
  if (n <= 1 || !m.step_time) return "of every prompt of the batch";
  // Behind each other through the stages: the last leaves after all, those before a slot earlier.
  const Seconds slot = *m.step_time / (n + as_real(job.plan.pipeline_parallel_size) - 1);
  return fmt::format("of the last prompt of the batch; first about {}, mean {}",
                     seconds_text(*m.step_time - slot * (n - 1)),
                     seconds_text(*m.step_time - slot * ((n - 1) / 2)));
}

void add_inference(std::vector<KeyFigure>& figures, const run::Run& run, const Metrics& m) {
  const auto speed = metrics::inference_speed(run.manifest.job->task, m);
  figures.push_back(
      {"first token", seconds_text(speed.time_to_first_token), prompts_text(*run.manifest.job, m)});
  const spec::Job& job = *run.manifest.job;
  std::string sequences =
      fmt::format("of every sequence of the batch of {}", job.plan.global_batch_size);
  if (const int64_t passes = job.num_microbatches(); passes > 1)
    sequences += fmt::format(", in {} microbatches (--mbs {}: in one)", passes,
                             job.plan.micro_batch_size * passes);
  figures.push_back(
      {"next token", seconds_text(speed.time_per_output_token), std::move(sequences)});
}

/// " (limit 500 W on average)" beside a peak above the limit of every GPU; empty where no peak
/// exceeds it or the average does as well.
std::string limit_beside_peak(const run::Run& run, const Metrics& m) {
  if (!run.manifest.job || !m.power_mean_w || !m.power_peak_w) return "";
  const double limit = run.manifest.job->power_limit() / unit::W;
  if (!(limit > 0) || *m.power_peak_w <= limit || *m.power_mean_w > limit) return "";
  return fmt::format(" (limit {} W on average)", significant(limit));
}

/// "p95 - p5 of its power; 410 W within a microbatch; 61 % of the time at 90 % of the limit or
/// above".
std::string swing_text(const Metrics& m) {
  return joined(
      {"p95 - p5 of its power", with_unit(m.bursts.microbatch_swing_w, "W within a microbatch"),
       m.bursts.duty ? fmt::format("{} of the time at {} of the limit or above",
                                   percent(*m.bursts.duty), percent(metrics::duty_level))
                     : ""},
      "; ");
}

/// Steps of training take megajoules, passes of inference joules.
std::string energy_text(const Metrics& m, bool trains) {
  const auto step_text = [&](const std::optional<double>& joules) {
    if (!joules) return std::string();
    return trains ? with_unit(*joules / 1e6, "MJ a step") : with_unit(joules, "J a step");
  };
  const std::string efficiency = with_unit(m.samples_per_s_mj, "samples/(s MJ)");
  if (m.energy_scope == metrics::EnergyScope::gpu)
    return joined({step_text(m.energy_j), efficiency});
  Metrics gpus = m;
  metrics::count_energy_at(metrics::EnergyScope::gpu, gpus);
  const bool of_site = m.energy_scope == metrics::EnergyScope::site;
  return joined({step_text(of_site ? m.site_energy_j : m.node_energy_j),
                 after("GPUs alone ", joined({with_unit(gpus.joules_per_token, "J/token"),
                                              step_text(m.energy_j), efficiency}))},
                "; ");
}

std::string cool_down_text(const Metrics& m) {
  const metrics::CoolDowns& spans = m.cool_downs;
  if (!spans.share_of_time || !spans.mean_length) return "";
  return fmt::format("cooling down {} of the time", percent(*spans.share_of_time));
}

/// What a quantity of the catalogue is called at the top of a run.
std::string title_of(const Headline& figure, const run::Run& run, const Metrics& m) {
  if (figure.key == "joules_per_token")
    return fmt::format("energy {}", metrics::scope_text(m.energy_scope));
  std::string text(figure.headline.empty() ? quantity_of(figure.key).label : figure.headline);
  // Dies of one package share its sensor.
  const bool of_packages =
      figure.key == "power_w.mean" && std::ranges::any_of(run.devices, [](const run::Device& each) {
        return each.power_counted_on.has_value();
      });
  constexpr std::string_view of_gpu = " of a GPU";
  if (text.ends_with(of_gpu))
    text.replace(text.size() - 3, 3, of_packages ? "package" : device_word(run));
  return text;
}

/// What belongs to it; most need nothing.
std::string remark_of(std::string_view key, const run::Run& run, const Metrics& m) {
  const bool trains = !metrics::is_inference(run);
  if (key == "tokens_per_s") return with_unit(m.tokens_per_second_per_gpu, "a " + device_word(run));
  if (key == "mfu")
    return joined({after("of the peak in ", precision_text(run)),
                   trains ? after("HFU ", share_text(m.hfu)) : "",
                   with_unit(m.model_tflops_per_gpu, "model TFLOP/s a " + device_word(run))});
  if (key == "power_w.mean")
    return joined({after("peak ", with_unit(m.power_peak_w, "W by the sensor")),
                   with_unit(m.power_kernel_peak_w, "W in a kernel")}) +
           limit_beside_peak(run, m);
  if (key == "bursts.swing_w") return swing_text(m);
  if (key == "joules_per_token") return energy_text(m, trains);
  if (key == "temperature_c.mean")
    return joined(
        {after("peak ", with_unit(m.temperature_peak_c, "°C")), slots_text(m), cool_down_text(m)});
  if (key == "sm_clock_mhz.mean") return run.shutdown ? "" : throttle_text(m);
  return "";
}

}  // namespace

std::optional<WholeRun> whole_run_of(const run::Run& run) {
  const std::vector<metrics::FaultPhase> phases = metrics::fault_phases_of(run);
  if (phases.empty()) return std::nullopt;
  WholeRun whole{.span = phases.front().span};
  // What the running step has taken so far belongs to none of those that ended. Where a node was
  // lost and no step has ended since, what that takes belongs to all of them.
  Seconds counted = run.steps.back().end - Instant(), longest;
  double tokens = 0;
  for (const run::StepRecord& step : run.steps) {
    tokens += as_real(step.tokens);
    longest = std::max(longest, step.end - step.begin);
  }
  const bool loses_nodes = std::ranges::count(run.manifest.job->environment.faults,
                                              spec::FaultKind::node_lost, &spec::Fault::kind) > 0;
  if (loses_nodes && whole.span.end - counted > longest) counted = whole.span.end;
  if (whole.span.steps > 0) whole.time_per_step = counted / as_real(whole.span.steps);
  if (whole.span.energy_j && tokens > 0)
    whole.gpu_joules_per_token = *whole.span.energy_j * (counted / whole.span.end) / tokens;
  return whole;
}

std::string slots_text(const Metrics& m) {
  if (!m.hot_mean_c || !m.cool_mean_c || *m.hot_mean_c - *m.cool_mean_c < least_slot_gap_c)
    return "";
  return fmt::format("hot slots {}, cool slots {}", significant(m.hot_mean_c),
                     significant(m.cool_mean_c));
}

std::string throttle_text(const Metrics& m) {
  std::string text;
  for (const auto& [reason, share] : m.throttle)
    if (share > 0)
      text += fmt::format("{}{} by {}", text.empty() ? "throttled " : ", ", percent(share),
                          throttle_reason_text(reason));
  if (!metrics::throttled_share(m)) return "reasons for lower clocks not recorded";
  return text.empty() ? "not throttled" : text;
}

std::string interval_text(const metrics::Interval& interval) {
  return fmt::format("likely {}-{} (80 % interval)", significant(interval.low),
                     significant(interval.high));
}

std::optional<metrics::Interval> interval_of(const run::Run& run) {
  const auto &low = run.numbers.step_time_low_s, &high = run.numbers.step_time_high_s;
  return low && high ? std::optional(metrics::Interval{*low, *high}) : std::nullopt;
}

std::vector<KeyFigure> key_figures(const run::Run& run, const Metrics& m) {
  std::vector<KeyFigure> figures;
  if (auto whole = whole_run_figure(run, m.energy_scope)) figures.push_back(*std::move(whole));
  figures.push_back(step_figure(run, m, !figures.empty()));
  if (metrics::is_inference(run)) add_inference(figures, run, m);
  const RunResult result = result_of(run, m);
  for (const Headline& figure : headlines())
    if (const auto number = number_of(figure.key, result))
      figures.push_back({title_of(figure, run, m), text_of(quantity_of(figure.key), *number),
                         remark_of(figure.key, run, m)});
  std::erase_if(figures, [](const KeyFigure& figure) { return figure.value.empty(); });
  return figures;
}

std::string title_of(const run::Run& run) {
  if (!run.manifest.job) return run.manifest.name;
  const spec::Job& job = *run.manifest.job;
  const std::string variant = variant_label(job);
  return fmt::format("{}: {}{}, microbatch {}{}", group_label(job), configuration_label(job),
                     variant == "base" ? "" : " + " + variant, job.plan.micro_batch_size,
                     after(", ", precision_text(run)));
}

std::string likely_bill_text(const metrics::Bill& bill, double step_s,
                             const std::optional<metrics::Interval>& step_time) {
  if (!step_time || !(step_s > 0) || !std::isfinite(bill.total / unit::s)) return "";
  const double low = step_time->low / step_s, high = step_time->high / step_s;
  const double mwh = bill.energy / unit::MWh;
  return fmt::format(
      " Likely {} to {} and {}-{} MWh (80 % interval).", metrics::duration_text(low * bill.total),
      metrics::duration_text(high * bill.total), significant(low * mwh), significant(high * mwh));
}

RunVerdict run_verdict(const run::Run& run) {
  if (run.shutdown) return {run::shutdown_text(run), "", Style::bad};
  if (run.memory.empty()) return {};
  const std::size_t fullest = metrics::fullest_stage(run.memory);
  std::string text = fmt::format("the fullest {} (stage {}) needs {} GiB", device_word(run),
                                 fullest, significant(run.memory[fullest].total() / unit::GiB));
  if (run.memory_limit)
    text += fmt::format(" of {} GiB", significant(*run.memory_limit / unit::GiB));
  if (!run.manifest.fits_memory) return {"out of memory", ": " + text, Style::bad};
  return {"fits in memory", ": " + text, Style::good};
}

// ---- tables

DataTable memory_table(const run::Run& run) {
  DataTable table = text_table({{"stage"},
                                {"weights"},
                                {"gradients"},
                                {"optimizer"},
                                {"activations"},
                                {"logits", Align::right, 1},
                                {"buffers", Align::right, 1},
                                {"reserve", Align::right, 1},
                                {"total GiB"}});
  table.title = fmt::format("Memory of a {} (GiB)", device_word(run));
  for (std::size_t i = 0; i < run.memory.size(); ++i) {
    const run::MemoryUse& use = run.memory[i];
    std::vector<DataCell> cells = {std::to_string(i)};
    for (Bytes part : {use.weights, use.gradients, use.optimizer, use.activations, use.logits,
                       use.buffers, use.reserve})
      cells.emplace_back(significant(part / unit::GiB));
    const bool over = run.memory_limit && use.total() > *run.memory_limit;
    cells.emplace_back(significant(use.total() / unit::GiB), over ? Style::bad : Style::plain);
    table.add(std::move(cells));
  }
  return table;
}

DataTable stage_table(const run::Run& run, const Metrics& m) {
  // Classes of kernels that no stage runs go first where there is no room, power, heat and clock
  // last.
  std::vector<TextColumn> columns = {{"stage"}};
  const auto all = metrics::kernel_parts();
  std::vector<metrics::KernelPart> parts(all.begin(), all.end());
  // Waiting is a part of the others, and stands behind their sum.
  std::ranges::stable_partition(
      parts, [](const auto& part) { return part.key != std::string_view("waiting"); });
  for (const metrics::KernelPart& part : parts) {
    const std::string_view key = part.key;
    const bool always = key == "compute" || key == "total";
    const int optional = always ? 0 : part.of(m.kernels) > Seconds() ? 2 : 3;
    columns.push_back({key == "memory"    ? "memory"
                       : key == "waiting" ? "of it waiting"
                       : key == "total"   ? "total s"
                                          : part.label,
                       Align::right, optional});
  }
  for (const char* title : {"W", "°C", "MHz"})
    columns.push_back({title, Align::right, 1});
  DataTable table = text_table(std::move(columns));
  table.title = fmt::format(
      "Kernel seconds of a {} in one step; overlapping kernels count twice, waiting included",
      device_word(run));
  const auto add = [&](std::string name, const metrics::KernelSeconds& kernels,
                       std::initializer_list<std::string> rest) {
    std::vector<DataCell> cells = {std::move(name)};
    for (const metrics::KernelPart& part : parts)
      cells.emplace_back(significant(part.of(kernels) / unit::s));
    cells.insert(cells.end(), rest.begin(), rest.end());
    table.add(std::move(cells));
  };
  for (const metrics::Stage& stage : m.stages)
    add(std::to_string(stage.stage), stage.kernels,
        {significant(stage.power_mean_w), significant(stage.die_mean_c),
         significant(stage.sm_clock_mean_mhz, 4)});
  add("mean", m.kernels,
      {significant(m.power_mean_w), significant(m.temperature_mean_c),
       significant(m.sm_clock_mean_mhz, 4)});
  return table;
}

DataTable all_figures(const run::Run& run, const Metrics& m) {
  DataTable table = text_table({{"quantity", Align::left}, {"value"}, {"unit", Align::left}});
  const RunResult result = result_of(run, m);
  for (const QuantityGroup& group : quantity_groups())
    for (const Quantity& quantity : group.quantities) {
      if (quantity.type != Type::number || quantity.label.empty()) continue;
      const auto number = number_of(quantity.key.empty() ? quantity.name : quantity.key, result);
      if (!number) continue;
      const auto [unit_name, scale] = shown_unit(quantity);
      constexpr double rounding = 1e-12;  // what differences of times leave of nothing
      const double shown = std::abs(*number) < rounding ? 0 : *number / scale;
      table.add({std::string(quantity.label), significant(shown, digits_of_lists),
                 std::string(unit_name)});
    }
  return table;
}

}  // namespace triplepoint::answers
