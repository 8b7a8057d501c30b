// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/random.h"

#include <cmath>
#include <functional>
#include <set>

#include <doctest/doctest.h>

namespace triplepoint {
namespace {

using doctest::Approx;

constexpr std::uint64_t draws = 100000;

double mean_of(const std::function<double(std::uint64_t)>& value) {
  double sum = 0;
  for (std::uint64_t i = 0; i < draws; ++i)
    sum += value(i);
  return sum / draws;
}

TEST_CASE("a place always holds the same number, other places other numbers") {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (std::uint64_t stream = 0; stream < 20; ++stream)
      for (std::uint64_t index = 0; index < 20; ++index)
        seen.insert(random_bits({seed, stream}, index));
  CHECK(seen.size() == 20 * 20 * 20);
  CHECK(random_bits({3, 4}, 5) == random_bits({3, 4}, 5));
}

TEST_CASE("uniform numbers lie between 0 and 1 with mean 1/2 and variance 1/12") {
  const RandomKey key{.seed = 7, .stream = 1};
  CHECK(mean_of([&](auto i) { return random_uniform(key, i); }) == Approx(0.5).epsilon(0.01));
  CHECK(mean_of([&](auto i) { return std::pow(random_uniform(key, i) - 0.5, 2); }) ==
        Approx(1.0 / 12).epsilon(0.02));
  for (std::uint64_t i = 0; i < draws; ++i) {
    const double u = random_uniform(key, i);
    if (u < 0 || u >= 1) FAIL("out of range at " << i);
  }
}

TEST_CASE("normal numbers have mean 0, variance 1, and 95 % lie within 1.96") {
  const RandomKey key{.seed = 7, .stream = 2};
  CHECK(std::abs(mean_of([&](auto i) { return random_normal(key, i); })) < 0.02);
  CHECK(mean_of([&](auto i) { return std::pow(random_normal(key, i), 2); }) ==
        Approx(1).epsilon(0.02));
  CHECK(mean_of([&](auto i) { return std::abs(random_normal(key, i)) < 1.96 ? 1.0 : 0.0; }) ==
        Approx(0.95).epsilon(0.01));
}

TEST_CASE("neighbouring streams are not correlated") {
  const double covariance = mean_of([](auto i) {
    return (random_uniform({1, 1}, i) - 0.5) * (random_uniform({1, 2}, i) - 0.5);
  });
  CHECK(std::abs(covariance) < 0.002);
}

}  // namespace
}  // namespace triplepoint
