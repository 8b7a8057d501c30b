// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::formats {

/// Megatron's --pipeline-model-parallel-layout: "Ettt|(tt|)*2tL" is 3, 2, 2 and 1 layers. E is the
/// embedding, t a layer, m a further prediction, L the loss; | ends a stage; commas mean nothing.
/// Nothing for a text that is no layout.
std::optional<std::vector<int64_t>> read_pipeline_layout(std::string_view text);

/// The layout of so many layers per stage: "Et*3|t*2|t*2|tL".
std::string write_pipeline_layout(const std::vector<int64_t>& layers);

}  // namespace triplepoint::formats
