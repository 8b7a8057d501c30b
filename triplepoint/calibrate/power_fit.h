// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/table_scores.h"

namespace triplepoint::calibrate {

/// One number that a fit found, and the range that physics leaves it.
struct FoundNumber {
  std::string key;                      // "power.joules_per_tflop.attention"
  std::string text;                     // as it stands in the file: 0.42, "105 W"
  double value = 0, low = 0, high = 0;  // of a list: not set
  bool bound = false;                   // stopped at the end of its range
};

/// Errors over the rows of a fit: percent of the measured value, or kelvins.
struct FitErrors {
  int64_t rows = 0;
  double median = 0, p90 = 0, rms = 0;
};

/// What a table says of one GPU's coefficients.
struct CoefficientFit {
  std::string gpu, block;  // "a100-80gb", "power"
  std::vector<FoundNumber> numbers;
  FitErrors before, after;
  FitErrors held_out;  // each sweep (or fifth of the rows) predicted by a fit without it
  std::string unit;    // "per cent", "K"
};

/// Fits the power coefficients of every GPU that the table is about.
///
///   minimize  mean_rows min(|ln(predicted / measured)|, 1/4)     over the rows of power_w
///
/// What is free depends on what the table can tell: locked clocks give the voltage curve and memory
/// energy; stated rates of bytes and fp32 operations give their energies; kernels of fused
/// attention give attention's. Powers at the cap tell nothing of energies, so tables of matrix
/// products fit nothing. Deterministic downhill simplex (kernel_simplex.h).
/// Errors: a table without a power that this can be fitted to.
Result<std::vector<CoefficientFit>> fit_power(const CsvTable&, const spec::Library&);

/// The file of a block ("power", "thermal") with the found numbers in their places, their source
/// first among the sources, and the record of the fit in [fit]. Everything else stays.
Result<std::string> fitted_toml(const CoefficientFit&, const spec::Library&,
                                const std::string& table);

/// Errors of what a fit may count: percent, or kelvins for temperatures.
FitErrors errors_of(const std::vector<ScoredRow>& rows);

}  // namespace triplepoint::calibrate
