// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/crossover.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/base/text.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint::study {
namespace {

constexpr std::array<std::pair<std::string_view, Varied>, 4> words = {
    std::pair{"nic-bandwidth", Varied::nic_bandwidth},
    {"batch", Varied::batch},
    {"nodes", Varied::nodes},
    {"against-nodes", Varied::against_nodes}};

/// Asks for the best plan of each distinct job once.
class Planner {
 public:
  explicit Planner(const std::function<Result<PlannedSide>(const spec::Job&)>& best_plan)
      : best_plan_(best_plan) {}

  Result<PlannedSide> plan(const spec::Job& job) {
    for (const PlannedSide& known : known_)
      if (known.job == job) return known;
    known_.push_back(TPT_TRY(best_plan_(job)));
    return known_.back();
  }

 private:
  const std::function<Result<PlannedSide>(const spec::Job&)>& best_plan_;
  std::vector<PlannedSide> known_;
};

Result<CrossoverPoint> point_at(const CrossoverQuestion& asked, double value, Planner& planner) {
  const JobPair jobs = TPT_TRY(jobs_at(asked, value));
  CrossoverPoint point{.value = value, .base = {}, .against = {}};
  point.base = TPT_TRY(planner.plan(jobs.base));
  point.against = TPT_TRY(planner.plan(jobs.against));
  return point;
}

/// 1 where base is better, -1 where the other is, 0 where they are equal or have no plan.
int leader(const CrossoverPoint& point) {
  const double advantage = point.advantage().value_or(1);
  return advantage > 1 ? 1 : advantage < 1 ? -1 : 0;
}

bool crosses(const CrossoverPoint& a, const CrossoverPoint& b) {
  return leader(a) * leader(b) < 0;
}

}  // namespace

std::optional<Varied> varied_named(std::string_view word) {
  for (const auto& [name, varied] : words)
    if (name == word) return varied;
  return std::nullopt;
}

std::string_view name_of(Varied varied) {
  return words[static_cast<std::size_t>(varied)].first;
}

Result<double> parse_varied(Varied over, std::string_view text) {
  if (over == Varied::nic_bandwidth) {
    const Result<BytesPerSecond> rate = parse_quantity<BytesPerSecond>(text);
    if (!rate) return tl::unexpected(rate.error());
    if (*rate > BytesPerSecond()) return rate->in_base_units();
    return error(
        fmt::format("\"{}\" is no bandwidth of a NIC (it has to be above 0); try 200 Gb/s", text));
  }
  const Result<int64_t> count = parse_count(text);
  if (count && *count >= 1) return static_cast<double>(*count);
  return error(fmt::format("\"{}\" is no number of {} (it counts what has to be there); try 4",
                           text, over == Varied::batch ? "sequences" : "nodes"));
}

std::string varied_text(Varied over, double value) {
  if (over == Varied::nic_bandwidth) return fmt::format("{:.4g} Gb/s", value * 8 / 1e9);
  return fmt::format("{:.0f}", value);
}

Result<JobPair> jobs_at(const CrossoverQuestion& asked, double value) {
  JobPair jobs{asked.base, asked.against};
  const auto count = static_cast<int64_t>(std::llround(value));
  switch (asked.over) {
    case Varied::nic_bandwidth:
      jobs.base.cluster.scale_out.nic_bandwidth = BytesPerSecond(value);
      jobs.against.cluster.scale_out.nic_bandwidth = BytesPerSecond(value);
      break;
    case Varied::batch:
      jobs.base.plan.global_batch_size = jobs.against.plan.global_batch_size = count;
      break;
    case Varied::nodes: {
      const int64_t product = count * asked.against.cluster.num_nodes;
      if (product % asked.base.cluster.num_nodes != 0)
        return error(fmt::format(
            "{} nodes of {} stand beside {:.4g} of {} (nodes grow in proportion, {} to {}, and are "
            "whole); try multiples of {}, or another --against-nodes",
            count, asked.base.cluster.name,
            static_cast<double>(product) / static_cast<double>(asked.base.cluster.num_nodes),
            asked.against.cluster.name, asked.base.cluster.num_nodes,
            asked.against.cluster.num_nodes, asked.base.cluster.num_nodes));
      jobs.base.cluster.num_nodes = count;
      jobs.against.cluster.num_nodes = product / asked.base.cluster.num_nodes;
      break;
    }
    case Varied::against_nodes:
      jobs.against.cluster.num_nodes = count;
      break;
  }
  return jobs;
}

std::vector<double> usual_values(const CrossoverQuestion& asked) {
  if (asked.over == Varied::nic_bandwidth) {
    std::vector<double> values;
    for (const double gigabits : {100, 200, 400, 800})
      values.push_back(gigabits * 1e9 / 8);
    return values;
  }
  const bool batch = asked.over == Varied::batch;
  const auto now =
      static_cast<double>(batch                         ? asked.base.plan.global_batch_size
                          : asked.over == Varied::nodes ? asked.base.cluster.num_nodes
                                                        : asked.against.cluster.num_nodes);
  std::vector<double> values;
  for (const double factor : {0.25, 0.5, 1., 2., 4.}) {
    if (!batch && factor < 0.5) continue;
    const double value = now * factor;
    if (value >= 1 && value == std::floor(value) && jobs_at(asked, value)) values.push_back(value);
  }
  return values;
}

PlannedSide without_plan(const spec::Job& job, const Error& why) {
  return {.job = job, .plan = {}, .why_none = why.what};
}

std::optional<double> CrossoverPoint::advantage() const {
  if (!base.plan && !against.plan) return std::nullopt;
  if (!base.plan) return 0;
  if (!against.plan) return std::numeric_limits<double>::infinity();
  return against.plan->value / base.plan->value;
}

Result<CrossoverAnswer> find_crossovers(
    const CrossoverQuestion& asked,
    const std::function<Result<PlannedSide>(const spec::Job&)>& best_plan,
    const std::function<bool()>& stopped) {
  Planner planner(best_plan);
  CrossoverAnswer answer;
  for (const double value : asked.values) {
    if (stopped()) return answer;
    answer.points.push_back(TPT_TRY(point_at(asked, value, planner)));
  }
  const bool continuous = asked.over == Varied::nic_bandwidth;
  std::size_t led = 0;  // the last point that has a leader: one may overtake through equality
  for (std::size_t i = 1; i < answer.points.size(); ++i) {
    if (leader(answer.points[i]) == 0) continue;
    CrossoverPoint low = answer.points[std::exchange(led, i)], high = answer.points[i];
    if (!crosses(low, high)) continue;
    for (int n = 0; continuous && n < asked.halvings && !stopped(); ++n) {
      CrossoverPoint middle = TPT_TRY(point_at(asked, std::sqrt(low.value * high.value), planner));
      middle.halved = true;
      (crosses(low, middle) ? high : low) = middle;
      const auto at = std::ranges::find_if(
          answer.points, [&](const CrossoverPoint& point) { return point.value > middle.value; });
      answer.points.insert(at, middle);
      led = ++i;  // what stands at i is now the upper end of the asked interval again
    }
    answer.crossovers.push_back({low.value, high.value, leader(high) > 0});
  }
  return answer;
}

}  // namespace triplepoint::study
