// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/tui/power_profile_text.h"

#include <fmt/format.h>

#include "triplepoint/base/data_table.h"
#include "triplepoint/base/number_text.h"

#include "triplepoint/tui/table_text.h"

namespace triplepoint::tui {
namespace {

using metrics::PowerProfile;

DataTable level_table(const PowerProfile& profile) {
  DataTable table;
  table.name = "power_profile";
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
  if (profile.levels.back().swing() <= s.allowed_swing)
    return fmt::format(
        "Smoothing: a battery or capacitors of {} kJ and {} kW make the site flat. It swings by no "
        "more than the allowed {} kW: no floor and no stagger are needed.",
        significant(s.storage / unit::kJ), significant(s.storage_power / unit::kW),
        significant(s.allowed_swing / unit::kW));
  return fmt::format(
      "Smoothing: a battery or capacitors of {} kJ and {} kW make the site flat. To swing by no "
      "more than {} kW: a floor of {} kW burns {} kJ a step ({:.1f} % of its energy); nodes that "
      "begin one after the other over {} s swing by {} kW{} (steps may get that much longer).",
      significant(s.storage / unit::kJ), significant(s.storage_power / unit::kW),
      significant(s.allowed_swing / unit::kW), significant(s.floor / unit::kW),
      significant(s.floor_energy / unit::kJ), 100 * s.floor_share, significant(s.stagger / unit::s),
      significant(s.staggered_swing / unit::kW), s.stagger_suffices ? "" : ", which is not enough");
}

}  // namespace

std::string lifetime_use_text(const metrics::RunLifetimeUse& use) {
  std::string text = fmt::format(
      "Lifetime use: {} (mean of the GPUs; fastest {} on GPU {}, slowest {})",
      significant(use.mean), significant(use.highest), use.worst_device, significant(use.lowest));
  if (use.gpu_hours_per_million_tokens)
    text += fmt::format("; {} GPU hours of the reference per million tokens",
                        significant(*use.gpu_hours_per_million_tokens));
  return text +
         fmt::format(".\n  {}; relative to the reference; compares jobs, does not predict years.\n",
                     use.reference);
}

void print_power_profile(Console& console, const PowerProfile& profile) {
  console.print("\n" + table_text(level_table(profile), console));
  console.print(wrap(smoothing_text(profile), console.abilities().width.value_or(100), "  ") +
                "\n");
}

}  // namespace triplepoint::tui
