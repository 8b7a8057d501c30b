// SPDX-License-Identifier: Apache-2.0
// Linear algebra for networks of a few dozen nodes: elimination, the matrix exponential, symmetric
// modes. Column by column, because multiply_add, the inner loop of a transient, then runs along
// memory.
//
// The exponential is by uniformization and scaling and squaring (dense.h). Shifting by q makes
// every entry of the series positive where off-diagonal rates are, so nothing cancels; t is halved
// until a short series is exact to rounding, and the result squared as often. Cost: a product per
// term of the series and per squaring.
#include "triplepoint/thermal/dense.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "triplepoint/base/result.h"

namespace triplepoint::thermal {
namespace {

int64_t pivot_row(const Matrix& a, int64_t column) {
  int64_t best = column;
  for (int64_t row = column + 1; row < a.rows(); ++row)
    if (std::abs(a(row, column)) > std::abs(a(best, column))) best = row;
  return best;
}

void swap_rows(Matrix& a, int64_t one, int64_t other) {
  if (one == other) return;
  for (int64_t column = 0; column < a.columns(); ++column)
    std::swap(a(one, column), a(other, column));
}

void subtract_row(Matrix& a, int64_t from, int64_t what, double times) {
  for (int64_t column = 0; column < a.columns(); ++column)
    a(from, column) -= times * a(what, column);
}

void eliminate_below(Matrix& a, Matrix& b, int64_t column) {
  for (int64_t row = column + 1; row < a.rows(); ++row) {
    const double times = a(row, column) / a(column, column);
    // Ladders make most of a network's entries zero; skipping them keeps elimination near the cost
    // of a band.
    if (times == 0) continue;
    subtract_row(a, row, column, times);
    subtract_row(b, row, column, times);
  }
}

void substitute_back(const Matrix& a, Matrix& b) {
  for (int64_t column = 0; column < b.columns(); ++column)
    for (int64_t row = a.rows() - 1; row >= 0; --row) {
      double sum = b(row, column);
      for (int64_t k = row + 1; k < a.columns(); ++k)
        sum -= a(row, k) * b(k, column);
      b(row, column) = sum / a(row, row);
    }
}

/// a h + q h I; every entry of a heat network's is positive.
Matrix shifted(const Matrix& a, double q, double h) {
  Matrix b = a;
  for (int64_t column = 0; column < a.columns(); ++column) {
    b(column, column) += q;
    for (int64_t row = 0; row < a.rows(); ++row)
      b(row, column) *= h;
  }
  return b;
}

/// sum b^k / k! for a small b, by Horner's rule: 1 + b (1 + b/2 (1 + b/3 (...))).
Matrix taylor_exponential(const Matrix& b) {
  constexpr int terms = 9;  // |b| <= 2^-4 leaves 2^-40 / 10!, below rounding
  Matrix sum = b;
  for (int k = terms; k > 0; --k) {
    if (k < terms) sum = multiply(b, sum);
    for (int64_t column = 0; column < b.columns(); ++column)
      for (int64_t row = 0; row < b.rows(); ++row)
        sum(row, column) = sum(row, column) / k + (row == column ? 1 : 0);
  }
  return sum;
}

double largest_rate(const Matrix& a) {
  double rate = 0;
  for (int64_t row = 0; row < a.rows(); ++row) {
    double sum = 0;
    for (int64_t column = 0; column < a.columns(); ++column)
      sum += std::abs(a(row, column));
    rate = std::max(rate, sum);
  }
  return rate;
}

double off_diagonal(const Matrix& a) {
  double sum = 0;
  for (int64_t column = 0; column < a.columns(); ++column)
    for (int64_t row = 0; row < column; ++row)
      sum += a(row, column) * a(row, column);
  return sum;
}

/// Turns rows/columns p and q of the symmetric `a` so that a(p, q) vanishes.
void rotate_away(SymmetricModes& modes, Matrix& a, int64_t p, int64_t q) {
  if (a(p, q) == 0) return;
  // The smaller of the two angles that make a(p, q) vanish: it keeps the sum over sweeps
  // convergent.
  const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q));
  const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::hypot(theta, 1.0));
  const double c = 1 / std::hypot(t, 1.0), s = t * c;
  for (int64_t k = 0; k < a.rows(); ++k) {
    const double kp = a(k, p), kq = a(k, q);
    a(k, p) = c * kp - s * kq;
    a(k, q) = s * kp + c * kq;
    const double vp = modes.vectors(k, p), vq = modes.vectors(k, q);
    modes.vectors(k, p) = c * vp - s * vq;
    modes.vectors(k, q) = s * vp + c * vq;
  }
  for (int64_t k = 0; k < a.rows(); ++k) {
    const double pk = a(p, k), qk = a(q, k);
    a(p, k) = c * pk - s * qk;
    a(q, k) = s * pk + c * qk;
  }
}

using Pair = double __attribute__((vector_size(16)));
using Quad = double __attribute__((vector_size(32)));

/// Rows from `row` on, in blocks of four vectors whose sums stay in registers; the first row that
/// is left. Each sum is over columns in order, as without blocks. Vectors of the compiler, because
/// it keeps an array of sums in memory.
template <class Vector>
[[gnu::always_inline]] inline int64_t multiply_add_blocks(const Matrix& a, const double* x,
                                                          double* out, int64_t row) {
  constexpr int64_t width = sizeof(Vector) / sizeof(double), block = 4 * width;
  for (; row + block <= a.rows(); row += block) {
    double* const sums = out + row;
    Vector first, second, third, fourth, values;
    std::memcpy(&first, sums, sizeof(Vector));
    std::memcpy(&second, sums + width, sizeof(Vector));
    std::memcpy(&third, sums + 2 * width, sizeof(Vector));
    std::memcpy(&fourth, sums + 3 * width, sizeof(Vector));
    for (int64_t column = 0; column < a.columns(); ++column) {
      const double* const from = a.column(column) + row;
      const double factor = x[column];
      std::memcpy(&values, from, sizeof(Vector));
      first += values * factor;
      std::memcpy(&values, from + width, sizeof(Vector));
      second += values * factor;
      std::memcpy(&values, from + 2 * width, sizeof(Vector));
      third += values * factor;
      std::memcpy(&values, from + 3 * width, sizeof(Vector));
      fourth += values * factor;
    }
    std::memcpy(sums, &first, sizeof(Vector));
    std::memcpy(sums + width, &second, sizeof(Vector));
    std::memcpy(sums + 2 * width, &third, sizeof(Vector));
    std::memcpy(sums + 3 * width, &fourth, sizeof(Vector));
  }
  return row;
}

#if defined(__x86_64__)
/// Twice as wide where the processor is: the same products and sums, hence the same bits (there is
/// no fused multiply-add in it).
[[gnu::target("avx2")]] int64_t multiply_add_wide(const Matrix& a, const double* x, double* out) {
  return multiply_add_blocks<Quad>(a, x, out, 0);
}
#endif

}  // namespace

Matrix identity(int64_t size) {
  Matrix one(size, size);
  for (int64_t i = 0; i < size; ++i)
    one(i, i) = 1;
  return one;
}

void multiply_add(const Matrix& a, const double* x, double* out) {
  int64_t row = 0;
#if defined(__x86_64__)
  static const bool is_wide = __builtin_cpu_supports("avx2");
  if (is_wide) row = multiply_add_wide(a, x, out);
#endif
  row = multiply_add_blocks<Pair>(a, x, out, row);
  for (int64_t column = 0; column < a.columns(); ++column)
    for (int64_t rest = row; rest < a.rows(); ++rest)
      out[rest] += a.column(column)[rest] * x[column];
}

Matrix multiply(const Matrix& a, const Matrix& b) {
  TPT_EXPECT(a.columns() == b.rows());
  Matrix product(a.rows(), b.columns());
  for (int64_t column = 0; column < b.columns(); ++column)
    multiply_add(a, b.column(column), product.column(column));
  return product;
}

Matrix solve(Matrix a, Matrix b) {
  TPT_EXPECT(a.rows() == a.columns() && a.rows() == b.rows());
  for (int64_t column = 0; column < a.columns(); ++column) {
    const int64_t pivot = pivot_row(a, column);
    TPT_EXPECT(a(pivot, column) != 0);
    swap_rows(a, column, pivot);
    swap_rows(b, column, pivot);
    eliminate_below(a, b, column);
  }
  substitute_back(a, b);
  return b;
}

Matrix exponential(const Matrix& a, double t) {
  TPT_EXPECT(a.rows() == a.columns() && t >= 0);
  double q = 0;
  for (int64_t i = 0; i < a.rows(); ++i)
    q = std::max(q, -a(i, i));
  const double size = (largest_rate(a) + q) * t;
  constexpr double small = 0.0625;         // three squarings more and seven products fewer than 1/2
  constexpr double most_squarings = 1100;  // those of the largest finite size
  const int squarings =
      size > small ? static_cast<int>(std::min(std::ceil(std::log2(size / small)), most_squarings))
                   : 0;
  const double h = std::ldexp(t, -squarings);
  Matrix power = taylor_exponential(shifted(a, q, h));
  const double decay = std::exp(-q * h);
  for (int64_t column = 0; column < power.columns(); ++column)
    for (int64_t row = 0; row < power.rows(); ++row)
      power(row, column) *= decay;
  for (int i = 0; i < squarings; ++i)
    power = multiply(power, power);
  return power;
}

SymmetricModes symmetric_modes(Matrix a) {
  TPT_EXPECT(a.rows() == a.columns());
  SymmetricModes modes{.vectors = identity(a.rows())};
  // Relative to the matrix: rates of a ladder differ by orders of magnitude.
  const double small = 1e-30 * (largest_rate(a) * largest_rate(a) + 1e-300);
  // Convergence is quadratic: a handful of sweeps; 60 is "never".
  for (int sweep = 0; sweep < 60 && off_diagonal(a) > small; ++sweep)
    for (int64_t p = 0; p < a.rows(); ++p)
      for (int64_t q = p + 1; q < a.rows(); ++q)
        rotate_away(modes, a, p, q);
  for (int64_t i = 0; i < a.rows(); ++i)
    modes.values.push_back(a(i, i));
  return modes;
}

}  // namespace triplepoint::thermal
