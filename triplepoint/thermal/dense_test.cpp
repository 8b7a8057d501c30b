// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/thermal/dense.h"

#include <cmath>

#include <doctest/doctest.h>

namespace triplepoint::thermal {
namespace {

/// Three bodies in a row, the last one cooled: rates far apart, not symmetric.
Matrix stiff_chain() {
  Matrix a(3, 3);
  a(0, 0) = -40;
  a(0, 1) = 40;
  a(1, 0) = 2;
  a(1, 1) = -3;
  a(1, 2) = 1;
  a(2, 1) = 0.01;
  a(2, 2) = -0.05;
  return a;
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0;
  for (int64_t column = 0; column < a.columns(); ++column)
    for (int64_t row = 0; row < a.rows(); ++row)
      largest = std::max(largest, std::abs(a(row, column) - b(row, column)));
  return largest;
}

/// exp by its limit (1 + a t / n)^n with Richardson's extrapolation: another road to the same
/// number.
Matrix slow_exponential(const Matrix& a, double t, int doublings) {
  Matrix step = identity(a.rows());
  for (int64_t column = 0; column < a.columns(); ++column)
    for (int64_t row = 0; row < a.rows(); ++row)
      step(row, column) += std::ldexp(a(row, column) * t, -doublings);
  for (int i = 0; i < doublings; ++i)
    step = multiply(step, step);
  return step;
}

TEST_CASE("solve undoes multiply, also where the diagonal vanishes") {
  Matrix a(3, 3);
  a(0, 1) = 2;
  a(1, 0) = 1;
  a(1, 2) = 3;
  a(2, 0) = 4;
  a(2, 2) = 5;
  CHECK(largest_difference(multiply(a, solve(a, identity(3))), identity(3)) < 1e-14);
}

TEST_CASE("the exponential of no time is the identity") {
  CHECK(largest_difference(exponential(stiff_chain(), 0), identity(3)) < 1e-15);
}

TEST_CASE("the exponential of one rate is exp") {
  Matrix a(1, 1);
  a(0, 0) = -0.7;
  for (double t : {1e-6, 0.3, 20.0})
    CHECK(exponential(a, t)(0, 0) == doctest::Approx(std::exp(-0.7 * t)).epsilon(1e-12));
}

TEST_CASE("the exponential agrees with the limit of small steps") {
  const Matrix exact = exponential(stiff_chain(), 0.4);
  // The error of (1 + x/n)^n halves with 1/n: one extrapolation removes that order.
  const Matrix coarse = slow_exponential(stiff_chain(), 0.4, 20);
  const Matrix fine = slow_exponential(stiff_chain(), 0.4, 21);
  Matrix extrapolated = fine;
  for (int64_t column = 0; column < 3; ++column)
    for (int64_t row = 0; row < 3; ++row)
      extrapolated(row, column) = 2 * fine(row, column) - coarse(row, column);
  CHECK(largest_difference(exact, extrapolated) < 1e-8);
}

TEST_CASE("exponentials of durations multiply") {
  const Matrix whole = exponential(stiff_chain(), 100);
  const Matrix parts = multiply(exponential(stiff_chain(), 37), exponential(stiff_chain(), 63));
  CHECK(largest_difference(whole, parts) < 1e-11);
}

TEST_CASE("the exponential of a defective matrix has its polynomial factor") {
  Matrix a(2, 2);  // one way only: air that moves front to back
  a(0, 0) = a(1, 1) = -1;
  a(1, 0) = 3;
  CHECK(exponential(a, 2)(1, 0) == doctest::Approx(3 * 2 * std::exp(-2.0)).epsilon(1e-13));
}

TEST_CASE("modes of a symmetric matrix rebuild it") {
  Matrix a(3, 3);
  const double values[3][3] = {{-4, 1, 0.5}, {1, -3, 2}, {0.5, 2, -1}};
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t column = 0; column < 3; ++column)
      a(row, column) = values[row][column];
  const SymmetricModes modes = symmetric_modes(a);
  Matrix rebuilt(3, 3);
  for (int64_t k = 0; k < 3; ++k)
    for (int64_t row = 0; row < 3; ++row)
      for (int64_t column = 0; column < 3; ++column)
        rebuilt(row, column) +=
            modes.values[static_cast<size_t>(k)] * modes.vectors(row, k) * modes.vectors(column, k);
  CHECK(largest_difference(a, rebuilt) < 1e-13);
}

}  // namespace
}  // namespace triplepoint::thermal
