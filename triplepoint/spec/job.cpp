// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/job.h"

#include <fmt/format.h>

namespace triplepoint::spec {

Result<void> require_training(const Job& job, std::string_view what) {
  if (!is_inference(job.task)) return {};
  return error(
      fmt::format("{} for training only (the job's task is {}); simulate it, or set task "
                  "to pretrain or lora",
                  what, name_of(job.task)));
}

Result<void> require_valid(const Job& job) {
  std::string problems;
  for (const Diagnosis& diagnosis : diagnose(job)) {
    if (diagnosis.severity != Diagnosis::Severity::error) continue;
    problems += (problems.empty() ? "" : "\n  ") + diagnosis.what;
  }
  if (problems.empty()) return {};
  return error(fmt::format("job {}: {}", job.name, problems));
}

}  // namespace triplepoint::spec
