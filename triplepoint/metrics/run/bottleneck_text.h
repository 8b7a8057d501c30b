// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/trace/late_ranks.h"

namespace triplepoint::metrics {

/// "GPU 3 slows the others: 1,008 MHz against 1,850 MHz (power limit, 350 W against 700 W); the
/// step takes 47 % longer, 2.20 s, than at the median of the peers."
/// `numbers`: run::device_numbers() of a recording.
std::string bottleneck_sentence(const run::Bottleneck&, std::optional<Seconds> step_time,
                                const std::vector<std::string>& numbers = {});
/// Of whom it is, without the word for them: "3", "3 of node 1".
std::vector<std::string> names_of(const run::Bottleneck&, const std::vector<std::string>& numbers);
/// What to do about it.
std::string bottleneck_advice(const run::Bottleneck&);

/// What a number of evidence is: "SM clock (MHz)".
std::string evidence_label(const run::Evidence&);

/// What trace stragglers and pages say of who is late: every bottleneck with its advice, or that
/// there is none; and, of traces, whom a naive reading (most time in communication kernels) would
/// blame instead.
std::vector<std::string> lateness_sentences(const run::Run&, const LateRanks&,
                                            const std::vector<run::Bottleneck>&,
                                            std::optional<Seconds> step_time);

}  // namespace triplepoint::metrics
