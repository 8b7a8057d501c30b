// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/steer_policy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

namespace triplepoint::advise {
namespace {

std::string percent_text(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

/// Why the best option is left, if its gain is below the least that a move must.
std::string too_little(double gain, double least) {
  constexpr double same = 5e-4;
  if (gain > same)
    return fmt::format("the best alternative gains {}, less than the {} that a move must",
                       percent_text(gain), percent_text(least));
  if (gain > -same) return "the best alternative comes to the same";
  return fmt::format("the best alternative costs {}", percent_text(-gain));
}

}  // namespace

/// Why an option that gains is not taken; empty: it may be.
std::string SteerPolicy::refusal(Seconds now, const SteerOption& option) const {
  if (moves_ >= rules_.most_moves) return fmt::format("all {} moves are used", rules_.most_moves);
  if (option.restarts && restarts_ >= rules_.most_restarts)
    return fmt::format("all {} restarts are used", rules_.most_restarts);
  if (last_move_ && now - *last_move_ < rules_.dwell)
    return fmt::format("the last move was only {:.0f} s ago", (now - *last_move_) / unit::s);
  const auto left = left_.find(option.setting);
  if (left == left_.end()) return "";
  const Seconds wait = std::exp2(left->second.times) * rules_.dwell;
  if (now - left->second.when >= wait) return "";
  return fmt::format("it was left {:.0f} s ago and may come back after {:.0f} s",
                     (now - left->second.when) / unit::s, wait / unit::s);
}

SteerPolicy::Verdict SteerPolicy::choose(Seconds now, std::span<const SteerOption> options) const {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < options.size(); ++i)
    if (options[i].setting != setting_) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return options[a].ratio < options[b].ratio;
  });
  std::optional<std::string> why;  // the best of them is left
  for (const std::size_t i : order) {
    const double gain = 1 - options[i].ratio;
    const double least = options[i].restarts ? rules_.restart_margin : rules_.margin;
    const bool gains = gain >= least;  // not-a-number is no gain
    const std::string refused = gains ? refusal(now, options[i]) : too_little(gain, least);
    if (refused.empty()) return {i, ""};
    if (!why)
      why = gains ? fmt::format("{} would gain, but {}", percent_text(gain), refused) : refused;
  }
  return {std::nullopt, why.value_or("nothing else can be set")};
}

void SteerPolicy::moved(Seconds now, const SteerOption& option) {
  Left& left = left_[setting_];
  left.when = now;
  ++left.times;
  setting_ = option.setting;
  last_move_ = now;
  ++moves_;
  if (option.restarts) ++restarts_;
}

}  // namespace triplepoint::advise
