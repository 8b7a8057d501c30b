// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/collective_fit.h"
#include "triplepoint/calibrate/kernel_fit.h"

namespace triplepoint::calibrate {

/// One line of the result: a class of rows, and how far predictions of it are off.
struct FitLine {
  std::string subject, part, rows_of;
  Residuals seen, held_out, without;
};

/// What a fit says, whatever it is a fit of.
struct FitReport {
  std::string subject;  // "h100", "dgx-a100"
  std::vector<FittedNumber> numbers;
  std::vector<std::string> texts;  // the numbers as they stand in the file
  std::vector<FitLine> lines;
  std::string unit = "%";
  std::string toml;
};

/// Which block of data/ is fitted ("kernels", "collectives", "power", "thermal") to which tables;
/// of one GPU or cluster only, where it is named.
struct FitRequest {
  std::string what;
  std::vector<std::string> files;
  std::optional<std::string> gpu, cluster;
};
Result<std::vector<FitReport>> fit_tables(const FitRequest&, const spec::Library&);

Json fits_json(const std::vector<FitReport>&);

}  // namespace triplepoint::calibrate
