// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "triplepoint/base/statistics.h"
#include "triplepoint/base/text.h"

#include "triplepoint/answers/run_figures.h"

namespace triplepoint::answers {
namespace {

using metrics::PowerProfile;

std::string kilowatts(Watts power) {
  return significant(power / unit::kW);
}

std::string kilojoules(Joules energy) {
  return significant(energy / unit::kJ);
}

DataTable level_table(const PowerProfile& profile) {
  DataTable table{.name = "levels"};
  table.title =
      fmt::format("Power over a step of {} s, {}", significant(profile.step / unit::s),
                  profile.of_devices_only ? "GPUs over the supplies' efficiency" : "at the wall");
  table.columns = {{"level", "level"},
                   {"units", "of them"},
                   {"mean_w", "mean kW", 1e3, 2},
                   {"lowest_w", "lowest", 1e3, 2},
                   {"peak_w", "peak", 1e3, 2},
                   {"swing_w", "swing kW", 1e3, 2},
                   {"swing_share", "of peak %", 0.01, 1},
                   {"ramp_up_w_per_s", "ramp up kW/s", 1e3, 1},
                   {"ramp_down_w_per_s", "down kW/s", 1e3, 1},
                   {"coincidence", "coincidence", 1, 3}};
  for (const metrics::PowerLevel& level : profile.levels)
    table.add({level.name, level.units, level.mean / unit::W, level.lowest / unit::W,
               level.highest / unit::W, level.swing() / unit::W, level.swing() / level.highest,
               level.ramp_up_w_per_s, level.ramp_down_w_per_s, level.coincidence});
  return table;
}

std::string smoothing_text(const PowerProfile& profile) {
  const metrics::Smoothing& s = profile.smoothing;
  const std::string storage = fmt::format(
      "Smoothing: a battery or capacitors of {} kJ and {} kW make the power of all nodes flat.",
      kilojoules(s.storage), kilowatts(s.storage_power));
  if (profile.levels.back().swing() <= s.allowed_swing)
    return storage + fmt::format(
                         " It swings by no more than the allowed {} kW: no floor and no "
                         "stagger are needed.",
                         kilowatts(s.allowed_swing));
  const std::string stagger =
      s.stagger == Seconds()
          ? "."
          : fmt::format(
                "; nodes that begin one after the other over {} s swing by {} kW{} (steps may get "
                "that much longer).",
                significant(s.stagger / unit::s), kilowatts(s.staggered_swing),
                s.stagger_suffices ? "" : ", which is not enough");
  return storage + fmt::format(
                       " To swing by no more than {} kW: a floor of {} kW burns {} kJ a step "
                       "({:.1f} % of its energy){}",
                       kilowatts(s.allowed_swing), kilowatts(s.floor), kilojoules(s.floor_energy),
                       100 * s.floor_share, stagger);
}

/// Means over bins in kW, at most as many as a chart can show.
std::vector<std::optional<double>> thinned(const std::vector<double>& watts) {
  constexpr std::size_t most_points = 200;
  const std::size_t stretch = (watts.size() + most_points - 1) / most_points;
  std::vector<std::optional<double>> points;
  for (std::size_t b = 0; b < watts.size(); b += stretch) {
    const std::size_t end = std::min(watts.size(), b + stretch);
    const std::vector<double> bins(watts.begin() + static_cast<std::ptrdiff_t>(b),
                                   watts.begin() + static_cast<std::ptrdiff_t>(end));
    points.emplace_back(mean(bins) / 1e3);
  }
  return points;
}

Figure swing_figure(const PowerProfile& profile) {
  const metrics::PowerLevel& site = profile.levels.back();
  const Seconds whole = as_real(profile.site_w.size()) * profile.bin;
  Line power{.name = "power", .style = "s0", .values = thinned(profile.site_w)};
  const std::size_t points = power.values.size();
  Line steady{.name = "mean", .style = "s1"};
  steady.values.assign(points, site.mean / unit::kW);
  Figure figure{.id = "power-swing"};
  figure.title =
      fmt::format("The power of all nodes falls from {} to {} kW, by {}", kilowatts(site.highest),
                  kilowatts(site.lowest), percent(site.swing() / site.highest));
  figure.legend = {{power.style, power.name}, {steady.style, steady.name}};
  figure.chart = LineChart{.title = "power of all nodes over time",
                           .x_name = fmt::format("0 to {} s", significant(whole / unit::s)),
                           .y_unit = "power of all nodes (kW)",
                           .positions = std::vector<std::string>(points),
                           .lines = {std::move(power), std::move(steady)}};
  return figure;
}

}  // namespace

Section power_section(const PowerProfile& profile) {
  return {.id = "swing",
          .title = "What the power supply sees",
          .remarks = {{smoothing_text(profile)}},
          .figures = {swing_figure(profile)},
          .tables = {level_table(profile)}};
}

}  // namespace triplepoint::answers
