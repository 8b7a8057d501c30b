// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/initial_values.h"

#include <algorithm>
#include <string_view>

#include "triplepoint/base/random.h"

namespace triplepoint::trainer {
namespace {

/// FNV-1a: a stream of random numbers per name.
uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace

void fill_initial(const Parameter& parameter, uint64_t seed, int64_t begin,
                  std::span<float> values) {
  const Initial& initial = parameter.initial;
  if (initial.standard_deviation == 0) {
    std::fill(values.begin(), values.end(), static_cast<float>(initial.mean));
    return;
  }
  const RandomKey key{seed, stream_of(parameter.name)};
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t element = begin + static_cast<int64_t>(k);
    const int64_t row = parameter.rows[static_cast<size_t>(element / parameter.columns)];
    const int64_t column = parameter.first_column + element % parameter.columns;
    const auto index = static_cast<uint64_t>(row * parameter.whole_columns + column);
    values[k] =
        static_cast<float>(initial.mean + initial.standard_deviation * random_normal(key, index));
  }
}

}  // namespace triplepoint::trainer
