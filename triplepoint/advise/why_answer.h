// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/advise/gap.h"
#include "triplepoint/answers/document.h"

namespace triplepoint::advise {

/// The answer in at most five sentences, largest cause first: what it costs, the evidence, what to
/// do, and what that would bring.
std::vector<std::string> gap_sentences(const Gap&);

/// These, the parts as a table and a bar, the times of steps as a chart, and what cannot be told.
answers::Document why_answer(const Gap&, const run::Run& measured, std::string title);

}  // namespace triplepoint::advise
