// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::advise {

/// The groupings of ascending values into 1, 2, ... groups that leave the least scatter (sum of
/// squares around the groups' means): k-means in one dimension, exactly.
///
///   left(k, end) = min over begin of left(k - 1, begin) + scatter(begin, end)
///
/// The best begin moves monotonically with the end, so a row takes n log n.
/// Source: Wu, J. Algorithms 12, 1991; Wang and Song, R Journal 3, 2011 (Ckmeans.1d.dp).
class BestGroupings {
 public:
  BestGroupings(const std::vector<double>& ascending, std::size_t most);

  double left(std::size_t groups) const { return left_[groups - 1][n_]; }
  /// Where each of the groups ends.
  std::vector<std::size_t> ends(std::size_t groups) const;

 private:
  double scatter(std::size_t begin, std::size_t end) const;
  /// Row k (groups less one) at ends first..last, whose last groups begin between low and high.
  void fill(std::size_t k, std::size_t first, std::size_t last, std::size_t low, std::size_t high);

  std::size_t n_;
  std::vector<double> sums_, squares_;
  std::vector<std::vector<double>> left_;         // [groups - 1][end]
  std::vector<std::vector<std::size_t>> begins_;  // [groups - 2][end]: of the last group
};

/// Readings of one GPU under load, from any source. Absent: not measured.
struct ThermalSample {
  int64_t node = 0, local = 0;  // local: index of the device in its node
  std::optional<double> temperature_c, power_w, clock_mhz, throttled;  // throttled: share of time
  friend bool operator==(const ThermalSample&, const ThermalSample&) = default;
};

/// What tells devices apart; higher is worse for temperature and throttling, lower for clocks.
enum class ThermalSign { temperature, clock, throttling };
const char* name_of(ThermalSign);
std::optional<double> reading(const ThermalSample&, ThermalSign);

/// Devices that behave alike.
struct ThermalGroup {
  std::vector<size_t> members;  // indices into the samples, by node, then local index
  double mean = 0;              // of the sign at equal load, without the node's own share
  // Plain means over the members, where known.
  std::optional<double> temperature_c, power_w, clock_mhz, throttled;
};

/// Test of a number of groups, with its significance.
struct GroupingTest {
  int64_t groups = 2;
  double left = 1;    // scatter within the groups over scatter of all, best grouping
  double chance = 1;  // share of uniform samples of the same size that group as well
  double gain = 0;    // ln of what even spreads leave on average, over what these leave
  double step = 0;    // least difference of neighbouring groups' means, in the sign's unit
  bool possible = false;
};

/// Devices grouped by thermal behaviour, coldest group first.
struct ThermalGroups {
  ThermalSign sign = ThermalSign::temperature;
  std::vector<ThermalGroup> groups;
  std::vector<size_t> group_of;  // of each sample
  // Samples without the sign: in no group, last in every order, counted as of the hottest group.
  std::vector<size_t> unread;
  std::vector<double> node_effects;  // of each node: above the mean node, in the sign's unit
  std::vector<GroupingTest> tests;   // of two groups and more
  double load_slope = 0;             // K/W taken out of temperatures; 0: loads taken as equal
  /// Of a sample: node and group told, what is left.
  std::vector<double> adjusted;
};

struct GroupingOptions {
  std::optional<ThermalSign> sign;        // absent: temperature, else clock, else throttling
  std::optional<double> kelvin_per_watt;  // known slope of temperature over power
  double significance = 0.01;
};

/// Groups devices by thermal behaviour; the number of groups comes out, it is not asked for.
///
///   x = T - r (P - mean P) - node effect
///
/// r: K/W of the package, given, or by least squares within devices that were seen under several
/// loads (samples of one device repeat); without either loads count as equal, and so does that of a
/// device without a power.
/// Node effects (room, inlet) are means of what groups leave over, found in turn with the groups.
/// Two to four groups are tried, each cut where the least scatter is left (exact in one dimension).
/// Allowed number of groups, if
///  - at most 1 % of 999 even spreads of as many devices can be grouped as well (of all spreads
///    without groups, the even one groups best), and
///  - neighbours differ by more than sensors resolve: 3 K, two clock steps (30 MHz), 5 % of time.
/// Of the possible numbers that one is taken that leaves least against even spreads (the gap
/// statistic of Tibshirani, Walther, Hastie, J. R. Stat. Soc. B 63, 2001). None: one group.
/// Holds where one sign decides; needs at least 4 devices to see two groups. Of more than 512
/// devices, as many quantiles decide. Equal samples, equal groups: spreads are drawn by position.
/// There must be a sample with the sign.
ThermalGroups find_thermal_groups(const std::vector<ThermalSample>&, const GroupingOptions& = {});

/// Mean sample of each device that was seen several times, in order of (node, local).
std::vector<ThermalSample> mean_samples(const std::vector<ThermalSample>&);

/// The devices of each node, coldest group first, inside of a group by index: what a launcher sets
/// as the order of visible devices. [node][position].
std::vector<std::vector<int64_t>> cold_first_order(const ThermalGroups&,
                                                   const std::vector<ThermalSample>& devices);

/// What a run shows of each device: means over its detailed steps; where another sampler recorded
/// none, a sample a moment. A device of which nothing is known has a sample without readings.
std::vector<ThermalSample> thermal_samples(const run::Run&);

struct TableChoice {
  std::optional<std::string> row;  // of the tables in one file: its config or snapshot_id
  int64_t gpus_per_node = 8;       // where no column says which node
};

/// Samples of a table of a row per configuration and a column per GPU (gpu0, gpu1, ...), with a
/// column `panel` that says what is in the row (a name with temp, throttl, clock or power); without
/// it temperatures. Rows of averages over the others ("Avg" in `config`) are left out; rows are
/// told apart by `config` or `snapshot_id`, and all count, as repeated samples.
bool is_thermal_table(const CsvTable&);
Result<std::vector<ThermalSample>> read_thermal_table(const CsvTable&, const TableChoice& = {});

}  // namespace triplepoint::advise
