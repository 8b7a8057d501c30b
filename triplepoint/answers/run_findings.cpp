// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/run_findings.h"

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
#include "triplepoint/metrics/run/power_profile.h"

namespace triplepoint::answers {
namespace {

using metrics::Metrics;
struct Findings {
  std::vector<Remark> all = {};
  void add(std::string text, std::string shown_by) {
    all.push_back({std::move(text), Remark::Kind::finding, std::move(shown_by)});
  }
};

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
  return whole_run_of(run) ? "the last step" : "a step";
}

/// " in the last step", where a run has others.
const char* in_step(const run::Run& run) {
  return whole_run_of(run) ? " in the last step" : "";
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
    findings.add(fmt::format("{} takes {} s. The kernels recorded compute for {} of it, "
                             "less than an MFU of {} needs: others were not recorded.",
                             capitalized(step_of(run)), significant(*m.step_time / unit::s),
                             percent(computing), percent(*m.mfu)),
                 m.stages.empty() ? "time-went" : "kernels");
    return;
  }
  std::string text = fmt::format("{} takes {} s: {}.", capitalized(step_of(run)),
                                 significant(*m.step_time / unit::s), fmt::join(words, ", "));
  findings.add(std::move(text), m.stages.empty() ? "time-went" : "kernels");
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
    findings.add(fmt::format("All GPUs are equally warm{}: {} °C on average, within 1 °C.",
                             in_step(run), significant(*hottest)),
                 "map-temperature");
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
  if (const auto whole = whole_run_of(run))
    text += fmt::format("; the hottest die of the whole run was at {} °C",
                        significant(whole->span.peak_c));
  const bool has_picture = run.manifest.job && !run.manifest.job->chassis().slots.empty() &&
                           all.size() == run.devices.size();
  findings.add(text + ".", has_picture ? "chassis" : "map-temperature");
}

/// "GPUs are throttled 12 % of the time by heat"; where a few GPUs have nearly all of it, their
/// names: a mean over all would hide them.
std::string throttled_text(const run::Run& run, const Metrics& m, const std::string& reason,
                           double mean) {
  const std::string by(throttle_reason_text(reason));
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
  findings.add(text + ".", "timeline-figure");
}

/// Who slows the others, and what to do about it.
void add_bottlenecks(Findings& findings, const run::Run& run, const Metrics& m) {
  for (const run::Bottleneck& bottleneck : m.bottlenecks)
    findings.add(metrics::bottleneck_sentence(bottleneck, m.step_time, run::device_numbers(run)) +
                     " " + metrics::bottleneck_advice(bottleneck),
                 "bottlenecks");
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
  findings.add(fmt::format("Stage {} computes longest: {} s a step, a stage on average {} s.",
                           longest->stage, significant(longest->kernels.compute / unit::s),
                           significant(mean / unit::s)),
               "kernels");
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
  findings.add(text + ".", "energy-ledger");
}

/// What each fault of a simulated run did to its steps, with the hottest die at its end; of a
/// steady state all of them together.
void add_faults(Findings& findings, const run::Run& run, const run::Run* fault_free) {
  const std::string shutdown = run.shutdown ? run::shutdown_text(run) + "." : "";
  if (run.shutdown) findings.add(shutdown, "time");
  if (!run.manifest.job || run.manifest.job->environment.faults.empty()) return;
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  const auto add = [&](const std::vector<spec::Fault>& some, const metrics::FaultEffect& effect) {
    std::string text = fault_sentence(run, some, effect, fault_free != nullptr);
    if (text == shutdown) return;
    if (effect.during && effect.during->hottest_c && metrics::slowdown(effect) && !fault_free)
      text += fmt::format(" The hottest die was at {} °C at its end.",
                          significant(effect.during->hottest_c));
    findings.add(fmt::format("Fault {}: {}", metrics::names_of(some), text), "time");
  };
  if (fault_free && run::has_trained(*fault_free))
    add(faults, metrics::steady_effect(*fault_free, run));
  const auto effects =
      whole_run_of(run) ? metrics::fault_effects(run) : std::vector<metrics::FaultEffect>();
  for (std::size_t f = 0; f < effects.size(); ++f)
    add({faults[f]}, effects[f]);
}

/// "GPU 3 draws 157 W on average, above its limit of 105 W: ..." of the GPU farthest above the
/// limit that its lowest clock cannot keep.
void add_limit_not_kept(Findings& findings, const run::Run& run, const Metrics& m) {
  if (!run.manifest.job || !run.manifest.job->cluster.gpu.governor) return;
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
  if (count == 0) return;
  findings.add(
      fmt::format("GPU {} draws {} W on average, above its limit of {} W: its clock is at "
                  "{} MHz and goes no lower than {}{}.",
                  worst, significant(m.power_per_gpu_w[worst]),
                  significant(metrics::power_limit_w(run, worst)),
                  significant(m.sm_clock_per_gpu_mhz[worst], 4), significant(lowest_mhz, 4),
                  count > 1 ? fmt::format("; so do {} more", count - 1) : std::string()),
      "timeline-figure");
}

/// All nodes together, where they swing by more than a tenth of their peak.
void add_swing(Findings& findings, const run::Run& run) {
  const auto profile = metrics::power_profile(run);
  if (!profile) return;
  const metrics::PowerLevel& site = profile->levels.back();
  const double share = site.highest > Watts() ? site.swing() / site.highest : 0;
  if (share < 0.1) return;
  const Seconds step = as_real(profile->site_w.size()) * profile->bin;
  const Joules least = std::max(1 * unit::kJ, 0.01 * (site.mean * step));  // less is not worth it
  if (profile->smoothing.storage < least) return;
  findings.add(
      fmt::format("The power of all nodes falls from {} to {} kW, by {}, within a "
                  "step; storage of {} kJ would flatten it.",
                  significant(site.highest / unit::kW), significant(site.lowest / unit::kW),
                  percent(share), significant(profile->smoothing.storage / unit::kJ)),
      "power-swing");
}

double upstream(const spec::Chassis& chassis, std::size_t slot, std::size_t other) {
  const std::vector<double>& from = chassis.slots[slot].upstream_heating;
  return other < from.size() && other != slot ? from[other] : 0;
}

}  // namespace

bool lies_behind(const spec::Chassis& chassis, std::size_t slot, std::size_t other) {
  return upstream(chassis, slot, other) > upstream(chassis, other, slot);
}

int32_t highest_depth(const std::vector<int32_t>& depth) {
  return depth.empty() ? 0 : *std::ranges::max_element(depth);
}

std::vector<int32_t> slot_depths(const spec::Chassis& chassis) {
  std::vector<int32_t> depth(chassis.slots.size(), 0);
  for (std::size_t round = 0; round < depth.size(); ++round)  // a chain is not longer than slots
    for (std::size_t slot = 0; slot < depth.size(); ++slot)
      for (std::size_t other = 0; other < depth.size(); ++other)
        if (lies_behind(chassis, slot, other))
          depth[slot] = std::min(std::max(depth[slot], depth[other] + 1),
                                 static_cast<int32_t>(depth.size()) - 1);
  return depth;
}

std::optional<DepthGap> depth_gap(const run::Run& run, const metrics::Metrics& metrics) {
  if (!run.manifest.job) return std::nullopt;
  const std::vector<int32_t> depth = slot_depths(run.manifest.job->chassis());
  const int32_t deepest = highest_depth(depth);
  if (deepest == 0) return std::nullopt;
  double sums[2] = {0, 0};
  int64_t counts[2] = {0, 0};
  for (std::size_t i = 0; i < run.devices.size() && i < metrics.temperature_per_gpu_c.size(); ++i) {
    const int32_t slot = run.devices[i].slot;
    if (slot < 0 || as_size(slot) >= depth.size()) continue;
    const int32_t at = depth[as_size(slot)];
    if ((at != 0 && at != deepest) || !std::isfinite(metrics.temperature_per_gpu_c[i])) continue;
    sums[at == 0 ? 0 : 1] += metrics.temperature_per_gpu_c[i];
    ++counts[at == 0 ? 0 : 1];
  }
  if (counts[0] == 0 || counts[1] == 0) return std::nullopt;
  return DepthGap{sums[0] / as_real(counts[0]), sums[1] / as_real(counts[1])};
}

std::vector<Remark> run_findings(const run::Run& run, const Metrics& metrics,
                                 const run::Run* fault_free) {
  Findings findings;
  if (!run::has_trained(run)) return {};
  add_bottlenecks(findings, run, metrics);
  add_faults(findings, run, fault_free);
  add_time(findings, run, metrics);
  add_uneven_stages(findings, metrics);
  add_clock(findings, run, metrics);
  add_limit_not_kept(findings, run, metrics);
  add_heat(findings, run, metrics);
  add_energy(findings, run, metrics);
  add_swing(findings, run);
  return std::move(findings.all);
}

}  // namespace triplepoint::answers
