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
  std::string cite;
  std::string file;
  int line = 0;
  friend bool operator==(const Provenance&, const Provenance&) = default;
};

/// Every number and quantity of the tree with its source. A number without one, a source for
/// nothing, an unknown kind and an empty citation are errors.
///
/// `[[source]]` has `keys` (dotted; "gpu.*" is everything below gpu), `kind` and `cite`. Of several
/// that fit, the longest key wins: an exception may stand beside a rule. The items of a list share
/// one key. Tables named `fit` hold the record of a fit and need no source.
Result<std::vector<Provenance>> collect_provenance(const TomlValue& root, const std::string& file);

}  // namespace triplepoint::spec
