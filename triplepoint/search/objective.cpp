// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/objective.h"

#include <array>

namespace triplepoint::search {
namespace {

constexpr std::array<std::string_view, 4> names = {"throughput", "energy", "edp", "cost"};

}  // namespace

std::string_view name_of(Goal goal) {
  return names[static_cast<size_t>(goal)];
}

std::optional<Goal> goal_named(std::string_view name) {
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Goal>(i);
  return std::nullopt;
}

double Objective::value(double time, double energy) const {
  switch (goal) {
    case Goal::throughput:
      return time;
    case Goal::energy:
      return energy;
    case Goal::edp:
      return energy * time;
    case Goal::cost:
      return rate * time + price * energy;
  }
  return time;
}

}  // namespace triplepoint::search
