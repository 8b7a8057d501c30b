// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "triplepoint/base/units.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::answers {

/// What is known of one job: a view, valid as long as what it was made from.
struct RunResult {
  const metrics::Metrics& metrics;
  const spec::Job* job = nullptr;               // null: a recording of an unknown command
  std::span<const run::MemoryUse> memory = {};  // per pipeline stage
  std::optional<Bytes> memory_limit = {};
  bool has_trained = true;        // neither memory nor heat forbade it
  bool knows_kernels = false;     // by a timeline
  const run::Run* run = nullptr;  // null: a row of a study, which has kept no run
};
/// A job that did not run has no metrics to show.
RunResult result_of(const run::Run&, const metrics::Metrics&);

}  // namespace triplepoint::answers
