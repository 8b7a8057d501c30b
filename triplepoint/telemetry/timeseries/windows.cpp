// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/timeseries/windows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "triplepoint/base/text.h"

#include "triplepoint/telemetry/timeseries/columns.h"
#include "triplepoint/telemetry/timeseries/text_table.h"

namespace triplepoint::telemetry {
namespace {

constexpr double kwh = 3.6e6;  // J
constexpr Column plain_number = {.is = Column::Is::reading, .signal = "number_j"};

std::optional<double> number(std::string_view cell) {
  return number_in(cell, plain_number);
}

/// 3 of "gpu3_energy" and word "gpu".
std::optional<int32_t> number_behind(std::string_view title, std::string_view word) {
  if (!title.starts_with(word) || !title.ends_with("_energy")) return std::nullopt;
  title.remove_prefix(word.size());
  const auto found = whole_number(title.substr(0, title.size() - 7));
  return found && *found < 65536 ? std::optional(static_cast<int32_t>(*found)) : std::nullopt;
}

/// "epoch_" of "epoch_12".
std::string family_of(std::string_view name) {
  while (!name.empty() && is_digit(name.back()))
    name.remove_suffix(1);
  return std::string(name);
}

bool is_step_name(std::string_view name) {
  const std::vector<std::string> words = words_of(family_of(name));
  return std::ranges::any_of(words, [](const std::string& word) {
    return word == "step" || word == "steps" || word == "iteration" || word == "iter";
  });
}

void add(std::optional<double>& sum, const std::optional<double>& more) {
  if (more) sum = sum.value_or(0) + *more;
}

}  // namespace

Result<void> Windows::read_zeus(std::string_view text, std::string_view name) {
  const TableHead head = head_of(text);
  const std::vector<std::string>& titles = head.titles;
  std::vector<std::string_view> cells;
  std::string_view rows = head.rows, line;
  int64_t empty = 0, lost = 0, partial = 0;
  while (next_line(rows, line)) {
    if (trimmed(line).empty() || trimmed(line) == head.line) continue;
    split_cells(line, head.form, cells);
    const std::size_t more = cells.size() - std::min(cells.size(), titles.size());
    Window window;
    for (std::size_t i = 1; i <= 1 + more && i < cells.size(); ++i)
      window.name += (i > 1 ? ", " : "") + std::string(cells[i]);
    const auto begin = moment_in(cells[0]);
    const auto elapsed =
        cells.size() >= titles.size() ? number(cells[2 + more]) : std::optional<double>();
    if (!begin || !elapsed || *elapsed < 0 || *elapsed > 1e8) {
      ++lost;
      continue;
    }
    if (*elapsed < 1e-9) {
      ++empty;
      continue;
    }
    is_relative_ |= begin->is_relative;
    window.begin_ns = begin->ns;
    window.end_ns = begin->ns + std::llround(*elapsed * 1e9);
    bool lacks_gpu = false;
    for (std::size_t i = 3; i < titles.size(); ++i) {
      const auto joules = number(cells[i + more]);
      lacks_gpu |= number_behind(titles[i], "gpu") && (!joules || *joules < 0);
      if (!joules || *joules < 0) continue;
      if (const auto gpu = number_behind(titles[i], "gpu")) window.joules[*gpu] = *joules;
      if (number_behind(titles[i], "cpu")) add(window.cpu_j, joules);
      if (number_behind(titles[i], "dram")) add(window.dram_j, joules);
    }
    partial += lacks_gpu ? 1 : 0;
    if (!lacks_gpu) windows_.push_back(std::move(window));
  }
  if (windows_.empty())
    return error(
        "{}: no window with a time and a duration (rows read like "
        "1700000000.25,step,1.5,450.2); check the file",
        name);
  if (empty > 0)
    notes_.push_back(fmt::format("{} windows have no duration and are left out", empty));
  if (lost > 0) notes_.push_back(fmt::format("{} lines are no windows and are left out", lost));
  if (partial > 0)
    notes_.push_back(fmt::format("{} windows lack the energy of a GPU and are left out", partial));
  return {};
}

Result<void> Windows::read_emissions(std::string_view text, std::string_view name) {
  const TableHead head = head_of(text);
  std::vector<std::string_view> cells;
  const auto cell = [&](const char* title) -> std::string_view {
    const auto at = std::ranges::find(head.titles, title) - head.titles.begin();
    return as_size(at) < cells.size() ? cells[as_size(at)] : "";
  };
  struct Row {
    std::optional<double> seconds, gpu, cpu, ram;
  };
  std::map<std::string, Row> runs;
  std::string_view rows = head.rows, line;
  int64_t lost = 0;
  while (next_line(rows, line)) {
    split_cells(line, head.form, cells);
    if (trimmed(line).empty() || trimmed(line) == head.line) continue;
    const auto seconds = number(cell("duration"));
    if (cells.size() != head.titles.size() || !seconds || *seconds <= 0) {
      ++lost;
      continue;
    }
    runs[std::string(cell("run_id"))] = {seconds, number(cell("gpu_energy")),
                                         number(cell("cpu_energy")), number(cell("ram_energy"))};
  }
  if (runs.empty()) return error("{}: no row with a duration; check the file", name);
  const auto add_kwh = [](std::optional<double>& sum, const std::optional<double>& more) {
    if (more && *more > 0) add(sum, *more * kwh);
  };
  // The energy of a run that does not tell that of its GPUs is not known.
  const auto tells_gpus = [](const auto& run) { return run.second.gpu.has_value(); };
  const std::size_t all = runs.size();
  if (std::ranges::any_of(runs, tells_gpus))
    std::erase_if(runs, [&](const auto& run) { return !tells_gpus(run); });
  if (runs.size() < all)
    notes_.push_back(fmt::format("{} of {} runs tell no energy of GPUs and are left out",
                                 all - runs.size(), all));
  for (const auto& [id, row] : runs) {
    seconds_ = seconds_.value_or(0) + *row.seconds;
    add_kwh(gpu_j_, row.gpu);
    add_kwh(cpu_j_, row.cpu);
    add_kwh(dram_j_, row.ram);
  }
  notes_.push_back(
      fmt::format("codecarbon gives energies of whole runs, of all GPUs together{}; those of CPU "
                  "and memory may be its models'",
                  runs.size() > 1 ? fmt::format(": {} runs are added", runs.size()) : ""));
  if (lost > 0) notes_.push_back(fmt::format("{} lines have no duration and are left out", lost));
  return {};
}

std::vector<const Windows::Window*> Windows::steps_of() const {
  std::vector<const Window*> all = mapped(windows_, [](const Window& window) { return &window; });
  std::ranges::stable_sort(all, [](const Window* a, const Window* b) {
    return a->begin_ns != b->begin_ns ? a->begin_ns < b->begin_ns : a->end_ns > b->end_ns;
  });
  if (std::ranges::any_of(all, [](const Window* one) { return is_step_name(one->name); }))
    std::erase_if(all, [](const Window* one) { return !is_step_name(one->name); });
  // Those in no other; where that is one, those in it.
  for (;;) {
    std::vector<const Window*> outer;
    for (const Window* const one : all)
      if (outer.empty() || one->begin_ns >= outer.back()->end_ns) outer.push_back(one);
    if (outer.size() > 1 || all.size() == 1) return outer;
    std::erase(all, outer.front());
  }
}

void Windows::add_devices(run::Run& run, const std::vector<const Window*>& steps) const {
  double seconds = 0, joules = 0;
  std::map<int32_t, double> of_gpus;
  for (const Window* const step : steps) {
    seconds += as_real(step->end_ns - step->begin_ns) * 1e-9;
    for (const auto& [gpu, energy] : step->joules)
      of_gpus[gpu] += energy, joules += energy;
  }
  for (const auto& [gpu, energy] : of_gpus) {
    const int32_t node = gpu / per_node_, local = gpu % per_node_;
    auto known = std::ranges::find_if(run.devices, [&](const run::Device& device) {
      return device.node == node && device.local == local;
    });
    if (known == run.devices.end()) {
      const auto index = static_cast<int32_t>(run.devices.size());
      run.devices.push_back({.index = index, .node = node, .local = local, .slot = local});
      known = run.devices.end() - 1;
    }
    run.summaries.resize(run.devices.size());
    run::DeviceSummary& summary = run.summaries[as_size(known->index)];
    summary.energy_j = energy / as_real(steps.size());
    summary.power_mean_w = energy / seconds;
  }
  run.numbers.recording_s = seconds;
  if (!of_gpus.empty()) run.numbers.recording_energy_j = joules;
}

void Windows::add_others(run::Run& run, const std::vector<const Window*>& steps) const {
  struct Others {
    int64_t count = 0;
    double seconds = 0, joules = 0;
  };
  std::map<std::string, Others> others;
  for (const Window& window : windows_) {
    if (holds(steps, &window)) continue;
    Others& all = others[family_of(window.name)];
    ++all.count;
    all.seconds += as_real(window.end_ns - window.begin_ns) * 1e-9;
    for (const auto& [gpu, energy] : window.joules)
      all.joules += energy;
  }
  for (const auto& [name, all] : others)
    run.manifest.notes.push_back(
        fmt::format("{} windows {} beside the steps: {} s, {} J of all GPUs", all.count, name,
                    significant(all.seconds, 4), significant(all.joules, 4)));
}

void Windows::add_to(run::Run& run, const std::optional<int64_t>& of_series) const {
  run.manifest.notes.insert(run.manifest.notes.end(), notes_.begin(), notes_.end());
  if (seconds_) {
    run.numbers.recording_s = seconds_;
    run.numbers.recording_energy_j = gpu_j_;
    run.numbers.recording_cpu_energy_j = cpu_j_;
    run.numbers.recording_dram_energy_j = dram_j_;
  }
  if (windows_.empty()) return;
  const std::vector<const Window*> steps = steps_of();
  if (!of_series) {
    if (is_relative_)
      run.manifest.notes.emplace_back("the windows begin at no wall clock's time");
    else
      run.manifest.epoch_unix_ns = steps.front()->begin_ns;
  }
  const int64_t epoch = of_series.value_or(steps.front()->begin_ns);
  std::set<std::string> names;
  for (const Window* const step : steps) {
    run.steps.push_back(
        {.begin = Instant(step->begin_ns - epoch), .end = Instant(step->end_ns - epoch)});
    names.insert(family_of(step->name));
    add(run.numbers.recording_cpu_energy_j, step->cpu_j);
    add(run.numbers.recording_dram_energy_j, step->dram_j);
  }
  run.manifest.notes.push_back(
      fmt::format("steps are the {} windows named {}; energies are means over them", steps.size(),
                  joined({names.begin(), names.end()}, ", ")));
  add_devices(run, steps);
  add_others(run, steps);
}

}  // namespace triplepoint::telemetry
