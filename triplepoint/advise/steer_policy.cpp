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
  std::string why = "nothing else can be set";
  bool first = true;
  for (const std::size_t i : order) {
    const double gain = 1 - options[i].ratio;
    const double least = options[i].restarts ? rules_.restart_margin : rules_.margin;
    // Not-a-number is no gain.
    if (!(gain >= least)) {
      if (first)
        why = gain > 5e-4 ? fmt::format(
                                "the best alternative gains {}, less than the {} that a "
                                "move must",
                                percent_text(gain), percent_text(least))
              : gain > -5e-4 ? "the best alternative comes to the same"
                             : fmt::format("the best alternative costs {}", percent_text(-gain));
      first = false;
      continue;
    }
    const std::string refused = refusal(now, options[i]);
    if (refused.empty()) return {i, ""};
    if (first) why = fmt::format("{} would gain, but {}", percent_text(gain), refused);
    first = false;
  }
  return {std::nullopt, why};
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
