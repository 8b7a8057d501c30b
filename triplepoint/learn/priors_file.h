// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/fields.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/learn/priors.h"

namespace triplepoint::learn {

/// data/learned/priors.toml.
Result<Priors> load_priors(const spec::Library&);

/// A sentence that says what cannot be: spreads below zero, no noise at all.
Result<void> check(const Priors&, const std::string& file);

// Its keys, which a calibration has as well.

template <class Visitor>
void visit_fields(Visitor& visit, Remainder& remainder) {
  visit("common", remainder.common, spec::Need::required);
  visit("near", remainder.near, spec::Need::required);
  visit("noise", remainder.noise, spec::Need::required);
  visit("noise_tails", remainder.noise_tails, spec::Need::required);
  visit("coefficient_tails", remainder.coefficient_tails, spec::Need::required);
  visit("surprise", remainder.surprise, spec::Need::required);
  visit("other_gpu", remainder.other_gpu, spec::Need::required);
}

template <class Visitor>
void visit_fields(Visitor& visit, Distance& distance) {
  for (std::size_t k = 0; k < size_knobs.size(); ++k)
    visit(size_knobs[k], distance.sizes[k], spec::Need::required);
  for (std::size_t k = 0; k < word_knobs.size(); ++k)
    visit(word_knobs[k], distance.words[k], spec::Need::required);
}

template <class Visitor>
void visit_fields(Visitor& visit, PowerPriors& power) {
  visit("energy", power.energy, spec::Need::required);
  visit("idle", power.idle, spec::Need::required);
  visit("noise", power.noise, spec::Need::required);
}

template <class Visitor>
void visit_fields(Visitor& visit, RoomPriors& room) {
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
template <class Visitor>
void visit_fields(Visitor& visit, ByName& of) {
  for (std::size_t k = 0; k < coefficient_count; ++k)
    visit(coefficients()[k].name, (*of.values)[k], spec::Need::required);
}

template <class Visitor>
void visit_fields(Visitor& visit, Priors& priors) {
  ByName spread{&priors.spread};
  visit("spread", spread, spec::Need::required);
  visit("remainder", priors.remainder, spec::Need::required);
  visit("distance", priors.distance, spec::Need::required);
  visit("power", priors.power, spec::Need::required);
  visit("room", priors.room, spec::Need::required);
}

}  // namespace triplepoint::learn
