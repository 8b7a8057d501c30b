// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/energy_and_power.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/report/charts/charts.h"

namespace triplepoint::report {
namespace {

/// Colours of the uses that producers name; others take grey.
const char* style_of(const std::string& use) {
  constexpr std::pair<const char*, const char*> known[] = {
      {"compute", "k-compute"}, {"memory", "k-memory"}, {"communication", "t-communication"},
      {"waiting", "t-wait"},    {"idle", "k-other"},    {"leakage", "leakage"},
      {"links", "s4"},          {"fans", "s2"},         {"host", "t-next"}};
  for (const auto& [name, style] : known)
    if (use == name) return style;
  return "t-unknown";
}

/// As readers call it: `idle` power is drawn all the time, not in idle time.
std::string name_of_use(const std::string& use) {
  return use == "idle" ? "base" : use;
}

double sum_of(const std::map<std::string, double>& joules) {
  double sum = 0;
  for (const auto& [use, amount] : joules)
    sum += amount;
  return sum;
}

/// All uses, those with most energy in the first ledger first.
std::vector<std::string> uses_of(const std::vector<NamedLedger>& ledgers) {
  std::vector<std::string> uses;
  for (const NamedLedger& ledger : ledgers)
    for (const auto& [use, amount] : *ledger.joules)
      if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
  const auto amount = [&](const std::string& use) {
    const auto found = ledgers[0].joules->find(use);
    return found == ledgers[0].joules->end() ? 0.0 : found->second;
  };
  std::stable_sort(uses.begin(), uses.end(), [&](const std::string& a, const std::string& b) {
    return amount(a) > amount(b);
  });
  return uses;
}

struct Scale {
  const char* name;
  double joules;
};
Scale scale_of(double largest) {
  if (largest >= 1e7) return {"MJ", 1e6};
  if (largest >= 1e4) return {"kJ", 1e3};
  return {"J", 1};
}

std::string title_of(const std::vector<NamedLedger>& ledgers,
                     const std::vector<std::string>& uses) {
  const double sum = sum_of(*ledgers[0].joules);
  if (ledgers.size() > 1 || sum <= 0) return "Energy of a step by use";
  return fmt::format(
      "{} of the GPU energy of a step goes into {}{}",
      percent(ledgers[0].joules->at(uses[0]) / sum), name_of_use(uses[0]),
      uses.size() > 1 ? fmt::format(", {} into {}", percent(ledgers[0].joules->at(uses[1]) / sum),
                                    name_of_use(uses[1]))
                      : "");
}

}  // namespace

answers::Figure energy_ledger_figure(const std::vector<NamedLedger>& ledgers) {
  const std::vector<std::string> uses = uses_of(ledgers);
  double largest = 0;
  for (const NamedLedger& ledger : ledgers)
    largest = std::max(largest, sum_of(*ledger.joules));
  const Scale scale = scale_of(largest);
  BarChart chart{.title = title_of(ledgers, uses),
                 .unit = fmt::format("energy of all GPUs in one step ({})", scale.name),
                 .bars = {},
                 .cuts = false};
  std::vector<TextColumn> columns = {{"spent on", Align::left}};
  std::vector<std::vector<DataCell>> rows;
  std::vector<LegendEntry> legend;
  for (const std::string& use : uses) {
    rows.push_back({name_of_use(use)});
    legend.push_back({style_of(use), name_of_use(use)});
  }
  for (const NamedLedger& ledger : ledgers) {
    const double sum = sum_of(*ledger.joules);
    Bar bar{.label = ledger.name, .parts = {}};
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const auto found = ledger.joules->find(uses[i]);
      const double joules = found == ledger.joules->end() ? 0 : found->second;
      const std::string amount = significant(joules / scale.joules);
      bar.parts.push_back({joules / scale.joules, style_of(uses[i]),
                           fmt::format("{}: {} {}", name_of_use(uses[i]), amount, scale.name)});
      rows[i].emplace_back(amount);
      rows[i].emplace_back(sum > 0 ? percent(joules / sum) : "–");
    }
    bar.text = significant(sum / scale.joules);
    chart.bars.push_back(std::move(bar));
    const std::string of = ledgers.size() > 1 ? ledger.name + ", " : "";
    columns.push_back({of + "energy (" + scale.name + ")"});
    columns.push_back({of + "share"});
  }
  triplepoint::DataTable table = text_table(std::move(columns));
  table.rows = std::move(rows);
  return {
      "energy-ledger",
      chart.title,
      "Base: what the board draws whatever runs, clock tree included, without leakage. Leakage: "
      "all that flows through the dies at their temperatures; it grows with temperature. "
      "Waiting: power drawn while a collective waits for a late peer.",
      chart,
      std::move(legend),
      std::move(table)};
}

namespace {

using metrics::PowerLevel;
using metrics::PowerProfile;

constexpr double width = 680, height = 240;
constexpr double left = 52, right = 8, top = 18, bottom = 40;
// A recording of hours has more bins than the chart has points.
constexpr size_t most_points = 400;

std::string kilowatts(Watts power) {
  return significant(power / unit::kW);
}

/// Means over bins, at most as many as a chart can show.
std::vector<double> thinned(const std::vector<double>& watts) {
  const size_t stretch = (watts.size() + most_points - 1) / most_points;
  std::vector<double> points;
  for (size_t b = 0; b < watts.size(); b += stretch) {
    double sum = 0;
    const size_t end = std::min(watts.size(), b + stretch);
    for (size_t i = b; i < end; ++i)
      sum += watts[i];
    points.push_back(sum / static_cast<double>(end - b) / 1e3);
  }
  return points;
}

class Drawing {
 public:
  Drawing(const std::vector<double>& kw, Seconds whole)
      : kw_(kw), whole_(whole), axis_(axis_from_zero(*std::max_element(kw.begin(), kw.end()))) {}

  std::string svg(double mean_kw) const {
    std::string text = svg_begin(width, height, "power of all nodes over time");
    for (const double tick : axis_.ticks)
      text += fmt::format(
          "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"label\" x=\"{}\" "
          "y=\"{:.1f}\">{}</text>",
          left, y(tick), width - right, left - 6, y(tick) + 4, axis_.tick_text(tick));
    text += "<text class=\"unit start\" x=\"4\" y=\"11\">power of all nodes (kW)</text>";
    text += fmt::format("<text class=\"unit\" x=\"{:.1f}\" y=\"{}\">0 to {} s</text>",
                        (left + width - right) / 2, height - 12, significant(whole_ / unit::s));
    text += fmt::format("<path class=\"peak\" stroke-dasharray=\"4 3\" d=\"M{} {:.1f}H{}\"/>", left,
                        y(mean_kw), width - right);
    return text + curve() + "</svg>";
  }

 private:
  double x(size_t point) const {
    return left + (width - left - right) * static_cast<double>(point) /
                      static_cast<double>(std::max<size_t>(1, kw_.size() - 1));
  }
  double y(double kw) const { return top + (height - top - bottom) * (1 - axis_.share(kw)); }

  std::string curve() const {
    std::string path;
    for (size_t i = 0; i < kw_.size(); ++i)
      path += fmt::format("{}{:.1f} {:.1f}", i == 0 ? "M" : "L", x(i), y(kw_[i]));
    return fmt::format("<path class=\"line s0\" d=\"{}\"/>", path);
  }

  const std::vector<double>& kw_;
  Seconds whole_;
  Axis axis_;
};

DataTable level_table(const PowerProfile& profile) {
  DataTable table{{"level", "of them", "mean (kW)", "lowest (kW)", "peak (kW)", "swing (kW)",
                   "ramp up (kW/s)", "ramp down (kW/s)", "coincidence"},
                  {}};
  for (const PowerLevel& level : profile.levels)
    table.rows.push_back({level.name, std::to_string(level.units), kilowatts(level.mean),
                          kilowatts(level.lowest), kilowatts(level.highest),
                          kilowatts(level.swing()), significant(level.ramp_up_w_per_s / 1e3),
                          significant(level.ramp_down_w_per_s / 1e3),
                          significant(level.coincidence)});
  return table;
}

}  // namespace

Figure power_swing_figure(const PowerProfile& profile) {
  const std::vector<double> points = thinned(profile.site_w);
  const PowerLevel& site = profile.levels.back();
  const metrics::Smoothing& smoothing = profile.smoothing;
  const Seconds whole = static_cast<double>(profile.site_w.size()) * profile.bin;
  Figure figure;
  figure.id = "power-swing";
  figure.title =
      fmt::format("The power of all nodes falls from {} to {} kW, by {}", kilowatts(site.highest),
                  kilowatts(site.lowest), percent(site.swing() / site.highest));
  figure.note = fmt::format(
      "{}. Dashed: the mean. Storage of {} kJ and {} kW would flatten it",
      profile.of_devices_only ? "GPUs alone, over the supplies' efficiency" : "At the wall",
      significant(smoothing.storage / unit::kJ), kilowatts(smoothing.storage_power));
  figure.note +=
      site.swing() <= smoothing.allowed_swing
          ? std::string("; no power floor is needed.")
          : fmt::format("; a power floor of {} kW costs {} kJ per step.",
                        kilowatts(smoothing.floor), significant(smoothing.floor_energy / unit::kJ));
  figure.drawing = Drawing(points, whole).svg(site.mean / unit::kW);
  figure.table = level_table(profile);
  figure.wide = true;
  figure.shows_table = true;
  return figure;
}

std::optional<RunFinding> swing_finding(const PowerProfile& profile) {
  const PowerLevel& site = profile.levels.back();
  const double share = site.highest > Watts() ? site.swing() / site.highest : 0;
  if (share < 0.1) return std::nullopt;
  return RunFinding{fmt::format("The power of all nodes falls from {} to {} kW, by {}, within a "
                                "step; storage of {} kJ would flatten it.",
                                kilowatts(site.highest), kilowatts(site.lowest), percent(share),
                                significant(profile.smoothing.storage / unit::kJ)),
                    "power-swing"};
}

}  // namespace triplepoint::report
