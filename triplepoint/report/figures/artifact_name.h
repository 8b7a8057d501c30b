// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace triplepoint::report {

/// Sweeps whose folders share the meaning of their indices: training on 32 H200 and on 64 H100,
/// LoRA and inference on 32 H200.
enum class ArtifactSweep { h200, h100, adapters };

/// What the name of a result folder of the paper's artifact says: <model>_<index>_<variant>.
struct ArtifactName {
  std::string model, layout, variant;
  int64_t microbatch = 1, pipeline = 1;
};

/// Nothing for other names. The index means a layout, which differs between sweeps; the variant is
/// mbsN (recompute is on in sweeps of training, off in LoRA and inference), or five digits: the
/// first is overlap, the second recompute. Where the artifact's scripts label Mixtral-8x7B's
/// indices 1 and 2 otherwise, its own YAML files decide. Source: CharLLM-PPT, scripts/experiments
/// and scripts/visualization/figure_8.py.
std::optional<ArtifactName> parse_artifact_name(std::string_view text, ArtifactSweep sweep);

}  // namespace triplepoint::report
