// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/study/place_telemetry.h"

#include <algorithm>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"

#include "triplepoint/run/store.h"

#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::study {
namespace {

using advise::ThermalSample;

Result<bool> require_readings(const std::vector<ThermalSample>& samples, const std::string& first) {
  for (const ThermalSample& sample : samples)
    if (!sample.temperature_c && !sample.clock_mhz && !sample.throttled)
      return error(
          fmt::format("GPU {} of node {} has no temperature, clock or throttling in {} (it cannot "
                      "be grouped); record it with triplepoint record",
                      sample.local, sample.node, first));
  return true;
}

}  // namespace

bool is_thermal_table(const std::string& path) {
  return path.ends_with(".csv") && !telemetry::looks_like_upstream(path);
}

Result<Telemetry> read_telemetry(const std::vector<std::string>& files,
                                 const advise::TableChoice& choice) {
  Telemetry all;
  for (const std::string& path : files) {
    std::vector<ThermalSample> samples;
    if (is_thermal_table(path)) {
      std::string text = TPT_TRY(read_file(path));
      const CsvTable table = TPT_TRY(CsvTable::parse(std::move(text), path));
      samples = TPT_TRY(advise::read_thermal_table(table, choice));
    } else {
      const bool upstream = telemetry::looks_like_upstream(path);
      const run::Run run = TPT_TRY(upstream ? telemetry::read_upstream(path) : run::load(path));
      samples = advise::thermal_samples(run);
      if (run.manifest.job && !all.job) all.job = run.manifest.job;
      if (all.hosts.empty()) all.hosts = run.manifest.hosts;
    }
    all.samples.insert(all.samples.end(), samples.begin(), samples.end());
  }
  TPT_TRY(require_readings(all.samples, files.empty() ? "" : files.front()));
  return all;
}

Result<bool> require_same_size(const spec::Job& job, const std::vector<ThermalSample>& samples) {
  int64_t nodes = 0, locals = 0;
  for (const ThermalSample& sample : samples) {
    nodes = std::max(nodes, sample.node + 1);
    locals = std::max(locals, sample.local + 1);
  }
  const bool fits = samples.empty() || (locals <= job.cluster.gpus_per_node &&
                                        (nodes == 1 || nodes == job.cluster.num_nodes));
  if (fits) return true;
  return error(fmt::format(
      "the telemetry is of {} nodes with up to {} GPUs, the job is for {} with {} (its GPUs are "
      "others); give that of one node, or of all of them",
      nodes, locals, job.cluster.num_nodes, job.cluster.gpus_per_node));
}

}  // namespace triplepoint::study
