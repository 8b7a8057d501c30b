// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json_fwd.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

namespace triplepoint::study {

/// What is checked: triplepoint-train, with flags of it that name plug-in and libraries.
struct GpuCheckRequest {
  Path trainer;
  std::vector<std::string> flags;
  Seconds limit;                  // of one training
  std::function<bool()> stopped;  // asks for the end
  /// Takes a line as soon as it is known; may be empty.
  std::function<void(const std::string&)> say;
};

/// One GPU, or all of them together, and what became of its trainings.
struct GpuCheckResult {
  std::string who;  // "gpu 0", "gpus 0-7"
  std::string name;
  bool works = false;
  std::string text;  // what was compared, or what failed and what to try
  std::vector<std::string> remarks;
};

/// A self-check of training on the GPUs of this machine.
struct GpuCheck {
  std::string driver_cuda, cublaslt;
  std::vector<GpuCheckResult> results;

  bool works() const;
};

/// Trains two steps of a tiny Llama in fp32 and of a tiny GPT in bf16 on each visible GPU, and on
/// several GPUs together with data parallelism, each in a process that may take so long. Losses
/// and gradient norms are compared with the processor's: step 2 shows the update of step 1. An
/// error says why there is no GPU to check.
Result<GpuCheck> check_gpu_training(const GpuCheckRequest&);

Json gpu_check_json(const GpuCheck&);

}  // namespace triplepoint::study
