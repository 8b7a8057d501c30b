// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {

/// Megatron-Core's recompute_modules; what is no module of it is noted as a diagnosis.
std::vector<spec::RecomputeModule> read_recompute_modules(Settings&, std::string_view key);

std::vector<std::string> recompute_module_names(const spec::Plan&);

/// Megatron's two shorthands: letters of a layout, "t*3" and "(tt|)*2", and lists of 0 and 1,
/// "[0]*3+([1]*2)".
enum class WrittenForm { letters, lists };
/// A shorthand in full: "tt|tt|", "00011"; nothing for a text that is none.
std::optional<std::string> written_out(std::string_view text, WrittenForm form);

/// Megatron's --pipeline-model-parallel-layout: "Ettt|(tt|)*2tL" is 3, 2, 2 and 1 layers. E is the
/// embedding, t a layer, m a further prediction, L the loss; | ends a stage; commas mean nothing.
/// Nothing for a text that is no layout.
std::optional<std::vector<int64_t>> read_pipeline_layout(std::string_view text);

/// The layout of given layers per stage: "Et*3|t*2|t*2|tL".
std::string write_pipeline_layout(const std::vector<int64_t>& layers);

}  // namespace triplepoint::formats
