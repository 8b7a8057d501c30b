// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/thermal_groups.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "triplepoint/base/random.h"
#include "triplepoint/base/statistics.h"

namespace triplepoint::advise {

BestGroupings::BestGroupings(const std::vector<double>& ascending, size_t most)
    : n_(ascending.size()), sums_(n_ + 1), squares_(n_ + 1) {
  // Around the mean, so that sums of squares keep their digits.
  const double mean = std::accumulate(ascending.begin(), ascending.end(), 0.0) / as_real(n_);
  for (size_t i = 0; i < n_; ++i) {
    const double x = ascending[i] - mean;
    sums_[i + 1] = sums_[i] + x;
    squares_[i + 1] = squares_[i] + x * x;
  }
  left_.emplace_back(n_ + 1);
  for (size_t end = 1; end <= n_; ++end)
    left_[0][end] = scatter(0, end);
  for (size_t k = 1; k < std::min(most, n_); ++k) {
    left_.emplace_back(n_ + 1);
    begins_.emplace_back(n_ + 1);
    fill(k, k + 1, n_, k, n_ - 1);
  }
}

std::vector<size_t> BestGroupings::ends(size_t groups) const {
  std::vector<size_t> ends(groups, n_);
  for (size_t k = groups - 1; k > 0; --k)
    ends[k - 1] = begins_[k - 1][ends[k]];
  return ends;
}

double BestGroupings::scatter(size_t begin, size_t end) const {
  const double sum = sums_[end] - sums_[begin];
  const double within = squares_[end] - squares_[begin] - sum * sum / as_real(end - begin);
  return std::max(0.0, within);
}

void BestGroupings::fill(size_t k, size_t first, size_t last, size_t low, size_t high) {
  if (first > last) return;
  const size_t end = first + (last - first) / 2;
  size_t best = low;
  double least = -1;
  for (size_t begin = low; begin <= std::min(high, end - 1); ++begin) {
    const double left = left_[k - 1][begin] + scatter(begin, end);
    if (least < 0 || left < least) least = left, best = begin;
  }
  left_[k][end] = least;
  begins_[k - 1][end] = best;
  if (end > first) fill(k, first, end - 1, low, best);
  fill(k, end + 1, last, best, high);
}

namespace {

constexpr size_t fewest_to_group = 4, most_groups = 4, most_values = 512;
constexpr int64_t spreads = 999;
constexpr int most_rounds = 10;

using Members = std::vector<size_t>;

double least_gap(ThermalSign sign) {
  switch (sign) {
    case ThermalSign::temperature:
      return 3;
    case ThermalSign::clock:
      return 30;
    case ThermalSign::throttling:
      return 0.05;
  }
  return 0;
}

/// The first sign that more than half of the devices have, else that most have: one that lacks it
/// does not change by what the others are told apart.
ThermalSign choose_sign(const std::vector<ThermalSample>& samples, const GroupingOptions& options) {
  if (options.sign) return *options.sign;
  constexpr std::array signs = {ThermalSign::temperature, ThermalSign::clock,
                                ThermalSign::throttling};
  const auto count = [&](ThermalSign sign) {
    return std::ranges::count_if(
        samples, [&](const ThermalSample& one) { return reading(one, sign).has_value(); });
  };
  for (const ThermalSign sign : signs)
    if (2 * count(sign) > static_cast<std::ptrdiff_t>(samples.size())) return sign;
  return *std::ranges::max_element(signs, {}, count);
}

/// What even spreads of n values leave, as shares of their scatter: [draw][groups - 1].
std::vector<std::vector<double>> even_spreads(size_t n, size_t most) {
  std::vector<std::vector<double>> shares;
  std::vector<double> spread(n);
  for (int64_t draw = 0; draw < spreads; ++draw) {
    const RandomKey key{static_cast<uint64_t>(n), static_cast<uint64_t>(draw)};
    for (size_t i = 0; i < n; ++i)
      spread[i] = random_uniform(key, i);
    std::ranges::sort(spread);
    const BestGroupings groupings(spread, most);
    std::vector<double>& share = shares.emplace_back();
    for (size_t k = 1; k <= most; ++k)
      share.push_back(groupings.left(k) / groupings.left(1));
  }
  return shares;
}

double mean_of(const std::vector<double>& ascending, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i)
    sum += ascending[i];
  return sum / as_real(end - begin);
}

/// Least difference between the means of neighbouring groups.
double least_step(const std::vector<double>& ascending, const std::vector<size_t>& ends) {
  double least = ascending.back() - ascending.front();
  for (size_t k = 1; k < ends.size(); ++k)
    least = std::min(least, mean_of(ascending, ends[k - 1], ends[k]) -
                                mean_of(ascending, k > 1 ? ends[k - 2] : 0, ends[k - 1]));
  return least;
}

/// Values that differ by group only: how many groups, and where one ends and the next begins.
class Grouping {
 public:
  Grouping(size_t devices, ThermalSign sign, double significance)
      : sign_(sign), significance_(significance), thinned_(std::min(devices, most_values)) {
    // More groups than half of the devices would be none.
    most_ = devices < fewest_to_group ? 1 : std::min(most_groups, devices / 2);
    if (most_ > 1) spreads_ = even_spreads(thinned_, most_);
  }

  std::vector<Members> group(const std::vector<double>& values) {
    Members order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return values[a] < values[b]; });
    tests.clear();
    const std::vector<double> ascending =
        numbered(thinned_, [&](size_t i) { return values[order[i * order.size() / thinned_]]; });
    return cut(order, best_ends(ascending));
  }

  std::vector<GroupingTest> tests;

 private:
  std::vector<size_t> best_ends(const std::vector<double>& ascending) {
    std::vector<size_t> ends = {thinned_};
    const BestGroupings groupings(ascending, most_);
    if (most_ < 2 || !(groupings.left(1) > 0)) return ends;
    double best = 0;
    for (size_t k = 2; k <= most_; ++k) {
      const std::vector<size_t> these = groupings.ends(k);
      GroupingTest test = compare(k, groupings.left(k) / groupings.left(1));
      test.step = least_step(ascending, these);
      test.possible = test.chance <= significance_ && test.step > least_gap(sign_);
      if (test.possible && test.gain > best) best = test.gain, ends = these;
      tests.push_back(test);
    }
    return ends;
  }

  GroupingTest compare(size_t k, double left) const {
    constexpr double resolution = 1e-6;  // groups without any scatter: sensors read whole degrees
    double as_good = 1, logarithms = 0;
    for (const std::vector<double>& spread : spreads_) {
      as_good += spread[k - 1] <= left ? 1 : 0;
      logarithms += std::log(std::max(resolution, spread[k - 1]));
    }
    return {.groups = static_cast<int64_t>(k),
            .left = left,
            .chance = as_good / as_real(spreads + 1),
            .gain = logarithms / as_real(spreads) - std::log(std::max(resolution, left)),
            .step = 0,
            .possible = false};
  }

  std::vector<Members> cut(const Members& order, const std::vector<size_t>& ends) const {
    std::vector<Members> groups;
    size_t begin = 0;
    for (const size_t thinned : ends) {
      // The first device of the next group is the first that thinning kept of it.
      const size_t end = (thinned * order.size() + thinned_ - 1) / thinned_;
      groups.emplace_back(order.begin() + static_cast<std::ptrdiff_t>(begin),
                          order.begin() + static_cast<std::ptrdiff_t>(end));
      begin = end;
    }
    return groups;
  }

  ThermalSign sign_;
  double significance_;
  size_t thinned_, most_ = 1;
  std::vector<std::vector<double>> spreads_;
};

using DeviceKey = std::pair<int64_t, int64_t>;
DeviceKey key_of(const ThermalSample& sample) {
  return {sample.node, sample.local};
}

std::optional<double> mean_reading(const std::vector<const ThermalSample*>& samples,
                                   std::optional<double> ThermalSample::*field) {
  double sum = 0, count = 0;
  for (const ThermalSample* sample : samples)
    if (sample->*field) sum += *(sample->*field), count += 1;
  if (count == 0) return std::nullopt;
  return sum / count;
}

ThermalSample mean_sample(const std::vector<const ThermalSample*>& samples) {
  return {.node = samples.front()->node,
          .local = samples.front()->local,
          .temperature_c = mean_reading(samples, &ThermalSample::temperature_c),
          .power_w = mean_reading(samples, &ThermalSample::power_w),
          .clock_mhz = mean_reading(samples, &ThermalSample::clock_mhz),
          .throttled = mean_reading(samples, &ThermalSample::throttled)};
}

/// K/W by least squares of temperature over power, each device around its own means.
std::optional<double> slope_within_devices(const std::vector<ThermalSample>& samples,
                                           const std::vector<ThermalSample>& means) {
  std::map<DeviceKey, const ThermalSample*> mean_of;
  for (const ThermalSample& mean : means)
    mean_of[key_of(mean)] = &mean;
  double together = 0, power = 0;
  for (const ThermalSample& sample : samples) {
    const auto known = mean_of.find(key_of(sample));
    if (known == mean_of.end() || !sample.temperature_c || !sample.power_w) continue;
    const ThermalSample& mean = *known->second;
    const double watts = *sample.power_w - *mean.power_w;
    together += watts * (*sample.temperature_c - *mean.temperature_c);
    power += watts * watts;
  }
  if (power <= as_real(samples.size())) return std::nullopt;  // within about 1 W
  return std::max(0.0, together / power);
}

double chosen_slope(const std::vector<ThermalSample>& samples,
                    const std::vector<ThermalSample>& devices, const GroupingOptions& options) {
  const bool powers = std::ranges::any_of(
      devices, [](const ThermalSample& one) { return one.power_w.has_value(); });
  if (!powers) return 0;
  if (options.kelvin_per_watt) return *options.kelvin_per_watt;
  return slope_within_devices(samples, devices).value_or(0);
}

/// The sign of each device at the mean load; lower is colder.
std::vector<double> values_at_equal_load(const std::vector<ThermalSample>& devices,
                                         ThermalSign sign, double slope) {
  double power = 0, count = 0;
  for (const ThermalSample& device : devices)
    if (device.power_w) power += *device.power_w, count += 1;
  const double mean_power = power / std::max(1.0, count);
  std::vector<double> values;
  for (const ThermalSample& device : devices) {
    const double value = reading(device, sign).value();
    if (sign == ThermalSign::temperature && slope > 0 && device.power_w)
      values.push_back(value - slope * (*device.power_w - mean_power));
    else
      values.push_back(sign == ThermalSign::clock ? -value : value);
  }
  return values;
}

/// Mean of each node over what its devices' groups leave, less the mean of all nodes.
std::vector<double> effects_of_nodes(const std::vector<ThermalSample>& devices,
                                     const std::vector<double>& values,
                                     const std::vector<double>& expected) {
  const int64_t nodes =
      most_of(devices, [](const ThermalSample& device) { return device.node + 1; });
  std::vector<double> effect(as_size(nodes)), count(effect.size());
  for (size_t i = 0; i < devices.size(); ++i) {
    effect[as_size(devices[i].node)] += values[i] - expected[i];
    count[as_size(devices[i].node)] += 1;
  }
  double mean = 0;
  for (size_t n = 0; n < effect.size(); ++n) {
    effect[n] /= std::max(1.0, count[n]);
    mean += effect[n] / as_real(effect.size());
  }
  for (double& one : effect)
    one -= mean;
  return effect;
}

/// Median of the means of all pairs (Hodges and Lehmann): one odd device hardly moves it, and slots
/// of two kinds have theirs between them.
double middle_of(const std::vector<double>& values) {
  std::vector<double> pairs;
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t j = i; j < values.size(); ++j)
      pairs.push_back(0.5 * (values[i] + values[j]));
  return upper_median(std::move(pairs));
}

/// What to expect of a device before groups are known: its node's middle moves with the node, so
/// that effects_of_nodes() finds the differences between the middles.
std::vector<double> first_expectations(const std::vector<ThermalSample>& devices,
                                       const std::vector<double>& values) {
  std::map<int64_t, std::vector<double>> nodes;
  for (size_t i = 0; i < devices.size(); ++i)
    nodes[devices[i].node].push_back(values[i]);
  std::map<int64_t, double> shift;  // of a node's mean from its middle
  for (const auto& [node, own] : nodes)
    shift[node] =
        std::accumulate(own.begin(), own.end(), 0.0) / as_real(own.size()) - middle_of(own);
  return mapped(devices, [&](const ThermalSample& device) { return shift[device.node]; });
}

double mean_over(const Members& members, const std::vector<double>& values) {
  const double sum = sum_of(members, [&](const size_t i) { return values[i]; });
  return sum / as_real(members.size());
}

ThermalGroup describe(Members members, const std::vector<ThermalSample>& devices,
                      const std::vector<double>& adjusted) {
  std::ranges::sort(members);
  const std::vector<const ThermalSample*> samples =
      mapped(members, [&](const size_t i) { return &devices[i]; });
  const ThermalSample mean = mean_sample(samples);
  const double own = mean_over(members, adjusted);
  return {.members = std::move(members),
          .mean = own,
          .temperature_c = mean.temperature_c,
          .power_w = mean.power_w,
          .clock_mhz = mean.clock_mhz,
          .throttled = mean.throttled};
}

}  // namespace

std::optional<double> reading(const ThermalSample& sample, ThermalSign sign) {
  switch (sign) {
    case ThermalSign::temperature:
      return sample.temperature_c;
    case ThermalSign::clock:
      return sample.clock_mhz;
    case ThermalSign::throttling:
      return sample.throttled;
  }
  return std::nullopt;
}

const char* name_of(ThermalSign sign) {
  return word_for<ThermalSign::throttling>({"temperature", "clock", "throttling"}, sign);
}

std::vector<ThermalSample> mean_samples(const std::vector<ThermalSample>& samples) {
  std::map<DeviceKey, std::vector<const ThermalSample*>> devices;
  for (const ThermalSample& sample : samples)
    devices[key_of(sample)].push_back(&sample);
  return mapped(devices, [](const auto& device) { return mean_sample(device.second); });
}

ThermalGroups find_thermal_groups(const std::vector<ThermalSample>& samples,
                                  const GroupingOptions& options) {
  const std::vector<ThermalSample> all = mean_samples(samples);
  ThermalGroups found;
  found.sign = choose_sign(all, options);
  std::vector<size_t> read;  // places of those that have it
  std::vector<ThermalSample> devices;
  int64_t nodes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    nodes = std::max(nodes, all[i].node + 1);
    if (!reading(all[i], found.sign)) {
      found.unread.push_back(i);
      continue;
    }
    read.push_back(i);
    devices.push_back(all[i]);
  }
  TPT_EXPECT(!devices.empty());
  found.load_slope =
      found.sign == ThermalSign::temperature ? chosen_slope(samples, devices, options) : 0;
  const std::vector<double> values = values_at_equal_load(devices, found.sign, found.load_slope);
  std::vector<double> expected = first_expectations(devices, values);
  std::vector<Members> groups;
  Grouping grouping(devices.size(), found.sign, options.significance);
  for (int round = 0; round < most_rounds; ++round) {
    found.node_effects = effects_of_nodes(devices, values, expected);
    found.adjusted = values;
    for (size_t i = 0; i < devices.size(); ++i)
      found.adjusted[i] -= found.node_effects[as_size(devices[i].node)];
    std::vector<Members> next = grouping.group(found.adjusted);
    const bool settled = next == groups;
    groups = std::move(next);
    if (settled) break;
    for (const Members& group : groups)
      for (const size_t i : group)
        expected[i] = mean_over(group, found.adjusted);
  }
  found.tests = std::move(grouping.tests);
  found.node_effects.resize(as_size(nodes));
  found.group_of.assign(all.size(), groups.size() - 1);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const size_t i : groups[g])
      found.group_of[read[i]] = g;
    ThermalGroup group = describe(std::move(groups[g]), devices, found.adjusted);
    for (size_t& i : group.members)
      i = read[i];
    found.groups.push_back(std::move(group));
  }
  return found;
}

std::vector<std::vector<int64_t>> cold_first_order(const ThermalGroups& found,
                                                   const std::vector<ThermalSample>& devices) {
  std::vector<std::vector<int64_t>> order(found.node_effects.size());
  for (const ThermalGroup& group : found.groups)
    for (const size_t i : group.members)
      order[as_size(devices[i].node)].push_back(devices[i].local);
  for (const size_t i : found.unread)
    order[as_size(devices[i].node)].push_back(devices[i].local);
  return order;
}

}  // namespace triplepoint::advise
