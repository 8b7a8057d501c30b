// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/metrics/economics/score_card.h"

namespace triplepoint::report {

/// A card with its score against the page's reference.
struct ScoredCard {
  metrics::ScoreCard card;
  metrics::CardScore score;
};

/// What the cards say, in sentences. Every number is one of the cards'.
std::vector<std::string> score_sentences(const std::vector<ScoredCard>&,
                                         const metrics::ScoreCard& reference,
                                         const metrics::Suite&);

/// The page of one card or of several: scores, what they are made of, every number, broken rules.
std::string score_page(const std::vector<ScoredCard>&, const metrics::ScoreCard& reference,
                       const metrics::Suite&);

}  // namespace triplepoint::report
