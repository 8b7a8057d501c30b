// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "triplepoint/spec/model.h"

namespace triplepoint::trainer {

inline std::string layer_name(int64_t layer) {
  return "layers." + std::to_string(layer) + ".";
}

inline std::vector<int64_t> all_rows(int64_t count) {
  std::vector<int64_t> rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

/// Of weights that write into the trunk: 0.02 / sqrt(2 layers), so that its variance does not grow
/// with depth (Radford et al. 2019, GPT-2, section 2.3).
inline double exit_deviation(const spec::Model& model) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(model.num_layers));
}

/// Where dropout stands: each place draws its own numbers. The residual's follows its branch's.
enum class DropoutPlace : uint64_t { attention_core = 0, attention_residual = 1, mlp_residual = 2 };

inline uint64_t dropout_site(int64_t layer, DropoutPlace place) {
  return (static_cast<uint64_t>(layer) + 1) * 16 + static_cast<uint64_t>(place);
}
inline constexpr uint64_t embedding_dropout_site = 1;

}  // namespace triplepoint::trainer
