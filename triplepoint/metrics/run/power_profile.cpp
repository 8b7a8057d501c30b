// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/power_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "triplepoint/base/json.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::metrics {
namespace {

using Curve = std::vector<double>;  // W by bin

// Maximum number of bins for long recordings.
constexpr size_t most_bins = 200'000;
constexpr int stagger_steps = 40;  // of a step

struct Grid {
  int64_t begin = 0, bin = 1;  // ns
  size_t bins = 0;
};

double highest_of(const Curve& curve) {
  return *std::ranges::max_element(curve);
}
double lowest_of(const Curve& curve) {
  return *std::ranges::min_element(curve);
}
double swing_of(const Curve& curve) {
  return highest_of(curve) - lowest_of(curve);
}

/// Series of all nodes, or of all devices; empty if one is missing.
std::vector<const run::Series*> series_of(const run::Run& run, const char* signal, bool of_node,
                                          int32_t count) {
  std::vector<const run::Series*> found;
  const run::SeriesIndex index(run);
  for (int32_t i = 0; i < count; ++i) {
    const run::Series* series = index.find(signal, i, of_node);
    if (series == nullptr || series->times.size() < 3) return {};
    found.push_back(series);
  }
  return found;
}

/// From where all have begun to where the first ends.
std::optional<Grid> common_grid(const std::vector<const run::Series*>& all) {
  int64_t begin = all[0]->times.front().nanoseconds();
  int64_t end = std::numeric_limits<int64_t>::max(), finest = end;
  for (const run::Series* series : all) {
    const auto count = static_cast<int64_t>(series->times.size()) - 1;
    const int64_t first = series->times.front().nanoseconds();
    const int64_t last = series->times.back().nanoseconds();
    begin = std::max(begin, first);
    finest = std::min(finest, (last - first) / count);
    end = std::min(end, last + (last - first) / count);
  }
  if (finest <= 0 || end - begin < 2 * finest) return std::nullopt;
  Grid grid{.begin = begin, .bin = finest, .bins = 0};
  grid.bin = std::max(grid.bin, (end - begin) / static_cast<int64_t>(most_bins));
  grid.bins = as_size((end - begin) / grid.bin);
  return grid;
}

Curve on_grid(const run::Series& series, const Grid& grid) {
  Curve curve(grid.bins);
  size_t at = 0;
  for (size_t b = 0; b < grid.bins; ++b) {
    const int64_t time = grid.begin + static_cast<int64_t>(b) * grid.bin + grid.bin / 2;
    while (at + 1 < series.times.size() && series.times[at + 1].nanoseconds() <= time)
      ++at;
    curve[b] = series.values[at];
  }
  return curve;
}

void add_to(Curve& sum, const Curve& curve, double factor = 1) {
  sum.resize(curve.size());
  for (size_t b = 0; b < curve.size(); ++b)
    sum[b] += factor * curve[b];
}

struct NodeCurves {
  Grid grid;
  std::vector<Curve> nodes;
  bool of_devices_only = false;
};

std::optional<NodeCurves> curves_of(const run::Run& run) {
  if (run.devices.empty()) return std::nullopt;
  const int32_t last_node = most_of(run.devices, &run::Device::node);
  NodeCurves curves;
  const auto metered = series_of(run, "node_power_w", true, last_node + 1);
  const auto devices =
      metered.empty() ? series_of(run, "power_w", false, static_cast<int32_t>(run.devices.size()))
                      : metered;
  if (devices.empty()) return std::nullopt;
  const std::optional<Grid> grid = common_grid(devices);
  if (!grid) return std::nullopt;
  curves.grid = *grid;
  curves.of_devices_only = metered.empty();
  curves.nodes.resize(as_size(last_node) + 1);
  double efficiency = 1;
  if (metered.empty() && run.manifest.job)
    efficiency = run.manifest.job->cluster.host.conversion_efficiency;
  for (size_t i = 0; i < devices.size(); ++i) {
    const size_t node = metered.empty() ? as_size(run.devices[i].node) : i;
    add_to(curves.nodes[node], on_grid(*devices[i], *grid), 1 / efficiency);
  }
  return curves;
}

std::vector<Curve> grouped(const std::vector<Curve>& units, size_t per_group) {
  std::vector<Curve> groups((units.size() + per_group - 1) / per_group);
  for (size_t i = 0; i < units.size(); ++i)
    add_to(groups[i / per_group], units[i]);
  return groups;
}

PowerLevel level_of(const char* name, const std::vector<Curve>& units, Seconds bin,
                    Seconds window) {
  PowerLevel level{.name = name, .units = static_cast<int64_t>(units.size())};
  double own_peaks = 0;
  Curve sum;
  for (size_t i = 0; i < units.size(); ++i) {
    own_peaks += highest_of(units[i]);
    add_to(sum, units[i]);
    if (swing_of(units[i]) > swing_of(units[as_size(level.worst)]))
      level.worst = static_cast<int64_t>(i);
  }
  const Curve& worst = units[as_size(level.worst)];
  level.mean = mean(worst) * unit::W;
  level.lowest = lowest_of(worst) * unit::W;
  level.highest = highest_of(worst) * unit::W;
  if (own_peaks > 0) level.coincidence = highest_of(sum) / own_peaks;
  const auto lag = as_size(std::clamp(std::ceil(window / bin), 1., as_real(worst.size() - 1)));
  const double seconds = as_real(lag) * (bin / unit::s);
  for (size_t b = lag; b < worst.size(); ++b) {
    const double slope = (worst[b] - worst[b - lag]) / seconds;
    level.ramp_up_w_per_s = std::max(level.ramp_up_w_per_s, slope);
    level.ramp_down_w_per_s = std::max(level.ramp_down_w_per_s, -slope);
  }
  return level;
}

/// The site with its nodes shifted evenly over `share` of a step, as in a row of equal steps.
Curve staggered(const std::vector<Curve>& nodes, size_t step_bins, double share) {
  Curve sum(nodes[0].size());
  const size_t bins = nodes[0].size();
  for (size_t n = 0; n < nodes.size(); ++n) {
    const double part = as_real(n) / as_real(nodes.size());
    const auto shift = as_size(std::llround(part * share * as_real(step_bins)));
    for (size_t b = 0; b < bins; ++b)
      sum[(b + shift) % bins] += nodes[n][b];
  }
  return sum;
}

/// Whether nodes may begin a step apart: each holds whole replicas, which meet at its end alone.
bool holds_replicas_in_nodes(const run::Run& run) {
  if (!run.manifest.job) return true;
  const spec::Job& job = *run.manifest.job;
  const spec::Plan& plan = job.plan;
  const int64_t in_node = job.cluster.gpus_per_node;
  return plan.model_parallel_size() <= in_node && plan.expert_parallel_size <= in_node &&
         plan.sharding != spec::Sharding::parameters;
}

Smoothing smoothing_of(const NodeCurves& curves, const Curve& site, const PowerProfile& profile,
                       double allowed_share, bool replicas_in_nodes) {
  Smoothing smoothing;
  const double peak = highest_of(site), mean = triplepoint::mean(site);
  smoothing.allowed_swing = allowed_share * peak * unit::W;
  smoothing.storage = flattening_storage(site, profile.bin);
  smoothing.storage_power = std::max(peak - mean, mean - lowest_of(site)) * unit::W;
  smoothing.floor = (1 - allowed_share) * peak * unit::W;
  const double missing = sum_of(
      site, [&](const double watts) { return std::max(0., smoothing.floor / unit::W - watts); });
  const double per_step = profile.step / profile.bin / as_real(site.size());
  smoothing.floor_energy = missing * per_step * unit::W * profile.bin;
  smoothing.floor_share = smoothing.floor_energy / (mean * unit::W * profile.step);
  const auto step_bins = std::min(site.size(), as_size(std::llround(profile.step / profile.bin)));
  smoothing.staggered_swing = swing_of(site) * unit::W;
  if (!replicas_in_nodes) return smoothing;
  for (int i = 0; i <= stagger_steps && !smoothing.stagger_suffices; ++i) {
    const double share = 1.0 * i / stagger_steps;
    const Watts swing = swing_of(staggered(curves.nodes, step_bins, share)) * unit::W;
    smoothing.stagger_suffices = swing <= smoothing.allowed_swing;
    if (swing >= smoothing.staggered_swing && !smoothing.stagger_suffices) continue;
    smoothing.staggered_swing = swing;
    smoothing.stagger = share * profile.step;
  }
  return smoothing;
}

Seconds mean_step(const run::Run& run, Seconds otherwise) {
  if (run.steps.empty()) return otherwise;
  const Seconds sum =
      sum_of(run.steps, [](const run::StepRecord& step) { return step.end - step.begin; });
  return sum / as_real(run.steps.size());
}

}  // namespace

Joules flattening_storage(const std::vector<double>& watts, Seconds bin) {
  const double mean = triplepoint::mean(watts);
  double charge = 0, lowest = 0, highest = 0;
  for (const double value : watts) {
    charge += value - mean;
    lowest = std::min(lowest, charge);
    highest = std::max(highest, charge);
  }
  return (highest - lowest) * unit::W * bin;
}

std::optional<PowerProfile> power_profile(const run::Run& run, const PowerProfileOptions& options) {
  const std::optional<NodeCurves> curves = curves_of(run);
  if (!curves) return std::nullopt;
  PowerProfile profile;
  profile.of_devices_only = curves->of_devices_only;
  profile.bin = as_real(curves->grid.bin) * unit::ns;
  const Seconds whole = as_real(curves->grid.bins) * profile.bin;
  profile.step = std::min(whole, mean_step(run, whole));
  const auto per_rack = as_size(std::max<int64_t>(1, options.nodes_per_rack));
  const std::vector<Curve> site = grouped(curves->nodes, curves->nodes.size());
  const Seconds window = options.ramp_window;
  profile.levels = {level_of("node", curves->nodes, profile.bin, window),
                    level_of("rack", grouped(curves->nodes, per_rack), profile.bin, window),
                    level_of("all nodes", site, profile.bin, window)};
  profile.smoothing =
      smoothing_of(*curves, site[0], profile, options.allowed_swing, holds_replicas_in_nodes(run));
  profile.site_w = site[0];
  // A site does not coincide with itself: what is told there is how its racks peak together.
  profile.levels[2].coincidence = profile.levels[1].coincidence;
  return profile;
}

Json power_profile_json(const PowerProfile& profile) {
  const Smoothing& smoothing = profile.smoothing;
  Json json = {{"step_time_s", profile.step / unit::s},
               {"bin_s", profile.bin / unit::s},
               {"scope", profile.of_devices_only ? "devices" : "nodes"},
               {"levels", Json::array()},
               {"smoothing",
                {{"allowed_swing_w", smoothing.allowed_swing / unit::W},
                 {"storage_j", smoothing.storage / unit::J},
                 {"storage_w", smoothing.storage_power / unit::W},
                 {"floor_w", smoothing.floor / unit::W},
                 {"floor_j_per_step", smoothing.floor_energy / unit::J},
                 {"floor_share_of_energy", smoothing.floor_share},
                 {"stagger_s", smoothing.stagger / unit::s},
                 {"staggered_swing_w", smoothing.staggered_swing / unit::W},
                 {"stagger_suffices", smoothing.stagger_suffices}}},
               {"site_power_w", profile.site_w}};
  for (const PowerLevel& level : profile.levels)
    json["levels"].push_back({{"level", level.name},
                              {"units", level.units},
                              {"worst", level.worst},
                              {"mean_w", level.mean / unit::W},
                              {"lowest_w", level.lowest / unit::W},
                              {"peak_w", level.highest / unit::W},
                              {"swing_w", level.swing() / unit::W},
                              {"ramp_up_w_per_s", level.ramp_up_w_per_s},
                              {"ramp_down_w_per_s", level.ramp_down_w_per_s},
                              {"coincidence", level.coincidence}});
  return json;
}

}  // namespace triplepoint::metrics
