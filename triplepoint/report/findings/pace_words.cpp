// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/findings/pace_words.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/number_text.h"

namespace triplepoint::report {
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
  if (text.empty()) return "";
  if (!setter.detail.empty()) text += ", " + setter.detail;
  return " (" + text + ")";
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
  return fmt::format("{}; the step takes {}{} longer, {} s.", comparison(setter),
                     setter.at_most ? "at most " : "", percent(longer),
                     significant(setter.cost / unit::s));
}

std::string pace_advice(const PaceSetter& setter) {
  if (setter.by == By::scale_up)
    return "Check its links (nvidia-smi nvlink -s), or leave the GPU out.";
  if (setter.by == By::scale_out) return "Check the NICs, cables and switch ports of that node.";
  if (setter.by == By::host)
    return "Look for other processes, the CPU's clock and the binding of ranks to cores.";
  if (setter.limit == "power_limit")
    return "Give it the power limit of its peers (nvidia-smi -pl), or end the power brake.";
  if (setter.limit == "clock_lock") return "Release the lock (nvidia-smi -rgc).";
  if (setter.limit == "heat")
    return "Check its air or coolant, heat sink and paste, or give it less work.";
  if (setter.limit == "board")
    return "Give it less work (triplepoint place), or exchange the board.";
  return "Compare its clock event reasons, power limit and temperature with its peers'.";
}

}  // namespace triplepoint::report
