// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

/// Numbers that remember where they came from: the reference's differentiation.
namespace triplepoint::trainer::tape {

/// Every number that was computed, with its slopes along the two it came from.
struct Tape {
  struct Entry {
    size_t a, b;
    double slope_a, slope_b;
  };
  std::vector<Entry> entries;
};

// Of the reference that this thread runs.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
inline thread_local Tape tape;

struct Number {
  double value = 0;
  size_t at = 0;
};

inline Number record(double value, Number a, double slope_a, Number b = {}, double slope_b = 0) {
  tape.entries.push_back({a.at, b.at, slope_a, slope_b});
  return {value, tape.entries.size() - 1};
}
inline Number constant(double value) {
  return record(value, {}, 0);
}
inline Number operator+(Number a, Number b) {
  return record(a.value + b.value, a, 1, b, 1);
}
inline Number operator-(Number a, Number b) {
  return record(a.value - b.value, a, 1, b, -1);
}
inline Number operator*(Number a, Number b) {
  return record(a.value * b.value, a, b.value, b, a.value);
}
inline Number operator*(double a, Number b) {
  return record(a * b.value, b, a);
}
inline Number operator/(Number a, Number b) {
  return record(a.value / b.value, a, 1 / b.value, b, -a.value / (b.value * b.value));
}
inline Number exp(Number a) {
  return record(std::exp(a.value), a, std::exp(a.value));
}
inline Number log(Number a) {
  return record(std::log(a.value), a, 1 / a.value);
}
inline Number tanh(Number a) {
  const double t = std::tanh(a.value);
  return record(t, a, 1 - t * t);
}
inline Number sqrt(Number a) {
  return record(std::sqrt(a.value), a, 0.5 / std::sqrt(a.value));
}

inline std::vector<double> slopes_of(Number result) {
  std::vector<double> slopes(tape.entries.size(), 0.0);
  slopes[result.at] = 1;
  for (size_t i = tape.entries.size(); i-- > 1;) {
    const Tape::Entry& entry = tape.entries[i];
    if (slopes[i] == 0) continue;
    slopes[entry.a] += slopes[i] * entry.slope_a;
    slopes[entry.b] += slopes[i] * entry.slope_b;
  }
  return slopes;
}

}  // namespace triplepoint::trainer::tape
