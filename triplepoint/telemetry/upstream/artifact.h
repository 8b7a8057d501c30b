// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// One of the artifact's metrics and what we call it; reading and writing share this table.
struct ArtifactMetric {
  std::string_view metric;  // "gpu_power" of gpu_power_3.csv
  std::string_view signal;  // ours; "": read and left out
  double factor = 1;        // from their unit to ours
  run::Scope scope = run::Scope::gpu;
  run::ReadingKind kind = run::ReadingKind::instant;
  bool wraps = false;  // a counter of which the sampler kept the low 32 bits
};

/// Of GPUs: <metric>_<rank>.csv.
std::span<const ArtifactMetric> gpu_metrics();
/// Of nodes: system_<metric>_rank_<rank>_id_<id>.csv, summed (temperatures: the highest) over ids;
/// system_<metric>_<rank>.csv.
std::span<const ArtifactMetric> node_metrics();

const ArtifactMetric* find_metric(std::span<const ArtifactMetric>, std::string_view metric);

/// What the name of a file says.
struct ArtifactName {
  const ArtifactMetric* metric = nullptr;
  bool of_node = false;
  int32_t rank = 0;
  std::string id;  // cpu, thermal zone or network device; "" of a GPU
};
std::optional<ArtifactName> artifact_name(std::string_view file_name);

/// How a note begins that says what is missing of a recording.
inline constexpr std::string_view incomplete_note = "incomplete: ";
/// How the note begins that takes the whole recording for a step.
inline constexpr std::string_view one_step_note = "one step is assumed to be the whole recording";

/// No job has more ranks: a name that says so is not the artifact's.
inline constexpr int32_t most_ranks = 65536;
/// Where nothing says how many GPUs a node has; all of the paper's nodes have 8.
inline constexpr int32_t usual_gpus_per_node = 8;

}  // namespace triplepoint::telemetry
