// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/learn/coefficients.h"
#include "triplepoint/learn/power.h"
#include "triplepoint/learn/room.h"

namespace triplepoint::learn {

/// ln(time) that no coefficient explains, as standard deviations.
struct Remainder {
  double common = 0;             // the same in all runs of one place
  double near = 0;               // shared by runs that are alike
  double noise = 0;              // of one measurement
  double kernels = 0;            // of kernels' seconds, on top: classes of kernels differ
  double noise_tails = 0;        // degrees of freedom of Student's t: of noise,
  double coefficient_tails = 0;  // and of coefficients
  double surprise = 0;           // of the spread of forecasts
  double other_gpu = 0;          // correlation of coefficients between GPUs of two kinds,
  double other_model = 0;        // and between two models
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

/// data/learned/priors.toml.
Result<Priors> load_priors(const spec::Library&);

/// A sentence that says what cannot be: spreads below zero, no noise at all.
Result<void> check(const Priors&, const std::string& file);

// Its keys, which a calibration has as well.

void visit_fields(auto& visit, Remainder& remainder) {
  visit("common", remainder.common, spec::Need::required);
  visit("near", remainder.near, spec::Need::required);
  visit("noise", remainder.noise, spec::Need::required);
  visit("kernels", remainder.kernels, spec::Need::required);
  visit("noise_tails", remainder.noise_tails, spec::Need::required);
  visit("coefficient_tails", remainder.coefficient_tails, spec::Need::required);
  visit("surprise", remainder.surprise, spec::Need::required);
  visit("other_gpu", remainder.other_gpu, spec::Need::required);
  visit("other_model", remainder.other_model, spec::Need::required);
}

void visit_fields(auto& visit, Distance& distance) {
  for (std::size_t k = 0; k < size_knobs.size(); ++k)
    visit(size_knobs[k], distance.sizes[k], spec::Need::required);
  for (std::size_t k = 0; k < word_knobs.size(); ++k)
    visit(word_knobs[k], distance.words[k], spec::Need::required);
}

void visit_fields(auto& visit, PowerPriors& power) {
  visit("energy", power.energy, spec::Need::required);
  visit("idle", power.idle, spec::Need::required);
  visit("noise", power.noise, spec::Need::required);
}

void visit_fields(auto& visit, RoomPriors& room) {
  visit("inlet_k", room.inlet_k, spec::Need::required);
  visit("slot_k", room.slot_k, spec::Need::required);
  visit("board", room.board, spec::Need::required);
  visit("noise_k", room.noise_k, spec::Need::required);
  visit("power", room.power, spec::Need::required);
}

/// A number for each coefficient, by its name.
struct ByName {
  LogFactors* values = nullptr;
};
void visit_fields(auto& visit, ByName& of) {
  for (std::size_t k = 0; k < coefficient_count; ++k)
    visit(coefficients()[k].name, (*of.values)[k], spec::Need::required);
}

void visit_fields(auto& visit, Priors& priors) {
  ByName spread{&priors.spread};
  visit("spread", spread, spec::Need::required);
  visit("remainder", priors.remainder, spec::Need::required);
  visit("distance", priors.distance, spec::Need::required);
  visit("power", priors.power, spec::Need::required);
  visit("room", priors.room, spec::Need::required);
}

}  // namespace triplepoint::learn
