// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/live/snapshot.h"
#include "triplepoint/telemetry/recorder/launch_environment.h"
#include "triplepoint/telemetry/sampler/sampler.h"

namespace triplepoint::telemetry {

/// How a signal is called in Prometheus: base units in the name, _total for counters.
struct MetricName {
  std::string name, help;
  bool counter = false;
  double scale = 1;                // of the value: MHz to hertz, ns to seconds
  std::string label, label_value;  // one more label: reason="software_power_cap"; "" for none
  friend bool operator==(const MetricName&, const MetricName&) = default;
};

/// Well-known signals have names and their own help; others are named after their unit's suffix
/// (_w, _c, _j, _mhz, _bytes, _b, _s, _ns), so that a new signal needs no change here.
MetricName metric_of(const run::SeriesSource&);

/// What dcgm-exporter calls the same (by its old and new name); none where it has no such field.
/// Its units: W, C, MHz, %, mJ, MiB. Source: NVIDIA/dcgm-exporter, etc/default-counters.csv (names
/// are facts of its API).
std::vector<MetricName> dcgm_metrics_of(const run::SeriesSource&);

/// The other way round: what a metric of this exporter or of dcgm-exporter tells, and the unit of
/// its values in that of the signal. Nothing: neither has it.
struct MetricMeaning {
  std::string_view signal;
  double unit = 1;
  run::ReadingKind kind = run::ReadingKind::instant;
  bool of_node = false;
};
std::optional<MetricMeaning> signal_of_metric(std::string_view name);

/// Labels of one job on this node: ("job_id", "4711"), ("rank", "3"), ... and "gpus", those that it
/// has to itself. They become series triplepoint_job_info{...} 1, one a GPU, to join with the
/// others by host and gpu; no other series carries them. Prometheus' own labels job and instance
/// are job_id and job_instance here.
using JobLabels = std::vector<std::pair<std::string, std::string>>;

/// What the launcher's environment says: job_id, gpus, launcher, rank, local_rank, world_size, and
/// Slurm's job name, user, account and partition. Empty outside of a job.
JobLabels job_of_environment(const Variable&);

/// "job=4711,user=ann": names of letters, digits and _, not beginning with a digit or "__", none
/// twice, and none that the series has already (host, gpu).
Result<JobLabels> parse_job(std::string_view text);

/// A file of such texts, one job a line; # begins a comment. A prolog writes it, an epilog empties
/// it. A file that is not there is no job.
Result<std::vector<JobLabels>> read_job_file(const Path&);

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
/// added. Jobs are a separate series, triplepoint_job_info. What is not measured has no line.
/// Source: prometheus.io/docs/instrumenting/exposition_formats.
std::string exposition(const Snapshot&, const std::vector<JobLabels>& jobs, const OwnCost&,
                       const ExpositionOptions&);

inline constexpr const char* exposition_content_type = "text/plain; version=0.0.4; charset=utf-8";

}  // namespace triplepoint::telemetry
