// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "triplepoint/spec/job.h"

namespace triplepoint::learn {

/// What one job differs in from another, as far as a prediction's error may depend on it: sizes by
/// their log2 (recompute by 0, 1, 2: none, selective, full), and words.
inline constexpr std::array<std::string_view, 13> size_knobs = {
    "microbatch", "tensor",   "pipeline", "virtual",    "context", "expert",   "replicas",
    "nodes",      "sequence", "batch",    "parameters", "active",  "recompute"};
inline constexpr std::array<std::string_view, 6> word_knobs = {"model",     "gpu",      "stack",
                                                               "precision", "sharding", "task"};

struct Knobs {
  std::array<double, size_knobs.size()> sizes{};
  std::array<std::string, word_knobs.size()> words;
  friend bool operator==(const Knobs&, const Knobs&) = default;
};

Knobs knobs_of(const spec::Job&);

}  // namespace triplepoint::learn
