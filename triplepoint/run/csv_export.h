// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// A file and what is in it.
struct NamedText {
  std::string name, text;
};

/// Tables with units in their column names: spans.csv (instances expanded), series.csv (one row per
/// value), devices.csv (what is known of each device over a step), steps.csv. An empty cell is
/// unknown.
std::vector<NamedText> csv_tables(const Run&);

/// Writes such files into a folder, which is made if need be.
Result<void> write_all(const std::vector<NamedText>&, const Path& folder);

}  // namespace triplepoint::run
