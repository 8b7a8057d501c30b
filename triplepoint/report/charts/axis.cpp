// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace triplepoint::report {
namespace {

double round_step(double rough) {
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (rough <= factor * power * 1.0000001) return factor * power;
  }
  return 10 * power;
}

}  // namespace

double Axis::share(double value) const {
  return std::clamp((value - low) / (high - low), 0.0, 1.0);
}

std::string Axis::tick_text(double tick) const {
  const double step = ticks.size() > 1 ? ticks[1] - ticks[0] : 1;
  if (std::abs(tick) >= 10000 && step >= 1000) return fmt::format("{:.0f}k", tick / 1000);
  int decimals = 0;  // the fewest that write the step exactly
  for (double rest = step; decimals < 9 && std::abs(rest - std::round(rest)) > 1e-6 * rest;
       rest *= 10)
    ++decimals;
  return fmt::format("{:.{}f}", tick, decimals);
}

Axis axis_between(double lowest, double highest, int most) {
  if (!(highest - lowest > 1e-3 * std::abs(highest))) {  // all alike: show them in the middle
    const double margin = std::max(1e-2 * std::abs(highest), 1e-9);
    lowest -= margin, highest += margin;
  }
  const double step = round_step((highest - lowest) / most);
  const double first = std::floor(lowest / step + 1e-9), last = std::ceil(highest / step - 1e-9);
  Axis axis{first * step, last * step, {}};
  for (int i = 0; i <= static_cast<int>(last - first); ++i)
    axis.ticks.push_back((first + i) * step);
  return axis;
}

Axis axis_from_zero(double highest, int most) {
  return axis_between(0, highest > 0 ? highest : 1, most);
}

namespace {

struct Colour {
  double red, green, blue;
};
constexpr std::array<Colour, 8> anchors = {{{40, 11, 84},
                                            {101, 21, 110},
                                            {159, 42, 99},
                                            {212, 72, 66},
                                            {245, 125, 21},
                                            {250, 178, 40},
                                            {247, 218, 80},
                                            {252, 255, 164}}};

}  // namespace

std::string heat_colour(double share) {
  const double place = std::clamp(share, 0.0, 1.0) * (anchors.size() - 1);
  const auto index = std::min(static_cast<std::size_t>(place), anchors.size() - 2);
  const double part = place - static_cast<double>(index);
  const auto mix = [&](double Colour::*channel) {
    return static_cast<int>(
        std::lround(anchors[index].*channel * (1 - part) + anchors[index + 1].*channel * part));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(&Colour::red), mix(&Colour::green),
                     mix(&Colour::blue));
}

}  // namespace triplepoint::report
