// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/gpu.h"

#include "triplepoint/calibrate/tables/scores.h"

namespace triplepoint::calibrate {

/// Every temperature reading of every trace, given the power that was read (thermal_scores.h).
/// Family: the trace. Quantity: temperature_c; sweep: the trace.
Result<TableScores> score_thermal_traces(const CsvTable&, const ScoreContext&);

/// Temperatures of the devices of one node at one instant, given their power: the node's chassis at
/// rest. No inlet is ever stated, so the node's mean difference is taken off where several devices
/// were read: what is scored is how they differ. Single readings are scored at the library's inlet,
/// and say so.
Result<TableScores> score_thermal_snapshots(const CsvTable&, const ScoreContext&);

/// Limits, clocks and design powers of single GPUs against the library's.
Result<TableScores> score_facts(const CsvTable&, const ScoreContext&);

/// A board's power and temperature over time, as its driver showed them.
struct ThermalTrace {
  struct Sample {
    Seconds at;
    double value = 0;  // W or C
  };
  std::string name, node, cluster;  // cluster: of the library, what the node is
  std::vector<Sample> power;        // updates of the driver's reading
  std::vector<Sample> temperature;  // all readings
  Seconds last;                     // reading of either
};

/// The traces of a table of thermal traces (docs/formats.md), those of one node together, in the
/// order of the table. Rows that the table marks as skipped are added to the scores.
std::vector<std::vector<ThermalTrace>> read_thermal_nodes(const CsvTable&, TableScores&);

/// What devices of one node show along their traces, given the power that their driver showed.
///
/// Between two power readings it is not known when the power changed: the moment is placed where
/// the temperatures read in that gap fit best (readings that differ by less than 25 W: at the start
/// of the gap, whose power the later one is). The coolant's temperature is not stated either, so
/// the median difference of the trace is taken off. Fans follow the chassis' own law and the
/// hottest device: an idle device cools while its neighbour works. One vector per trace, one
/// temperature per reading.
std::vector<std::vector<double>> predict_node(const std::vector<ThermalTrace>&,
                                              const spec::ThermalLadder&, const spec::Chassis&);

/// A chassis of this kind with one slot that no other warms.
spec::Chassis lonely_slot(const spec::Chassis&);

}  // namespace triplepoint::calibrate
