// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/run_findings.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/text.h"

#include "triplepoint/run/run.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/metrics/run/bursts.h"
#include "triplepoint/metrics/run/fault_effects.h"
#include "triplepoint/report/charts/chassis_picture.h"

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
  if (m.kernels.memory > Seconds())
    shares.push_back({m.kernels.memory / unit::s / step, "norms, elementwise and optimizer"});
  if (m.parts) {
    const auto add = [&](Seconds time, const char* what) {
      shares.push_back({time / unit::s / step, what});
    };
    add(m.parts->exposed_communication, "communication that nothing hides");
    add(m.parts->waiting, "waiting for late peers");
    add(m.parts->bubble, "the pipeline's bubble");
    add(m.parts->gaps, m.bubble_fraction ? "gaps between kernels" : "without a kernel");
  }
  std::stable_sort(shares.begin(), shares.end(),
                   [](const Share& a, const Share& b) { return a.share > b.share; });
  return shares;
}

void add_time(Findings& findings, const Metrics& m) {
  if (!m.step_time || m.kernels.total() <= Seconds()) return;
  std::vector<std::string> words;
  for (const Share& share : shares_of(m))
    if (share.share >= 0.005)
      words.push_back(fmt::format("{} {}", percent(share.share), share.what));
  if (words.empty()) return;
  // The products of a step cannot take less time than they would at peak speed.
  const double computing = m.kernels.compute / *m.step_time;
  if (m.mfu && *m.mfu > computing + 0.01) {
    findings.push_back(
        {fmt::format("A step takes {} s. The kernels recorded compute for {} of it, "
                     "less than an MFU of {} needs: others were not recorded.",
                     significant(*m.step_time / unit::s), percent(computing), percent(*m.mfu)),
         m.stages.empty() ? "time-went" : "kernels"});
    return;
  }
  std::string text = fmt::format("A step takes {} s: {}.", significant(*m.step_time / unit::s),
                                 fmt::join(words, ", "));
  findings.push_back({std::move(text), m.stages.empty() ? "time-went" : "kernels"});
}

void add_heat(Findings& findings, const run::Run& run, const Metrics& m) {
  const auto& all = m.temperature_per_gpu_c;
  if (all.size() < 2) return;  // of a single GPU, the key figure says it
  const auto hottest = std::max_element(all.begin(), all.end(), [](double a, double b) {
    return (std::isnan(a) ? -1e9 : a) < (std::isnan(b) ? -1e9 : b);
  });
  if (hottest == all.end() || std::isnan(*hottest)) return;
  const auto index = static_cast<std::size_t>(hottest - all.begin());
  std::string text =
      fmt::format("The hottest GPU is {} at {} °C on average", index, significant(*hottest));
  if (index < run.devices.size())
    text += fmt::format(" (node {}, slot {})", run.devices[index].node, run.devices[index].slot);
  if (const auto gap = depth_gap(run, m); gap && gap->rear_c > gap->front_c)
    text += fmt::format("; downstream slots run {} °C hotter than those at the inlet",
                        significant(gap->rear_c - gap->front_c));
  const bool has_picture = !chassis_figure(run, m).drawing.empty();
  findings.push_back({text + ".", has_picture ? "chassis" : "map-temperature"});
}

void add_clock(Findings& findings, const Metrics& m) {
  const auto worst =
      std::max_element(m.throttle.begin(), m.throttle.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (worst == m.throttle.end() || worst->second < 0.005) return;
  std::string text = fmt::format("GPUs are throttled {} of the time by {}", percent(worst->second),
                                 answers::throttle_reason_text(worst->first));
  const double power = m.clock_lost_to_power_mhz.value_or(0);
  const double heat = m.clock_lost_to_temperature_mhz.value_or(0);
  constexpr double worth_telling = 1;  // MHz
  const bool by_power = power >= worth_telling, by_heat = heat >= worth_telling;
  if (by_power) text += fmt::format("; the power limit costs {} MHz", significant(power));
  if (by_heat) text += fmt::format("{} heat {} MHz more", by_power ? "," : ";", significant(heat));
  findings.push_back({text + ".", "timeline-figure"});
}

/// The power limit of a device, with faults that last for the whole run.
double power_limit_w(const spec::Job& job, std::size_t device) {
  const std::vector<Watts>& own = job.environment.device_power_limits;
  double limit = (device < own.size() ? own[device] : job.power_limit()) / unit::W;
  for (const spec::Fault& fault : job.environment.faults) {
    const auto index = static_cast<int64_t>(device);
    const bool hit = fault.gpu ? *fault.gpu == index
                               : fault.node.value_or(-1) == index / job.cluster.gpus_per_node;
    if (fault.kind == spec::FaultKind::power && hit && !(fault.begin > Seconds()) && !fault.end)
      limit *= fault.share;
  }
  return limit;
}

/// Who holds the others up, and what to do about it.
void add_pace(Findings& findings, const Metrics& m) {
  if (!m.step_time) return;
  for (const run::PaceSetter& setter : m.pace_setters)
    findings.push_back({pace_sentence(setter, *m.step_time) + " " + pace_advice(setter), "pace"});
}

void add_straggler(Findings& findings, const Metrics& m) {
  // Ranks wait for their stage's slowest member; where that is known, its row says nothing more.
  if (m.stragglers.empty() || !m.pace_setters.empty()) return;
  const metrics::Straggler& worst = m.stragglers.front();
  if (worst.share_of_waits < 0.01) return;
  std::string text = fmt::format("Most waiting is for rank {}", worst.rank);
  if (worst.stage >= 0) text += fmt::format(" (stage {})", worst.stage);
  text += fmt::format(": {} of all waiting", percent(worst.share_of_waits));
  if (!worst.cause.empty() && worst.cause != "unknown") text += "; " + worst.cause;
  findings.push_back({text + ".", "stragglers"});
}

void add_energy(Findings& findings, const Metrics& m) {
  if (m.energy_ledger_j.empty()) return;
  double sum = 0;
  for (const auto& [use, joules] : m.energy_ledger_j)
    sum += joules;
  if (sum <= 0) return;
  std::vector<std::pair<double, std::string>> uses;
  uses.reserve(m.energy_ledger_j.size());
  for (const auto& [use, joules] : m.energy_ledger_j)
    uses.emplace_back(joules / sum, use);
  std::stable_sort(uses.begin(), uses.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  uses.resize(std::min<std::size_t>(3, uses.size()));
  std::vector<std::string> words;
  words.reserve(uses.size());
  for (const auto& [share, use] : uses)
    words.push_back(use == "idle" ? fmt::format("{} is base power", percent(share))
                                  : fmt::format("{} goes into {}", percent(share), use));
  std::string text = fmt::format("Of the energy of a step, {}", fmt::join(words, ", "));
  if (m.joules_per_token)
    text += fmt::format("; a token costs {} J", significant(*m.joules_per_token));
  findings.push_back({text + ".", "energy-ledger"});
}

std::string name_of_place(const spec::Fault& fault) {
  if (fault.gpu) return fmt::format(" of GPU {}", *fault.gpu);
  if (fault.node) return fmt::format(" of node {}", *fault.node);
  return "";
}

std::string_view name_of_fault(spec::FaultKind kind) {
  switch (kind) {
    case spec::FaultKind::power:
      return "the power brake";
    case spec::FaultKind::fan:
      return "the failing fans";
    case spec::FaultKind::inlet:
      return "the warm inlet";
    case spec::FaultKind::heat_path:
      return "the loose heat sink";
    case spec::FaultKind::link:
      return "the slow links";
    case spec::FaultKind::host:
      return "the busy host";
    case spec::FaultKind::node_lost:
      return "the loss";
  }
  return "the fault";
}

/// What each fault of a simulated run did to its steps; of the hottest die where it did nothing.
void add_faults(Findings& findings, const run::Run& run) {
  if (!run.manifest.job || run.manifest.job->environment.faults.empty()) return;
  const std::vector<metrics::FaultEffect> effects = metrics::fault_effects(run);
  for (std::size_t f = 0; f < effects.size(); ++f) {
    const spec::Fault& fault = run.manifest.job->environment.faults[f];
    const metrics::FaultEffect& effect = effects[f];
    const std::optional<double> longer = metrics::slowdown(effect);
    if (!longer || !effect.during) continue;
    std::string text = fmt::format("While {}{} lasted, steps took {} {}", name_of_fault(fault.kind),
                                   name_of_place(fault), percent(std::abs(*longer)),
                                   *longer >= 0 ? "longer" : "less");
    if (effect.waited_for)
      text += fmt::format(": all others waited for GPU {}, at {} MHz", *effect.waited_for,
                          significant(effect.during->slowest_mhz, 4));
    text += fmt::format("; the hottest die was at {} °C at the end.",
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
    const double over = m.power_per_gpu_w[i] / power_limit_w(job, i);
    if (!(over > clearly_above) || m.sm_clock_per_gpu_mhz[i] > near_lowest * lowest_mhz) continue;
    ++count;
    if (over > most) most = over, worst = i;
  }
  if (count == 0) return "";
  return fmt::format(
      "GPU {} draws {} W on average, above its limit of {} W: its clock is at {} MHz and goes no "
      "lower than {}{}.",
      worst, significant(m.power_per_gpu_w[worst]), significant(power_limit_w(job, worst)),
      significant(m.sm_clock_per_gpu_mhz[worst], 4), significant(lowest_mhz, 4),
      count > 1 ? fmt::format("; so do {} more", count - 1) : std::string());
}

std::vector<RunFinding> run_findings(const run::Run& run, const Metrics& metrics) {
  Findings findings;
  if (!run::has_trained(run)) return findings;
  add_pace(findings, metrics);
  add_straggler(findings, metrics);
  add_faults(findings, run);
  add_time(findings, metrics);
  add_clock(findings, metrics);
  if (std::string text = limit_not_kept(run, metrics); !text.empty())
    findings.push_back({std::move(text), "timeline-figure"});
  add_heat(findings, run, metrics);
  add_energy(findings, metrics);
  return findings;
}

namespace {

using run::PaceSetter;
using By = PaceSetter::By;

constexpr std::size_t most_listed = 4;

/// "GPU 3", "nodes 1 and 4", "GPUs 0, 1, 2, 3 and 4 more".
std::string names_of(const PaceSetter& setter) {
  std::string text = setter.of_nodes ? "node" : "GPU";
  if (setter.who.size() > 1) text += "s";
  const std::size_t shown = std::min(most_listed, setter.who.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == setter.who.size();
    text += fmt::format("{} {}", i == 0 ? "" : is_last ? " and" : ",", setter.who[i]);
  }
  if (shown < setter.who.size()) text += fmt::format(" and {} more", setter.who.size() - shown);
  return text;
}

std::string capitalized(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z')
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  return text;
}

const char* limit_words(const std::string& limit) {
  if (limit == "power_limit") return "power limit";
  if (limit == "clock_lock") return "locked clock";
  if (limit == "board") return "its board needs more power than others";
  return limit == "heat" ? "heat" : "";
}

std::string cause(const PaceSetter& setter) {
  std::string text = limit_words(setter.limit);
  if (!setter.detail.empty()) text += (text.empty() ? "" : ", ") + setter.detail;
  return text.empty() ? "" : " (" + text + ")";
}

std::string comparison(const PaceSetter& setter) {
  const std::string verb = setter.who.size() > 1 ? "slow" : "slows";
  switch (setter.by) {
    case By::clock:
      return fmt::format("{} {} the others: {} MHz against {} MHz{}", capitalized(names_of(setter)),
                         verb, significant(setter.value, 4), significant(setter.peers, 4),
                         cause(setter));
    case By::scale_up:
      return fmt::format("The links of {} slow the others: {} of their bandwidth against {}",
                         names_of(setter), percent(setter.value), percent(setter.peers));
    case By::scale_out:
      return fmt::format("The network of {} slows the others: {} of its bandwidth against {}",
                         names_of(setter), percent(setter.value), percent(setter.peers));
    case By::host:
      return fmt::format(
          "The host of {} slows the others: it takes {} times as long to launch a kernel as a "
          "mean host, others {}",
          names_of(setter), significant(setter.value), significant(setter.peers));
  }
  return "";
}

}  // namespace

std::string pace_sentence(const PaceSetter& setter, Seconds step_time) {
  const double longer = setter.cost / std::max(step_time - setter.cost, 1e-9 * step_time);
  return fmt::format("{}; the step takes {}{} longer, {} s, than at the median of the peers.",
                     comparison(setter), setter.at_most ? "at most " : "", percent(longer),
                     significant(setter.cost / unit::s));
}

std::string pace_advice(const PaceSetter& setter) {
  const bool many = setter.who.size() > 1;
  const char* const its = many ? "their" : "its";
  const char* const it = many ? "them" : "it";
  if (setter.by == By::scale_up)
    return fmt::format("Check {} links (nvidia-smi nvlink -s), or leave {} out.", its,
                       many ? "these GPUs" : "the GPU");
  if (setter.by == By::scale_out) return "Check the NICs, cables and switch ports of that node.";
  if (setter.by == By::host)
    return "Look for other processes, the CPU's clock and the binding of ranks to cores.";
  if (setter.limit == "power_limit")
    return fmt::format(
        "Give {} the power limit of {} peers (nvidia-smi -pl), or end the power brake.", it, its);
  if (setter.limit == "clock_lock") return "Release the lock (nvidia-smi -rgc).";
  if (setter.limit == "heat")
    return fmt::format("Check {} air or coolant, {} and paste, or give {} less work.", its,
                       many ? "heat sinks" : "heat sink", it);
  if (setter.limit == "board")
    return fmt::format("Give {} less work (triplepoint place), or exchange the {}.", it,
                       many ? "boards" : "board");
  return fmt::format(
      "Compare {0} clock event reasons, power limit and temperature with {0} peers'.", its);
}

}  // namespace triplepoint::report
