// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/names.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::spec {

/// A number of an input file, with where it comes from.
struct Provenance {
  std::string key;    // dotted: "gpu.tdp"
  std::string value;  // as written
  NumberKind kind = NumberKind::assumed;
  std::string cite;  // empty: the file names no source
  std::string file;
  int line = 0;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

/// Every number and quantity of the tree with its source, where it has one: data/ must name all
/// (tools/lint_data.py), other files need not. A source for nothing, an unknown kind and an empty
/// citation are errors.
///
/// Of several sources that fit, the longest key wins: an exception may stand beside a rule. The
/// items of a list share one key. A table named `fit` holds the record of a fit and has none.
Result<std::vector<Provenance>> collect_provenance(const TomlValue& root, const std::string& file);

}  // namespace triplepoint::spec
