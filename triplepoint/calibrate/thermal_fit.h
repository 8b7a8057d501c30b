// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/power_fit.h"

namespace triplepoint::calibrate {

/// What a table of transients says of one GPU's package.
struct ThermalFit {
  CoefficientFit ladder;
  FitErrors one_pole;       // of the best package with a single pole, on the same readings
  double within_1_5_k = 0;  // share of the readings
};

/// Fits the thermal ladder of every GPU whose traces are in the table.
///
///   minimize  mean_readings min((predicted - measured)^2, 4 K^2)     (thermal_trace.h)
///
/// Free: every resistance and capacity; of traces shorter than a minute all but the last pair,
/// which they cannot show. Where fans had time to move, also how the chassis moves them: those
/// numbers are reported and belong into data/clusters. Held out: each trace predicted by a fit to
/// the others (devices of one node count as one), or of a single one its second half by a fit to
/// the first. Nodes at constant power are left out. Deterministic downhill simplex.
Result<std::vector<ThermalFit>> fit_thermal(const CsvTable&, const spec::Library&);

}  // namespace triplepoint::calibrate
