// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/answers/quantities.h"
#include "triplepoint/answers/run_figures.h"

namespace triplepoint::answers {

using metrics::Metrics;

DataTable memory_table(const run::Run& run) {
  DataTable table = text_table({{"stage"},
                                {"weights"},
                                {"gradients"},
                                {"optimizer"},
                                {"activations"},
                                {"logits", Align::right, 1},
                                {"buffers", Align::right, 1},
                                {"reserve", Align::right, 1},
                                {"total GiB"}});
  table.title = fmt::format("Memory of a {} (GiB)", device_word(run));
  for (std::size_t i = 0; i < run.memory.size(); ++i) {
    const run::MemoryUse& use = run.memory[i];
    std::vector<DataCell> cells = {std::to_string(i)};
    for (Bytes part : {use.weights, use.gradients, use.optimizer, use.activations, use.logits,
                       use.buffers, use.reserve})
      cells.emplace_back(significant(part / unit::GiB));
    const bool over = run.memory_limit && use.total() > *run.memory_limit;
    cells.emplace_back(significant(use.total() / unit::GiB), over ? Style::bad : Style::plain);
    table.add(std::move(cells));
  }
  return table;
}

DataTable stage_table(const run::Run& run, const Metrics& m) {
  // Classes of kernels that no stage runs go first where there is no room, power, heat and clock
  // last.
  std::vector<TextColumn> columns = {{"stage"}};
  const auto all = metrics::kernel_parts();
  std::vector<metrics::KernelPart> parts(all.begin(), all.end());
  // Waiting is a part of the others, and stands behind their sum.
  std::ranges::stable_partition(
      parts, [](const auto& part) { return part.key != std::string_view("waiting"); });
  for (const metrics::KernelPart& part : parts) {
    const std::string_view key = part.key;
    const bool always = key == "compute" || key == "total";
    const int optional = always ? 0 : part.of(m.kernels) > Seconds() ? 2 : 3;
    columns.push_back({key == "memory"    ? "memory"
                       : key == "waiting" ? "of it waiting"
                       : key == "total"   ? "total s"
                                          : part.label,
                       Align::right, optional});
  }
  for (const char* title : {"W", "°C", "MHz"})
    columns.push_back({title, Align::right, 1});
  DataTable table = text_table(std::move(columns));
  table.title = fmt::format(
      "Kernel seconds of a {} in one step; overlapping kernels count twice, waiting included",
      device_word(run));
  const auto add = [&](std::string name, const metrics::KernelSeconds& kernels,
                       std::initializer_list<std::string> rest) {
    std::vector<DataCell> cells = {std::move(name)};
    for (const metrics::KernelPart& part : parts)
      cells.emplace_back(significant(part.of(kernels) / unit::s));
    cells.insert(cells.end(), rest.begin(), rest.end());
    table.add(std::move(cells));
  };
  for (const metrics::Stage& stage : m.stages)
    add(std::to_string(stage.stage), stage.kernels,
        {significant(stage.power_mean_w), significant(stage.die_mean_c),
         significant(stage.sm_clock_mean_mhz, 4)});
  add("mean", m.kernels,
      {significant(m.power_mean_w), significant(m.temperature_mean_c),
       significant(m.sm_clock_mean_mhz, 4)});
  return table;
}

DataTable all_figures(const run::Run& run, const Metrics& m) {
  DataTable table = text_table({{"quantity", Align::left}, {"value"}, {"unit", Align::left}});
  const RunResult result = result_of(run, m);
  for (const QuantityGroup& group : quantity_groups())
    for (const Quantity& quantity : group.quantities) {
      if (quantity.type != Type::number || quantity.label.empty()) continue;
      const auto number = number_of(quantity.key.empty() ? quantity.name : quantity.key, result);
      if (!number) continue;
      const auto [unit_name, scale] = shown_unit(quantity);
      constexpr double rounding = 1e-12;  // what differences of times leave of nothing
      const double shown = std::abs(*number) < rounding ? 0 : *number / scale;
      table.add({std::string(quantity.label), significant(shown, 4), std::string(unit_name)});
    }
  return table;
}

}  // namespace triplepoint::answers
