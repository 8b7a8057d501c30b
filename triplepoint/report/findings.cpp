// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"
#include "triplepoint/report/labels.h"
#include "triplepoint/report/number_text.h"

namespace triplepoint::report {
namespace {

using Rows = std::vector<const StudyRow*>;

double tokens_per_second(const StudyRow& row) {
  return row.metrics->tokens_per_second.value_or(0);
}
double joules_per_token(const StudyRow& row) {
  return row.metrics->joules_per_token.value_or(INFINITY);
}
double clock_share_lost(const StudyRow& row) {
  double lost = 0;
  for (const auto& [reason, share] : row.metrics->throttle)
    lost = std::max(lost, share);
  return lost;
}

template <class Value>
const StudyRow* largest(const Rows& rows, const Value& value) {
  const StudyRow* best = nullptr;
  for (const StudyRow* row : rows)
    if (best == nullptr || value(*row) > value(*best)) best = row;
  return best;
}

Rows all_that_ran(const std::vector<Group>& groups) {
  Rows all;
  for (const Group& group : groups) {
    const Rows ran = group.that_ran();
    all.insert(all.end(), ran.begin(), ran.end());
  }
  return all;
}

std::string of_group(const StudyRow& row) {
  return group_label(row.job) + ", " + full_label(row);
}

/// The group in which the choice of layout matters most: fastest over slowest.
std::optional<Finding> about_speed(const std::vector<Group>& groups) {
  const StudyRow *fastest = nullptr, *slowest = nullptr;
  const Group* group = nullptr;
  for (const Group& candidate : groups) {
    const Rows ran = candidate.that_ran();
    const StudyRow* high = largest(ran, tokens_per_second);
    const StudyRow* low = largest(ran, [](const StudyRow& row) { return -tokens_per_second(row); });
    if (high == nullptr || high == low || !(tokens_per_second(*low) > 0)) continue;
    if (group == nullptr || tokens_per_second(*high) / tokens_per_second(*low) >
                                tokens_per_second(*fastest) / tokens_per_second(*slowest)) {
      fastest = high, slowest = low, group = &candidate;
    }
  }
  if (group == nullptr) return std::nullopt;
  const double ratio = tokens_per_second(*fastest) / tokens_per_second(*slowest);
  Finding finding("group-" + group->id);
  finding
      .say(fmt::format("Layout decides speed: {} runs fastest as {} at ", group->title,
                       full_label(*fastest)))
      .number(*fastest, "tokens_per_s", tokens_per_second(*fastest),
              significant(tokens_per_second(*fastest)) + " tokens/s")
      .say(", ")
      .ratio(*fastest, *slowest, "tokens_per_s", ratio, significant(ratio) + " times")
      .say(fmt::format(" what {} reaches.", full_label(*slowest)));
  return finding;
}

constexpr double worth_saying = 1.01;  // times as much: below, both read the same

/// Where the fastest job is not the one with the least energy, or where it is.
std::optional<Finding> about_energy(const std::vector<Group>& groups) {
  const StudyRow *fastest = nullptr, *thriftiest = nullptr;
  const Group* group = nullptr;
  double best_saving = -1;
  for (const Group& candidate : groups) {
    const Rows ran = candidate.that_ran();
    const StudyRow* fast = largest(ran, tokens_per_second);
    const StudyRow* thrifty =
        largest(ran, [](const StudyRow& row) { return -joules_per_token(row); });
    if (fast == nullptr || !std::isfinite(joules_per_token(*fast))) continue;
    const double saving = joules_per_token(*fast) / joules_per_token(*thrifty);
    if (saving > best_saving)
      best_saving = saving, fastest = fast, thriftiest = thrifty, group = &candidate;
  }
  if (group == nullptr) return std::nullopt;
  Finding finding("group-" + group->id);
  if (best_saving < worth_saying) {
    finding
        .say(fmt::format("Speed and energy agree: no slower layout saves energy worth mentioning; "
                         "{} as {} takes ",
                         group->title, full_label(*fastest)))
        .number(*fastest, "joules_per_token", joules_per_token(*fastest),
                significant(joules_per_token(*fastest)) + " J a token")
        .say(".");
    return finding;
  }
  finding
      .say(fmt::format("Fastest is not thriftiest: for {}, {} takes ", group->title,
                       full_label(*thriftiest)))
      .number(*thriftiest, "joules_per_token", joules_per_token(*thriftiest),
              significant(joules_per_token(*thriftiest)) + " J a token")
      .say(fmt::format(" where the fastest, {}, takes ", full_label(*fastest)))
      .number(*fastest, "joules_per_token", joules_per_token(*fastest),
              significant(joules_per_token(*fastest)))
      .say(".");
  return finding;
}

/// Hot and cool seats: where the gap is widest.
std::optional<Finding> about_heat(const std::vector<Group>& groups) {
  Rows known;
  for (const StudyRow* row : all_that_ran(groups))
    if (row->metrics->hot_mean_c && row->metrics->cool_mean_c) known.push_back(row);
  const StudyRow* worst = largest(known, [](const StudyRow& row) {
    return *row.metrics->hot_mean_c - *row.metrics->cool_mean_c;
  });
  if (worst == nullptr) return std::nullopt;
  const double hot = *worst->metrics->hot_mean_c, cool = *worst->metrics->cool_mean_c;
  Finding finding("temperature");
  finding
      .say("Where a GPU sits matters: in " + of_group(*worst) +
           ", the hot half of the seats is at ")
      .number(*worst, "temperature_c.hot_mean", hot, significant(hot) + " °C")
      .say(" and the cool half at ")
      .number(*worst, "temperature_c.cool_mean", cool, significant(cool) + " °C")
      .say(", ")
      .ratio_of_keys(*worst, "temperature_c.hot_mean", "temperature_c.cool_mean", hot / cool,
                     significant(hot / cool) + " times")
      .say(" as much.");
  return finding;
}

std::optional<Finding> about_clocks(const std::vector<Group>& groups) {
  Rows known;
  for (const StudyRow* row : all_that_ran(groups))
    if (row->metrics->sm_clock_mean_mhz && !row->metrics->throttle.empty()) known.push_back(row);
  const StudyRow* worst = largest(known, clock_share_lost);
  if (worst == nullptr || clock_share_lost(*worst) < 0.01) return std::nullopt;
  std::string reason;
  for (const auto& [name, share] : worst->metrics->throttle)
    if (share == clock_share_lost(*worst)) reason = name;
  Finding finding("group-" + identifier(group_label(worst->job)));
  finding.say("Clocks are lost to " + reason + ": GPUs of " + of_group(*worst) + " spend ")
      .number(*worst, "throttle." + reason, clock_share_lost(*worst),
              percent(clock_share_lost(*worst)))
      .say(" of the step below the clock they asked for and average ")
      .number(*worst, "sm_clock_mhz.mean", *worst->metrics->sm_clock_mean_mhz,
              significant(*worst->metrics->sm_clock_mean_mhz, 4) + " MHz")
      .say(".");
  return finding;
}

/// Two jobs alike but for the microbatch size.
struct MicrobatchPair {
  const StudyRow* small = nullptr;
  const StudyRow* large = nullptr;
  double rise() const { return *large->metrics->power_peak_w - *small->metrics->power_peak_w; }
};

bool is_pair(const StudyRow& small, const StudyRow& large) {
  return small.job.plan.micro_batch_size < large.job.plan.micro_batch_size &&
         configuration_label(small.job) == configuration_label(large.job) &&
         variant_label(small.job) == variant_label(large.job) && small.metrics->power_peak_w &&
         large.metrics->power_peak_w;
}

/// The pair of a group between which peak power rises most.
std::optional<MicrobatchPair> widest_pair(const Rows& ran) {
  std::optional<MicrobatchPair> widest;
  for (const StudyRow* small : ran) {
    for (const StudyRow* large : ran) {
      if (!is_pair(*small, *large)) continue;
      const MicrobatchPair pair{small, large};
      if (!widest || pair.rise() > widest->rise()) widest = pair;
    }
  }
  return widest;
}

std::optional<Finding> about_microbatches(const std::vector<Group>& groups) {
  std::optional<MicrobatchPair> best;
  for (const Group& group : groups) {
    const auto pair = widest_pair(group.that_ran());
    if (pair && (!best || pair->rise() > best->rise())) best = pair;
  }
  if (!best || best->rise() <= 0) return std::nullopt;
  const auto [small, large] = *best;
  const double ratio = tokens_per_second(*large) / tokens_per_second(*small);
  Finding finding("microbatch-" + identifier(group_label(small->job)));
  finding
      .say(fmt::format(
          "Larger microbatches raise peaks: from microbatch {} to {}, {} of {} goes from ",
          small->job.plan.micro_batch_size, large->job.plan.micro_batch_size,
          configuration_label(small->job), group_label(small->job)))
      .number(*small, "power_w.peak", *small->metrics->power_peak_w,
              significant(*small->metrics->power_peak_w))
      .say(" to ")
      .number(*large, "power_w.peak", *large->metrics->power_peak_w,
              significant(*large->metrics->power_peak_w) + " W")
      .say(" at its peak and runs at ")
      .ratio(*large, *small, "tokens_per_s", ratio, significant(ratio) + " times")
      .say(" the speed.");
  return finding;
}

std::optional<Finding> about_communication(const std::vector<Group>& groups) {
  const auto share = [](const StudyRow& row) {
    const metrics::KernelSeconds& k = row.metrics->kernels;
    const double total = k.total() / unit::s;
    return total > 0
               ? (k.send_recv + k.all_gather + k.reduce_scatter + k.all_reduce + k.all_to_all) /
                     unit::s / total
               : 0;
  };
  const StudyRow* worst = largest(all_that_ran(groups), share);
  if (worst == nullptr || share(*worst) < 0.05) return std::nullopt;
  const metrics::KernelSeconds& kernels = worst->metrics->kernels;
  const double total = kernels.total() / unit::s, compute = kernels.compute / unit::s;
  Finding finding("kernels-" + identifier(group_label(worst->job)));
  finding.say("Communication can swallow a step: of " + of_group(*worst) + ", a GPU spends ")
      .number(*worst, "kernel_time_s.compute", compute, significant(compute) + " s")
      .say(" of its ")
      .number(*worst, "kernel_time_s.total", total, significant(total) + " s")
      .say(" of kernel time computing.");
  return finding;
}

std::optional<Finding> about_memory(const Study& study) {
  std::size_t without_room = 0, valid = 0;
  const StudyRow* tightest = nullptr;
  const auto share = [](const StudyRow& row) {
    return row.memory[*worst_stage(row)].total() / *row.memory_limit;
  };
  for (const StudyRow& row : study.rows) {
    if (row.verdict != Verdict::invalid) ++valid;
    if (row.verdict == Verdict::oom) ++without_room;
    if (row.verdict != Verdict::ok || !worst_stage(row) || !row.memory_limit) continue;
    if (tightest == nullptr || share(row) > share(*tightest)) tightest = &row;
  }
  if (tightest == nullptr) return std::nullopt;
  const double total = tightest->memory[*worst_stage(*tightest)].total() / unit::GiB;
  Finding finding("memory-" + identifier(group_label(tightest->job)));
  finding
      .say(without_room == 0
               ? fmt::format("All {} valid jobs fit in memory", valid)
               : fmt::format("{} of {} valid jobs do not fit in memory", without_room, valid))
      .say(fmt::format("; the tightest that does, {}, fills ", of_group(*tightest)))
      .number(*tightest, "memory_gib.total", total, significant(total))
      .say(" of ")
      .number(*tightest, "memory_gib.limit", *tightest->memory_limit / unit::GiB,
              significant(*tightest->memory_limit / unit::GiB) + " GiB")
      .say(".");
  return finding;
}

}  // namespace

Finding& Finding::say(std::string_view words) {
  text_ += words;
  html_ += escape(words);
  return *this;
}

Finding& Finding::add(Evidence evidence) {
  text_ += evidence.printed;
  html_ += fmt::format("<data value=\"{}\" title=\"{}: {}{}\">{}</data>", evidence.value,
                       escape(evidence.job), escape(evidence.key),
                       evidence.over_job.empty()
                           ? ""
                           : escape(" over " + evidence.over_job + ": " + evidence.over_key),
                       escape(evidence.printed));
  evidence_.push_back(std::move(evidence));
  return *this;
}

Finding& Finding::number(const StudyRow& row, std::string_view key, double value,
                         std::string printed) {
  return add({row.name, std::string(key), "", "", value, std::move(printed)});
}

Finding& Finding::ratio(const StudyRow& row, const StudyRow& over, std::string_view key,
                        double value, std::string printed) {
  return add({row.name, std::string(key), over.name, std::string(key), value, std::move(printed)});
}

Finding& Finding::ratio_of_keys(const StudyRow& row, std::string_view key,
                                std::string_view over_key, double value, std::string printed) {
  return add(
      {row.name, std::string(key), row.name, std::string(over_key), value, std::move(printed)});
}

std::vector<Finding> find_findings(const Study& study) {
  const std::vector<Group> groups = groups_of(study);
  std::vector<Finding> findings;
  for (auto look : {about_speed, about_energy, about_heat, about_clocks, about_microbatches,
                    about_communication}) {
    if (auto finding = look(groups)) findings.push_back(std::move(*finding));
  }
  if (auto finding = about_memory(study)) findings.push_back(std::move(*finding));
  return findings;
}

}  // namespace triplepoint::report
