// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::search {

/// How far predicted steps were from measured ones, in percent of the measured.
struct ErrorBand {
  double median_pct = 0, p90_pct = 0;
  int64_t rows = 0;
  std::string of;  // "h100", or "all GPUs"
};

/// Residuals of step times on this GPU, from data/calibrations/accuracy.toml; of all GPUs where too
/// few of it were measured.
Result<ErrorBand> error_band(const spec::Library&, std::string_view gpu);

}  // namespace triplepoint::search
