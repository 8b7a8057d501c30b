// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace triplepoint::spec {

/// How records become rows of a microbatch: each padded to the sequence length; each padded to the
/// longest of its microbatch; several in one row of the sequence length.
enum class RecordLayout { padded, longest, packed };

/// Lengths of the records that a job trains on, as a table: `shares[i]` of all records (in any
/// unit: counts serve) have `lengths[i]` tokens.
struct Records {
  std::string name;
  std::vector<int64_t> lengths;  // tokens of a record, prompt and answer together
  std::vector<double> shares;    // of the records; counts serve as well
  friend bool operator==(const Records&, const Records&) = default;

  /// sum of share * length over sum of share; 0 of an empty table.
  double mean_length() const {
    double sum = 0, tokens = 0;
    for (std::size_t i = 0; i < lengths.size() && i < shares.size(); ++i) {
      sum += shares[i];
      tokens += shares[i] * static_cast<double>(lengths[i]);
    }
    return sum > 0 ? tokens / sum : 0;
  }
};

}  // namespace triplepoint::spec
