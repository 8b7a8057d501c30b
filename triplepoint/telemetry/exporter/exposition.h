// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/telemetry/exporter/job_info.h"
#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/sampler/sampler.h"

namespace triplepoint::telemetry {

/// What the exporter itself takes.
struct OwnCost {
  SamplerCost sampler;
  double process_cpu_s = 0;
  std::optional<double> resident_b;
  int64_t scrapes = 0;
};

struct ExpositionOptions {
  bool dcgm_names = false;  // besides ours
  std::string version;      // of triplepoint_build_info
};

/// The page that Prometheus scrapes, text format 0.0.4.
///
/// A GPU's series carry gpu, uuid, host, model, and nothing that changes while it is there; power
/// and energy say their scope besides (gpu, module, package), since scopes overlap and must not be
/// added. Jobs are series of their own, triplepoint_job_info. What is not measured has no line.
/// Source: prometheus.io/docs/instrumenting/exposition_formats.
std::string exposition(const Snapshot&, const std::vector<JobLabels>& jobs, const OwnCost&,
                       const ExpositionOptions&);

inline constexpr const char* exposition_content_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace triplepoint::telemetry
