// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "triplepoint/base/csv.h"

#include "triplepoint/spec/cluster.h"
#include "triplepoint/spec/gpu.h"

namespace triplepoint::calibrate {

/// A board's power and temperature over time, as its driver showed them.
struct ThermalTrace {
  struct Sample {
    Seconds at;
    double value = 0;  // W or C
  };
  std::string name, gpu;            // gpu as the table spells it
  std::vector<Sample> power;        // updates of the driver's reading
  std::vector<Sample> temperature;  // all readings
  bool switches_known = false;      // each power holds from its moment to the next one
};

/// The traces of thermal_transients_calibration.csv and its like, in the order of the table.
std::vector<ThermalTrace> read_thermal_traces(const CsvTable&);

/// What a package shows along a trace, given the power that its driver showed.
///
/// Between two power readings nobody knows when the power changed: the moment is placed where the
/// temperatures read in that gap fit best (readings that differ by less than 25 W: at the start of
/// the gap, whose power the later one is). The coolant's temperature is not stated either, so the
/// median difference of the trace is taken off. Fans follow the chassis' own law.
/// Returns one temperature per reading.
std::vector<double> predict_trace(const ThermalTrace&, const spec::ThermalLadder&,
                                  const spec::Chassis&);

/// The same for devices of one node, whose fans follow the hottest of them: an idle device cools
/// while its neighbour works. One vector per trace.
std::vector<std::vector<double>> predict_node(const std::vector<ThermalTrace>&,
                                              const spec::ThermalLadder&, const spec::Chassis&);

/// Traces that were taken on one node at the same time, in the order of the table: those of one GPU
/// type that are named alike up to "-card" and a number.
std::vector<std::vector<ThermalTrace>> nodes_of(const std::vector<ThermalTrace>&);

/// A chassis of this kind with one seat that no other warms.
spec::Chassis lonely_seat(const spec::Chassis&);

}  // namespace triplepoint::calibrate
