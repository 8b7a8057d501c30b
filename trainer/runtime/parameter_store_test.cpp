// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/parameter_store.h"

#include <cmath>
#include <numeric>

#include <doctest/doctest.h>

#include "trainer/runtime/train.h"

namespace triplepoint::trainer {

TEST_CASE("the rate rises linearly over the warm-up, and is constant then") {
  const LearningRate rate{.peak = 2, .warmup_steps = 4};
  CHECK(rate.at(0) == doctest::Approx(0.5));
  CHECK(rate.at(3) == doctest::Approx(2));
  for (const int64_t step : {4, 100})
    CHECK(rate.at(step) == 2);
  CHECK(LearningRate{.peak = 3e-4}.at(0) == 3e-4);
}

namespace {

Parameter part(std::vector<int64_t> rows, int64_t first_column, int64_t columns) {
  Parameter parameter;
  parameter.name = "layers.0.attention.qkv.weight";
  parameter.whole_rows = 64;
  parameter.whole_columns = 48;
  parameter.rows = std::move(rows);
  parameter.first_column = first_column;
  parameter.columns = columns;
  parameter.initial = {0.5, 0.02};
  return parameter;
}

std::vector<float> values_of(const Parameter& parameter) {
  std::vector<float> values(as_size(parameter.count()));
  fill_initial(parameter, 7, 0, values);
  return values;
}

Parameter whole() {
  std::vector<int64_t> rows(64);
  std::iota(rows.begin(), rows.end(), 0);
  return part(rows, 0, 48);
}

}  // namespace

TEST_CASE("an element begins alike in every layout") {
  const std::vector<float> all = values_of(whole());
  const Parameter piece = part({5, 9, 60}, 10, 7);
  const std::vector<float> some = values_of(piece);
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 7; ++j)
      CHECK(some[i * 7 + j] == all[as_size(piece.rows[i]) * 48 + 10 + j]);
}

TEST_CASE("a block inside of a part gets the part's values") {
  const Parameter piece = part({5, 9, 60}, 10, 7);
  const std::vector<float> all = values_of(piece);
  std::vector<float> block(9);
  fill_initial(piece, 7, 6, block);
  for (size_t i = 0; i < block.size(); ++i)
    CHECK(block[i] == all[6 + i]);
}

TEST_CASE("first values have the mean and deviation that were asked for") {
  const std::vector<float> all = values_of(whole());
  const auto count = as_real(all.size());
  const double mean = std::accumulate(all.begin(), all.end(), 0.0) / count;
  const double squares =
      sum_of(all, [&](const float value) { return (value - mean) * (value - mean); });
  // Three standard errors.
  CHECK(std::abs(mean - 0.5) < 3 * 0.02 / std::sqrt(count));
  CHECK(std::abs(std::sqrt(squares / count) / 0.02 - 1) < 3 / std::sqrt(2 * count));
}

TEST_CASE("parameters of different names begin differently") {
  Parameter other = whole();
  other.name = "layers.1.attention.qkv.weight";
  CHECK(values_of(other) != values_of(whole()));
}

}  // namespace triplepoint::trainer
