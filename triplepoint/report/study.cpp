// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/study.h"

#include <algorithm>

#include "triplepoint/run/shutdown.h"

namespace triplepoint::report {

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::oom:
      return "oom";
    case Verdict::shutdown:
      return "shutdown";
    case Verdict::invalid:
      return "invalid";
  }
  return "";
}

StudyRow invalid_row(const spec::StudyJob& job) {
  StudyRow row;
  row.name = job.job.name;
  row.job = job.job;
  row.diagnoses = job.diagnoses;
  row.gpus_per_node = job.job.cluster.gpus_per_node;
  return row;
}

StudyRow result_row(const spec::StudyJob& job, const run::Run& run, metrics::Metrics metrics) {
  StudyRow row = invalid_row(job);
  row.verdict = run.manifest.fits_memory ? Verdict::ok : Verdict::oom;
  if (run.manifest.fits_memory && !run::has_trained(run)) row.verdict = Verdict::shutdown;
  if (row.verdict == Verdict::ok) row.metrics = std::move(metrics);
  row.memory = run.memory;
  row.memory_limit = run.memory_limit;
  for (const run::Device& device : run.devices) {
    row.slots.push_back(device.slot);
    row.nodes.push_back(device.node);
  }
  row.has_job = run.manifest.job.has_value();
  row.origin = run.manifest.origin;
  return row;
}

std::optional<std::size_t> worst_stage(const StudyRow& row) {
  if (row.memory.empty()) return std::nullopt;
  const auto worst = std::max_element(
      row.memory.begin(), row.memory.end(),
      [](const run::MemoryUse& a, const run::MemoryUse& b) { return a.total() < b.total(); });
  return static_cast<std::size_t>(worst - row.memory.begin());
}

Summary summary_of(const Study& study) {
  const auto count = [&](Verdict verdict) {
    return static_cast<std::size_t>(
        std::count_if(study.rows.begin(), study.rows.end(),
                      [&](const StudyRow& row) { return row.verdict == verdict; }));
  };
  return {study.rows.size(), count(Verdict::ok), count(Verdict::oom), count(Verdict::invalid)};
}

}  // namespace triplepoint::report
