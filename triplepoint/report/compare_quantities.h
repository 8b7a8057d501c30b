// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "triplepoint/report/compare.h"

namespace triplepoint::report {

/// A number that every run may know.
struct ComparedQuantity {
  const char *key, *title, *unit;
  double scale;
  Better better;
  Says says;
  std::optional<double> (*of)(const Side&);
};
struct QuantitySection {
  const char *name, *title;
  std::vector<ComparedQuantity> quantities;
};
/// Those that are compared, by the section in which they are shown.
const std::vector<QuantitySection>& compared_quantities();

}  // namespace triplepoint::report
