// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/run_findings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "triplepoint/base/text.h"

#include "triplepoint/run/device_number.h"
#include "triplepoint/spec/fault.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/answers/run_figures.h"
#include "triplepoint/metrics/run/bottleneck_text.h"
#include "triplepoint/metrics/run/bursts.h"
#include "triplepoint/metrics/run/device_evidence.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/report/charts/chassis_picture.h"
#include "triplepoint/report/charts/measures.h"

namespace triplepoint::report {
namespace {

using metrics::Metrics;
using Findings = std::vector<RunFinding>;

struct Share {
  double share;
  std::string what;
};

/// Computing, what communication adds to it, and waiting, largest first. What is not computing is
/// disjoint (metrics::StepParts).
std::vector<Share> shares_of(const Metrics& m) {
  const double step = *m.step_time / unit::s;
  std::vector<Share> shares = {
      {m.kernels.compute / unit::s / step, "is matrix products and attention"}};
  const Seconds copying = m.parts ? m.parts->copying : Seconds();
  if (m.kernels.memory > copying)
    shares.push_back(
        {(m.kernels.memory - copying) / unit::s / step, "norms, elementwise and optimizer"});
  if (m.parts) {
    const auto add = [&](Seconds time, const char* what) {
      shares.push_back({time / unit::s / step, what});
    };
    add(m.parts->exposed_communication, "communication that nothing hides");
    add(copying, "copies that nothing hides");
    add(m.parts->waiting, "waiting for late peers");
    add(m.parts->bubble, "the pipeline's bubble");
    add(m.parts->gaps, m.bubble_fraction ? "gaps between kernels" : "without a kernel");
  }
  std::ranges::stable_sort(shares, std::greater(), &Share::share);
  return shares;
}

/// What the numbers of a run are of: a run over time has other steps, its faults' among them.
const char* step_of(const run::Run& run) {
  return answers::whole_run_of(run) ? "the last step" : "a step";
}

/// " in the last step", where a run has others.
const char* in_step(const run::Run& run) {
  return answers::whole_run_of(run) ? " in the last step" : "";
}

void add_time(Findings& findings, const run::Run& run, const Metrics& m) {
  if (!m.step_time || m.kernels.total() <= Seconds()) return;
  std::vector<std::string> words;
  for (const Share& share : shares_of(m))
    if (share.share >= 0.005)
      words.push_back(fmt::format("{} {}", percent(share.share), share.what));
  if (words.empty()) return;
  // The products of a step cannot take less time than they would at peak speed.
  const double computing = m.kernels.compute / *m.step_time;
  if (m.mfu && *m.mfu > computing + 0.01) {
    findings.push_back({fmt::format("{} takes {} s. The kernels recorded compute for {} of it, "
                                    "less than an MFU of {} needs: others were not recorded.",
                                    capitalized(step_of(run)), significant(*m.step_time / unit::s),
                                    percent(computing), percent(*m.mfu)),
                        m.stages.empty() ? "time-went" : "kernels"});
    return;
  }
  std::string text = fmt::format("{} takes {} s: {}.", capitalized(step_of(run)),
                                 significant(*m.step_time / unit::s), fmt::join(words, ", "));
  findings.push_back({std::move(text), m.stages.empty() ? "time-went" : "kernels"});
}

void add_heat(Findings& findings, const run::Run& run, const Metrics& m) {
  const auto& all = m.temperature_per_gpu_c;
  if (all.size() < 2) return;  // of a single GPU, the key figure says it
  const auto hottest = std::ranges::max_element(all, [](double a, double b) {
    return (std::isnan(a) ? -1e9 : a) < (std::isnan(b) ? -1e9 : b);
  });
  if (hottest == all.end() || std::isnan(*hottest)) return;
  double coolest = *hottest;
  for (const double celsius : all)
    if (!std::isnan(celsius)) coolest = std::min(coolest, celsius);
  constexpr double sensor_step = 1;  // °C; of two GPUs within it none is the hottest
  if (*hottest - coolest < sensor_step) {
    findings.push_back({fmt::format("All GPUs are equally warm{}: {} °C on average, within 1 °C.",
                                    in_step(run), significant(*hottest)),
                        "map-temperature"});
    return;
  }
  const auto index = as_size(hottest - all.begin());
  std::string text = fmt::format("The hottest GPU{} is {} at {} °C on average", in_step(run),
                                 run::device_number(run, index), significant(*hottest));
  // Recordings know no slots.
  if (index < run.devices.size() && run.manifest.origin == run::Origin::simulated)
    text += fmt::format(" (node {}, slot {})", run.devices[index].node, run.devices[index].slot);
  if (const auto gap = depth_gap(run, m); gap && gap->rear_c > gap->front_c)
    text += fmt::format("; downstream slots run {} °C hotter than those at the inlet",
                        significant(gap->rear_c - gap->front_c));
  if (const auto whole = answers::whole_run_of(run))
    text += fmt::format("; the hottest die of the whole run was at {} °C",
                        significant(whole->span.peak_c));
  const bool has_picture = !chassis_figure(run, m).markup.empty();
  findings.push_back({text + ".", has_picture ? "chassis" : "map-temperature"});
}

/// "GPUs are throttled 12 % of the time by heat"; where a few GPUs have nearly all of it, their
/// names: a mean over all would hide them.
std::string throttled_text(const run::Run& run, const Metrics& m, const std::string& reason,
                           double mean) {
  const std::string by(answers::throttle_reason_text(reason));
  const auto found = m.throttle_per_gpu.find(reason);
  std::vector<std::size_t> held;
  std::size_t known = 0;
  double held_sum = 0, rest = 0;
  if (found != m.throttle_per_gpu.end() && !found->second.empty()) {
    const auto& shares = found->second;
    double most = 0;
    for (const double share : shares)
      most = std::isnan(share) ? most : std::max(most, share);
    for (std::size_t i = 0; i < shares.size(); ++i) {
      if (std::isnan(shares[i])) continue;
      ++known;
      if (2 * shares[i] > most) held.push_back(i);
      (2 * shares[i] > most ? held_sum : rest) += shares[i];
    }
  }
  const bool is_of_few = !held.empty() && 4 * held.size() <= std::max<std::size_t>(known, 4) &&
                         held.size() < known && 4 * rest < held_sum;
  if (!is_of_few) return fmt::format("GPUs are throttled {} of the time by {}", percent(mean), by);
  const bool one = held.size() == 1;
  std::vector<std::string> names =
      mapped(held, [&](const std::size_t gpu) { return run::device_number(run, gpu); });
  const double others = rest / as_real(known - held.size());
  return fmt::format(
      "GPU{} {} {} throttled {} of the time by {}, {}", one ? "" : "s", fmt::join(names, ", "),
      one ? "is" : "are", percent(held_sum / as_real(held.size())), by,
      others < 0.0005 ? "no other is" : fmt::format("the others {}", percent(others)));
}

void add_clock(Findings& findings, const run::Run& run, const Metrics& m) {
  const auto worst = std::ranges::max_element(
      m.throttle, [](const auto& a, const auto& b) { return a.second < b.second; });
  if (worst == m.throttle.end() || worst->second < 0.005) return;
  std::string text = throttled_text(run, m, worst->first, worst->second) + in_step(run);
  const double power = m.clock_lost_to_power_mhz.value_or(0);
  const double heat = m.clock_lost_to_temperature_mhz.value_or(0);
  constexpr double worth_telling = 1;  // MHz
  const bool by_power = power >= worth_telling, by_heat = heat >= worth_telling;
  if (by_power) text += fmt::format("; the power limit costs {} MHz", significant(power));
  if (by_heat) text += fmt::format("{} heat {} MHz more", by_power ? "," : ";", significant(heat));
  findings.push_back({text + ".", "timeline-figure"});
}

/// Who slows the others, and what to do about it.
void add_bottlenecks(Findings& findings, const run::Run& run, const Metrics& m) {
  for (const run::Bottleneck& bottleneck : m.bottlenecks)
    findings.push_back(
        {metrics::bottleneck_sentence(bottleneck, m.step_time, run::device_numbers(run)) + " " +
             metrics::bottleneck_advice(bottleneck),
         "bottlenecks"});
}

/// A pipeline waits for the stage that computes longest.
void add_uneven_stages(Findings& findings, const Metrics& m) {
  constexpr double least_difference = 0.02;  // of the step
  if (m.stages.size() < 2 || !m.step_time || !m.bottlenecks.empty()) return;
  Seconds mean;
  const metrics::Stage* longest = &m.stages.front();
  for (const metrics::Stage& stage : m.stages) {
    mean += stage.kernels.compute / as_real(m.stages.size());
    if (stage.kernels.compute > longest->kernels.compute) longest = &stage;
  }
  if (longest->kernels.compute - mean < least_difference * *m.step_time) return;
  findings.push_back(
      {fmt::format("Stage {} computes longest: {} s a step, a stage on average {} s.",
                   longest->stage, significant(longest->kernels.compute / unit::s),
                   significant(mean / unit::s)),
       "kernels"});
}

void add_energy(Findings& findings, const run::Run& run, const Metrics& m) {
  if (m.energy_ledger_j.empty()) return;
  const double sum = sum_of(m.energy_ledger_j, [](const auto& use) { return use.second; });
  if (sum <= 0) return;
  auto uses = mapped(m.energy_ledger_j,
                     [&](const auto& use) { return std::pair(use.second / sum, use.first); });
  std::ranges::stable_sort(uses, [](const auto& a, const auto& b) { return a.first > b.first; });
  uses.resize(std::min<std::size_t>(3, uses.size()));
  const std::vector<std::string> words = mapped(uses, [](const auto& one) {
    const auto& [share, use] = one;
    return percent(share) + (use == "idle" ? " is base power" : " goes into " + use);
  });
  std::string text =
      fmt::format("Of the GPU energy of {}, {}", step_of(run), fmt::join(words, ", "));
  if (m.joules_per_token)
    text += fmt::format("; a token costs {} J {}", significant(*m.joules_per_token),
                        metrics::scope_text(m.energy_scope));
  findings.push_back({text + ".", "energy-ledger"});
}

/// What each fault of a simulated run did to its steps; of the hottest die where it did nothing.
void add_faults(Findings& findings, const run::Run& run) {
  if (run.shutdown) findings.push_back({run::shutdown_text(run) + ".", "time"});
  if (!run.manifest.job || run.manifest.job->environment.faults.empty()) return;
  const std::vector<metrics::FaultEffect> effects = metrics::fault_effects(run);
  for (std::size_t f = 0; f < effects.size(); ++f) {
    const spec::Fault& fault = run.manifest.job->environment.faults[f];
    const metrics::FaultEffect& effect = effects[f];
    const std::optional<double> longer = metrics::slowdown(effect);
    if (!longer || !effect.during || (std::abs(*longer) < 0.0005 && run.shutdown)) continue;
    std::string text = fmt::format("Fault {}: {}", spec::to_text(fault),
                                   answers::fault_sentence(run, {fault}, effect, false));
    if (effect.during->hottest_c)
      text += fmt::format(" The hottest die was at {} °C at its end.",
                          significant(effect.during->hottest_c));
    findings.push_back({std::move(text), "time"});
  }
}

}  // namespace

std::string limit_not_kept(const run::Run& run, const Metrics& m) {
  if (!run.manifest.job || !run.manifest.job->cluster.gpu.governor) return "";
  constexpr double clearly_above = 1.02, near_lowest = 1.1;
  const spec::Job& job = *run.manifest.job;
  const double lowest_mhz = job.cluster.gpu.governor->min_clock / unit::MHz;
  std::size_t count = 0, worst = 0;
  double most = 0;
  for (std::size_t i = 0; i < std::min(m.power_per_gpu_w.size(), m.sm_clock_per_gpu_mhz.size());
       ++i) {
    const double over = m.power_per_gpu_w[i] / metrics::power_limit_w(run, i).value_or(0);
    if (!(over > clearly_above) || m.sm_clock_per_gpu_mhz[i] > near_lowest * lowest_mhz) continue;
    ++count;
    if (over > most) most = over, worst = i;
  }
  if (count == 0) return "";
  return fmt::format(
      "GPU {} draws {} W on average, above its limit of {} W: its clock is at {} MHz and goes no "
      "lower than {}{}.",
      worst, significant(m.power_per_gpu_w[worst]), significant(metrics::power_limit_w(run, worst)),
      significant(m.sm_clock_per_gpu_mhz[worst], 4), significant(lowest_mhz, 4),
      count > 1 ? fmt::format("; so do {} more", count - 1) : std::string());
}

std::vector<RunFinding> run_findings(const run::Run& run, const Metrics& metrics) {
  Findings findings;
  if (!run::has_trained(run)) return findings;
  add_bottlenecks(findings, run, metrics);
  add_faults(findings, run);
  add_time(findings, run, metrics);
  add_uneven_stages(findings, metrics);
  add_clock(findings, run, metrics);
  if (std::string text = limit_not_kept(run, metrics); !text.empty())
    findings.push_back({std::move(text), "timeline-figure"});
  add_heat(findings, run, metrics);
  add_energy(findings, run, metrics);
  return findings;
}

}  // namespace triplepoint::report
