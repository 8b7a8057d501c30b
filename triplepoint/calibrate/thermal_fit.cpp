// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/thermal_fit.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/spec/machine_names.h"

#include "triplepoint/calibrate/kernel_simplex.h"
#include "triplepoint/calibrate/thermal_pulses.h"
#include "triplepoint/calibrate/thermal_tables.h"
#include "triplepoint/calibrate/thermal_trace.h"

namespace triplepoint::calibrate {
namespace {

constexpr Seconds long_trace = 60 * unit::s;

/// One package with everything that was seen of it.
struct Package {
  std::string gpu;
  spec::ThermalLadder known;  // what is not free, and how many poles there are
  spec::Chassis chassis;
  std::vector<std::vector<ThermalTrace>> nodes;
  bool is_long = false;
};

bool has_load(const ThermalTrace& trace) {
  const auto [low, high] =
      std::minmax_element(trace.power.begin(), trace.power.end(),
                          [](const auto& a, const auto& b) { return a.value < b.value; });
  return low != trace.power.end() && high->value - low->value > 25;
}

Seconds length_of(const ThermalTrace& trace) {
  return trace.temperature.back().at - trace.temperature.front().at;
}

/// Ranges of a ladder's numbers, by rung from the die on. A rung of a large package is three times
/// smaller in resistance and larger in capacity than one of a small package, hardly more.
struct Range {
  double start, low, high;
};
/// They start at a die of one square inch of silicon, its lid, a slab of copper and a finned sink.
Range resistance_range(size_t rung) {
  return {rung < 3 ? 0.025 : 0.015, 0.003, 0.06};
}
Range capacity_range(size_t rung, size_t rungs) {
  if (rung == 0) return {0.8, 0.3, 60};
  if (rung + 1 == rungs) return {1300, 200, 20000};
  return rung == 1 ? Range{8, 2, 2000} : Range{110, 30, 5000};
}

/// The numbers that are looked for, in logarithms: resistances, capacities, then the fans'.
struct Search {
  size_t rungs = 0;  // free ones
  bool fans = false;
  std::vector<Parameter> parameters;
};

void add(Search& search, std::string name, Range range) {
  search.parameters.push_back(
      {std::move(name), std::log(range.start), std::log(range.low), std::log(range.high)});
}

Search search_of(const Package& package) {
  Search search;
  const size_t all = package.known.capacities.size();
  search.rungs = package.is_long ? all : all - 1;
  search.fans = package.is_long;
  for (size_t k = 0; k < search.rungs; ++k)
    add(search, fmt::format("resistance {}", k), resistance_range(k));
  for (size_t k = 0; k < search.rungs; ++k)
    add(search, fmt::format("capacity {}", k), capacity_range(k, all));
  if (!search.fans) return search;
  add(search, "cluster.chassis.fan_target", {65, 50, 90});
  add(search, "cluster.chassis.fan_slew_per_s", {0.003, 0.0002, 0.05});
  add(search, "cluster.chassis.fan_floor", {0.5, 0.2, 0.9});
  return search;
}

struct Trial {
  spec::ThermalLadder ladder;
  spec::Chassis chassis;
};

Trial trial_at(const Package& package, const Search& search, const std::vector<double>& at) {
  Trial trial{package.known, package.chassis};
  for (size_t k = 0; k < search.rungs; ++k) {
    trial.ladder.resistances[k] = std::exp(at[k]) * (unit::K / unit::W);
    trial.ladder.capacities[k] = std::exp(at[search.rungs + k]) * (unit::J / unit::K);
  }
  if (!search.fans) return trial;
  trial.chassis.fan_target = Celsius(std::exp(at[2 * search.rungs]));
  trial.chassis.fan_slew_per_s = std::exp(at[2 * search.rungs + 1]);
  trial.chassis.fan_floor = std::exp(at[2 * search.rungs + 2]);
  return trial;
}

using Rows = std::vector<ScoredRow>;

/// All devices of one node.
using Node = std::vector<ThermalTrace>;

Rows readings(const Node& node, const Trial& trial) {
  const auto shown = predict_node(node, trial.ladder, trial.chassis);
  Rows rows;
  for (size_t k = 0; k < shown.size(); ++k)
    for (size_t i = 0; i < shown[k].size(); ++i) {
      ScoredRow row;
      row.quantity = "temperature_c";
      row.measured = node[k].temperature[i].value;
      row.predicted = shown[k][i];
      rows.push_back(std::move(row));
    }
  return rows;
}

Rows readings(const std::vector<Node>& nodes, const Trial& trial) {
  Rows rows;
  for (const Node& node : nodes) {
    const Rows part = readings(node, trial);
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

double cost_of(const Rows& rows) {
  double sum = 0;
  for (const ScoredRow& row : rows)
    sum += std::min(std::pow(row.predicted - row.measured, 2), 4.0);
  return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

std::vector<double> best_for(const Package& package, const std::vector<Node>& nodes) {
  constexpr int evaluations = 600;
  const Search search = search_of(package);
  return minimize(
             search.parameters,
             [&](const std::vector<double>& at) {
               return cost_of(readings(nodes, trial_at(package, search, at)));
             },
             evaluations)
      .at;
}

ThermalTrace part_of(const ThermalTrace& trace, bool second) {
  const Seconds middle = trace.temperature.front().at + 0.5 * length_of(trace);
  ThermalTrace part{.name = trace.name, .gpu = trace.gpu, .power = {}, .temperature = {}};
  for (const ThermalTrace::Sample& sample : trace.power)
    if ((sample.at >= middle) == second) part.power.push_back(sample);
  for (const ThermalTrace::Sample& sample : trace.temperature)
    if ((sample.at >= middle) == second) part.temperature.push_back(sample);
  return part;
}

FitErrors held_out_errors(const Package& package) {
  const Search search = search_of(package);
  if (package.nodes.size() == 1) {
    Node first;
    for (const ThermalTrace& trace : package.nodes[0])
      first.push_back(part_of(trace, false));
    const auto at = best_for(package, {first});
    const Rows all = readings(package.nodes[0], trial_at(package, search, at));
    return errors_of(Rows(all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end()));
  }
  Rows unseen;
  for (size_t hold = 0; hold < package.nodes.size(); ++hold) {
    std::vector<Node> others = package.nodes;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(hold));
    const auto at = best_for(package, others);
    const Rows part = readings(package.nodes[hold], trial_at(package, search, at));
    unseen.insert(unseen.end(), part.begin(), part.end());
  }
  return errors_of(unseen);
}

FitErrors one_pole_errors(const Package& package) {
  Package lumped = package;
  lumped.known.resistances = {0.04 * (unit::K / unit::W)};
  lumped.known.capacities = {100 * (unit::J / unit::K)};
  lumped.chassis.sink_flow_exponent = 0;
  const std::vector<Parameter> parameters = {
      {"resistance", std::log(0.04), std::log(0.005), std::log(0.2)},
      {"capacity", std::log(100), std::log(1), std::log(10000)}};
  const auto trial = [&](const std::vector<double>& at) {
    Trial one{lumped.known, lumped.chassis};
    one.ladder.resistances[0] = std::exp(at[0]) * (unit::K / unit::W);
    one.ladder.capacities[0] = std::exp(at[1]) * (unit::J / unit::K);
    return one;
  };
  const auto at =
      minimize(
          parameters,
          [&](const std::vector<double>& x) { return cost_of(readings(package.nodes, trial(x))); },
          200)
          .at;
  return errors_of(readings(package.nodes, trial(at)));
}

std::string three_digits(double value) {
  const double scale = std::pow(10, 2 - std::floor(std::log10(value)));
  return fmt::format("{}", std::round(value * scale) / scale);
}

/// One line of the file: all rungs, free or not.
FoundNumber array_of(const char* key, const std::vector<double>& values, const char* unit) {
  std::string text;
  for (const double value : values)
    text += fmt::format("{}\"{} {}\"", text.empty() ? "" : ", ", three_digits(value), unit);
  return {.key = fmt::format("thermal.{}", key), .text = fmt::format("[{}]", text)};
}

bool at_bound(const Parameter& p, double x) {
  const double room = 1e-6 * (p.high - p.low);
  return x <= p.low + room || x >= p.high - room;
}

std::vector<FoundNumber> numbers_of(const Package& package, const Search& search,
                                    const std::vector<double>& at) {
  const Trial trial = trial_at(package, search, at);
  std::vector<double> r, c;
  for (const KelvinsPerWatt value : trial.ladder.resistances)
    r.push_back(value / (unit::K / unit::W));
  for (const JoulesPerKelvin value : trial.ladder.capacities)
    c.push_back(value / (unit::J / unit::K));
  std::vector<FoundNumber> numbers = {array_of("resistances", r, "K/W"),
                                      array_of("capacities", c, "J/K")};
  for (size_t i = 0; i < at.size(); ++i) {
    const bool rung = i < 2 * search.rungs;
    FoundNumber& number =
        rung ? numbers[i < search.rungs ? 0 : 1]
             : numbers.emplace_back(FoundNumber{.key = search.parameters[i].name,
                                                .text = three_digits(std::exp(at[i]))});
    number.bound = number.bound || at_bound(search.parameters[i], at[i]);
  }
  return numbers;
}

/// Rounded as the file will hold them, so that the errors are the file's.
std::vector<double> as_written(std::vector<double> at) {
  for (double& x : at)
    x = std::log(std::stod(three_digits(std::exp(x))));
  return at;
}

ThermalFit solve(const Package& package) {
  const Search search = search_of(package);
  const std::vector<double> at = as_written(best_for(package, package.nodes));
  const Rows rows = readings(package.nodes, trial_at(package, search, at));
  ThermalFit fit;
  fit.ladder.gpu = package.gpu;
  fit.ladder.block = "thermal";
  fit.ladder.unit = "K";
  fit.ladder.numbers = numbers_of(package, search, at);
  fit.ladder.before = errors_of(readings(package.nodes, {package.known, package.chassis}));
  fit.ladder.after = errors_of(rows);
  fit.ladder.held_out = held_out_errors(package);
  fit.one_pole = one_pole_errors(package);
  const auto close = std::count_if(rows.begin(), rows.end(), [](const ScoredRow& row) {
    return std::abs(row.predicted - row.measured) <= 1.5;
  });
  fit.within_1_5_k = static_cast<double>(close) / static_cast<double>(rows.size());
  return fit;
}

Result<Package> package_of(const std::string& name, const spec::Library& library) {
  const spec::Gpu gpu = TPT_TRY(spec::load_gpu(library, name));
  const spec::Cluster node = TPT_TRY(spec::load_cluster(library, usual_node_of(name)));
  if (!gpu.thermal) return error(fmt::format("{} has no thermal ladder to begin with", name));
  return Package{name, *gpu.thermal, lonely_seat(node.chassis), {}, false};
}

Result<std::vector<Package>> packages_in(const CsvTable& table, const spec::Library& library) {
  std::vector<Package> packages;
  for (Node node : nodes_of(read_thermal_traces(table))) {
    const auto name = spec::gpu_named(node.front().gpu);
    if (!name || std::none_of(node.begin(), node.end(), has_load)) continue;
    auto found = std::find_if(packages.begin(), packages.end(),
                              [&](const Package& package) { return package.gpu == *name; });
    if (found == packages.end()) {
      packages.push_back(TPT_TRY(package_of(*name, library)));
      found = packages.end() - 1;
    }
    for (ThermalTrace& trace : node) {
      trace = explain_pulses(trace, found->known, found->chassis);
      found->is_long = found->is_long || length_of(trace) > long_trace;
    }
    found->nodes.push_back(std::move(node));
  }
  return packages;
}

}  // namespace

Result<std::vector<ThermalFit>> fit_thermal(const CsvTable& table, const spec::Library& library) {
  std::vector<ThermalFit> fits;
  for (const Package& package : TPT_TRY(packages_in(table, library)))
    fits.push_back(solve(package));
  if (fits.empty())
    return error(
        fmt::format("{}: no trace to fit heat to (a GPU of the library whose power changes "
                    "by 25 W or more); columns: docs/formats.md",
                    table.name()));
  return fits;
}

}  // namespace triplepoint::calibrate
