// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::report {

/// What the name of a result folder of the paper's artifact says: <model>_<index>_<variant>.
struct ArtifactName {
  std::string model, layout, variant;
  int64_t microbatch = 1, pipeline = 1;
};

/// Nothing for other names. The index means a layout, which differs between the cluster of 32 and
/// that of 64 devices; the variant is mbsN (recompute is on in that sweep), or five digits: the
/// first is overlap, the second recompute. Where the artifact's scripts label Mixtral-8x7B's
/// indices 1 and 2 otherwise, its own YAML files decide. Source: CharLLM-PPT, scripts/experiments
/// and scripts/visualization/figure_8.py.
std::optional<ArtifactName> parse_artifact_name(std::string_view text, int64_t devices);

}  // namespace triplepoint::report
