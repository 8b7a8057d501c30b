// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/run/run.h"

namespace triplepoint::report {

/// What the page's timeline viewer draws: web/src/timeline_data.ts defines the format. Null for a
/// run without a timeline.
///
/// Patterns are sent as patterns, so that a step of a thousand GPUs stays small, and ranks that do
/// the same at the same time are one row. Where single spans of one lane overlap (calls inside
/// calls), they are spread over further lanes. Beyond `most_spans` single spans, host spans go
/// first, then the shortest; the note says what is left out.
Json timeline_data(const run::Run&, std::size_t most_spans = 250'000);

/// A column of the format: a number where all entries are equal, else base64 of LEB128 varints of
/// zigzag differences. Values are below 2^52.
Json encoded_column(const std::vector<int64_t>& values);

}  // namespace triplepoint::report
