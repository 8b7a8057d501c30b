// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/power_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "triplepoint/spec/machine_names.h"

#include "triplepoint/calibrate/dvfs_table.h"
#include "triplepoint/calibrate/kernel_simplex.h"
#include "triplepoint/calibrate/power_loads.h"
#include "triplepoint/calibrate/power_tables.h"
#include "triplepoint/calibrate/table_cells.h"

namespace triplepoint::calibrate {
namespace {

using spec::OpClass;
using spec::PowerCoefficients;

/// A coefficient that may be free, and how it is written. Fits begin at `start`, not at what the
/// library says now: a fit of what was fitted must find the same.
struct Knob {
  const char* key;
  double start, low, high;
  bool watts;
  std::function<void(PowerCoefficients&, double)> set;
};

double& joules(PowerCoefficients& power, OpClass op_class) {
  return power.joules_per_tflop[static_cast<size_t>(op_class)];
}

void set_vector(PowerCoefficients& power, double value) {
  for (const OpClass c : {OpClass::norm, OpClass::elementwise, OpClass::router, OpClass::embedding,
                          OpClass::loss, OpClass::optimizer})
    joules(power, c) = value;
}

Knob waiting_knob() {
  return {"waiting", 100, 60, 300, true, [](auto& p, double v) { p.waiting = v * unit::W; }};
}
Knob memory_knob() {
  return {"joules_per_hbm_gb",
          0.09,
          0.03,
          0.2,
          false,
          [](auto& p, double v) { p.joules_per_hbm_gb = v; }};
}

/// What locked clocks and caps tell: the voltage curve and what memory costs at it.
std::vector<Knob> grid_knobs() {
  return {
      waiting_knob(),
      memory_knob(),
      {"clock_exponent", 5, 0.5, 10, false, [](auto& p, double v) { p.clock_exponent = v; }},
      {"energy_floor", 0.45, 0.2, 0.8, false, [](auto& p, double v) { p.energy_floor = v; }},
      {"hbm_clocked_share", 0.6, 0, 1, false, [](auto& p, double v) { p.hbm_clocked_share = v; }}};
}

/// What stated rates of bytes and fp32 operations tell.
std::vector<Knob> roofline_knobs() {
  return {waiting_knob(), memory_knob(), {"joules_per_tflop.vector", 4, 1, 10, false, set_vector}};
}

std::vector<Knob> attention_knobs() {
  return {{"joules_per_tflop.attention", 0.6, 0.2, 2.5, false,
           [](auto& p, double v) { joules(p, OpClass::attention) = v; }}};
}

using Score = std::function<Result<TableScores>(GpuShelf&)>;

/// One GPU of a table: what scores it, and what is free.
struct Problem {
  spec::Gpu gpu;
  Score score;
  std::vector<Knob> knobs;
  std::set<std::string> rows;  // of this GPU
};

std::vector<ScoredRow> powers(const Problem& problem, const spec::Gpu& trial,
                              const spec::Library& library) {
  GpuShelf shelf(library);
  shelf.put(trial);
  std::vector<ScoredRow> rows;
  const auto scores = problem.score(shelf);
  if (!scores) return rows;
  for (const ScoredRow& row : scores->scored)
    if (row.quantity == "power_w" && problem.rows.contains(row.row_id)) rows.push_back(row);
  return rows;
}

/// Which rows are left out together when a fit is tried on rows that it has not seen.
std::vector<size_t> parts_of(const std::vector<ScoredRow>& rows) {
  constexpr size_t folds = 5;
  std::vector<std::string> sweeps;
  std::vector<size_t> parts;
  for (const ScoredRow& row : rows) {
    const auto found = std::find(sweeps.begin(), sweeps.end(), row.sweep);
    parts.push_back(static_cast<size_t>(found - sweeps.begin()));
    if (found == sweeps.end()) sweeps.push_back(row.sweep);
  }
  if (sweeps.size() > 1 && sweeps.size() <= folds) return parts;
  for (size_t i = 0; i < parts.size(); ++i)
    parts[i] = i % folds;
  return parts;
}

double cost_of(const std::vector<ScoredRow>& rows, const std::vector<size_t>& parts, size_t hold) {
  double sum = 0, counted = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (parts[i] == hold) continue;
    sum += std::min(std::abs(std::log(rows[i].predicted / rows[i].measured)), 0.25);
    ++counted;
  }
  return counted > 0 ? sum / counted : 0;
}

/// What rows say nothing about stays where it began.
double pull(const std::vector<Knob>& knobs, const std::vector<double>& at) {
  constexpr double weight = 0.02;
  double sum = 0;
  for (size_t i = 0; i < at.size(); ++i)
    sum += std::pow((at[i] - knobs[i].start) / (knobs[i].high - knobs[i].low), 2);
  return weight * sum;
}

spec::Gpu with_numbers(const Problem& problem, const std::vector<double>& at) {
  spec::Gpu gpu = problem.gpu;
  for (size_t i = 0; i < at.size(); ++i)
    problem.knobs[i].set(*gpu.power, at[i]);
  return gpu;
}

/// Three significant digits and a half: what is written is what was meant.
double rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

std::vector<double> best_without(const Problem& problem, const spec::Library& library,
                                 const std::vector<size_t>& parts, size_t hold) {
  constexpr int evaluations = 240;
  std::vector<Parameter> parameters;
  for (const Knob& knob : problem.knobs)
    parameters.push_back({knob.key, knob.start, knob.low, knob.high});
  std::vector<double> at =
      minimize(
          parameters,
          [&](const std::vector<double>& tried) {
            return cost_of(powers(problem, with_numbers(problem, tried), library), parts, hold) +
                   pull(problem.knobs, tried);
          },
          evaluations)
          .at;
  for (double& value : at)
    value = rounded(value);
  return at;
}

constexpr size_t nothing = static_cast<size_t>(-1);

/// Every part predicted by a fit that has not seen it.
FitErrors held_out_errors(const Problem& problem, const spec::Library& library,
                          const std::vector<size_t>& parts) {
  std::vector<ScoredRow> unseen;
  const std::set<size_t> all(parts.begin(), parts.end());
  for (const size_t hold : all) {
    const auto at = best_without(problem, library, parts, hold);
    const auto rows = powers(problem, with_numbers(problem, at), library);
    for (size_t i = 0; i < rows.size(); ++i)
      if (parts[i] == hold) unseen.push_back(rows[i]);
  }
  return errors_of(unseen);
}

CoefficientFit solve(const Problem& problem, const spec::Library& library) {
  const std::vector<ScoredRow> start = powers(problem, problem.gpu, library);
  const std::vector<size_t> parts = parts_of(start);
  const std::vector<double> at = best_without(problem, library, parts, nothing);
  CoefficientFit fit{.gpu = problem.gpu.name,
                     .block = "power",
                     .numbers = {},
                     .before = errors_of(start),
                     .after = errors_of(powers(problem, with_numbers(problem, at), library)),
                     .held_out = held_out_errors(problem, library, parts),
                     .unit = "per cent"};
  for (size_t i = 0; i < at.size(); ++i) {
    const Knob& knob = problem.knobs[i];
    fit.numbers.push_back(
        {.key = fmt::format("power.{}", knob.key),
         .text = knob.watts ? fmt::format("\"{} W\"", at[i]) : fmt::format("{}", at[i]),
         .value = at[i],
         .low = knob.low,
         .high = knob.high,
         .bound = at[i] <= knob.low || at[i] >= knob.high});
  }
  return fit;
}

/// What a row lets one fit, of the GPU that it names.
std::vector<Knob> knobs_of(const CsvTable& table, const Cells& cells) {
  if (is_attention_table(table.header())) return attention_knobs();
  if (!is_dvfs_table(table.header())) return {};
  if (cells.has("mem_gbps") && cells.has("fp32_gflops")) return roofline_knobs();
  if (cells.has("lock_sm_mhz") && cells.has("power_cap_w")) return grid_knobs();
  return {};
}

Score score_of(const CsvTable& table, const spec::Library& library) {
  return [&table, &library](GpuShelf& shelf) -> Result<TableScores> {
    if (is_dvfs_table(table.header())) return score_dvfs_points(table, shelf);
    return score_kernel_power_rows(table, library, shelf);
  };
}

Problem* problem_of(std::vector<Problem>& problems, const std::string& gpu) {
  const auto found = std::find_if(problems.begin(), problems.end(),
                                  [&](const Problem& problem) { return problem.gpu.name == gpu; });
  return found == problems.end() ? nullptr : &*found;
}

std::vector<Problem> problems_in(const CsvTable& table, const spec::Library& library) {
  std::vector<Problem> problems;
  for (size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    const auto name = spec::gpu_named(cells.has("gpu") ? cells.text("gpu") : cells.text("system"));
    const std::vector<Knob> knobs = knobs_of(table, cells);
    if (!name || knobs.empty()) continue;
    if (Problem* problem = problem_of(problems, *name)) {
      problem->rows.insert(cells.id());
      continue;
    }
    auto gpu = spec::load_gpu(library, *name);
    if (!gpu || !gpu->power) continue;
    problems.push_back({*std::move(gpu), score_of(table, library), knobs, {}});
    problems.back().rows.insert(cells.id());
  }
  return problems;
}

}  // namespace

FitErrors errors_of(const std::vector<ScoredRow>& rows) {
  FitErrors errors{.rows = static_cast<int64_t>(rows.size())};
  if (rows.empty()) return errors;
  std::vector<double> sizes;
  double squares = 0;
  for (const ScoredRow& row : rows) {
    const bool kelvins = row.quantity == "temperature_c";
    sizes.push_back(std::abs(kelvins ? row.predicted - row.measured : row.error_pct()));
    squares += sizes.back() * sizes.back();
  }
  std::sort(sizes.begin(), sizes.end());
  errors.median = sizes[sizes.size() / 2];
  errors.p90 = sizes[sizes.size() * 9 / 10];
  errors.rms = std::sqrt(squares / static_cast<double>(sizes.size()));
  return errors;
}

Result<std::vector<CoefficientFit>> fit_power(const CsvTable& table, const spec::Library& library) {
  std::vector<CoefficientFit> fits;
  for (const Problem& problem : problems_in(table, library))
    fits.push_back(solve(problem, library));
  if (fits.empty())
    return error(fmt::format(
        "{}: nothing to fit power to (neither locked clocks, nor rates of bytes and "
        "fp32 operations, nor fused attention with its power, of a GPU in the library); "
        "columns of the tables: docs/formats.md",
        table.name()));
  return fits;
}

}  // namespace triplepoint::calibrate
