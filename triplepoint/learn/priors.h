// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "triplepoint/learn/coefficients.h"
#include "triplepoint/learn/knobs.h"
#include "triplepoint/learn/power.h"
#include "triplepoint/learn/room.h"

namespace triplepoint::learn {

/// ln(time) that no coefficient explains, as standard deviations.
struct Remainder {
  double common = 0;             // the same in all runs of one place
  double near = 0;               // shared by runs that are alike
  double noise = 0;              // of one measurement
  double noise_tails = 0;        // degrees of freedom of Student's t: of noise,
  double coefficient_tails = 0;  // and of coefficients
  double surprise = 0;           // of the spread of forecasts
  double other_gpu = 0;          // correlation of coefficients between GPUs of two kinds
  friend bool operator==(const Remainder&, const Remainder&) = default;
};

/// How much less alike two jobs are per doubling of a size, or for another word.
struct Distance {
  std::array<double, size_knobs.size()> sizes{};
  std::array<double, word_knobs.size()> words{};
  friend bool operator==(const Distance&, const Distance&) = default;

  /// How remainders of two jobs correlate: a product of Matern functions of order 3/2 (Rasmussen
  /// and Williams, section 4.2.1), smooth, so that a trend along a knob goes on a little.
  ///
  ///   prod_k (1 + z_k) exp(-z_k),   z_k = w_k |log2 a_k - log2 b_k|, of words w_k [a_k is not b_k]
  double likeness(const Knobs&, const Knobs&) const;
};

/// What is believed of a place on which nothing was measured: data/learned/priors.toml.
struct Priors {
  LogFactors spread{};  // standard deviations
  Remainder remainder;
  Distance distance;
  PowerPriors power;
  RoomPriors room;
  friend bool operator==(const Priors&, const Priors&) = default;
};

}  // namespace triplepoint::learn
