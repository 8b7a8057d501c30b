// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/charts/energy_and_power.h"

#include <algorithm>

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

double all_of(const std::map<std::string, double>& joules) {
  return sum_of(joules, [](const auto& use) { return use.second; });
}

/// All uses, those with most energy in the first ledger first.
std::vector<std::string> uses_of(const std::vector<NamedLedger>& ledgers) {
  std::vector<std::string> uses;
  for (const NamedLedger& ledger : ledgers)
    for (const auto& [use, amount] : *ledger.joules)
      if (!holds(uses, use)) uses.push_back(use);
  const auto amount = [&](const std::string& use) {
    const auto found = ledgers[0].joules->find(use);
    return found == ledgers[0].joules->end() ? 0.0 : found->second;
  };
  std::ranges::stable_sort(
      uses, [&](const std::string& a, const std::string& b) { return amount(a) > amount(b); });
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
  const double sum = all_of(*ledgers[0].joules);
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
  const double largest =
      most_of(ledgers, [](const NamedLedger& ledger) { return all_of(*ledger.joules); });
  const Scale scale = scale_of(largest);
  BarChart chart{.title = title_of(ledgers, uses),
                 .unit = fmt::format("energy of all GPUs in one step ({})", scale.name),
                 .cuts = false};
  std::vector<TextColumn> columns = {{"spent on", Align::left}};
  std::vector<std::vector<DataCell>> rows;
  std::vector<LegendEntry> legend;
  for (const std::string& use : uses) {
    rows.push_back({name_of_use(use)});
    legend.push_back({style_of(use), name_of_use(use)});
  }
  for (const NamedLedger& ledger : ledgers) {
    const double sum = all_of(*ledger.joules);
    Bar bar{.label = ledger.name};
    for (std::size_t i = 0; i < uses.size(); ++i) {
      const double joules = value_at(*ledger.joules, uses[i]).value_or(0);
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
  DataTable table = text_table(std::move(columns));
  table.rows = std::move(rows);
  return {"energy-ledger",
          chart.title,
          "Base: what the board draws whatever runs, clock tree included, without leakage. "
          "Leakage: all that flows through the dies at their temperatures; it grows with "
          "temperature. Waiting: power drawn while a collective waits for a late peer.",
          chart,
          std::move(legend),
          std::move(table)};
}

}  // namespace triplepoint::report
