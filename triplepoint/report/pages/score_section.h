// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/economics/score_card.h"

namespace triplepoint::report {

/// What the cards say, in sentences. Every number is one of the cards'.
std::vector<std::string> score_sentences(const metrics::SuiteScore&);

/// Scores, what they are made of, every number, broken rules.
answers::Section score_section(const metrics::SuiteScore&);

}  // namespace triplepoint::report
