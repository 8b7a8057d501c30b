// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::formats {

/// A job as a launch file, and what the other tool has no word for (each a sentence; they also
/// stand as comments on top of the file).
struct Exported {
  std::string text;
  std::vector<std::string> unsupported_settings;
};

/// A configuration for NeMo's megatron_gpt_pretraining, _finetuning (LoRA) or _generate (prefill).
///
/// import_nemo_yaml reads it back as the same job, except for unsupported settings. Cluster and
/// stack are named under `run`, which NeMo's scripts leave alone.
Exported export_nemo_yaml(const spec::Job& job);

/// A shell line that starts Megatron-LM's pretrain_gpt.py under torchrun, on mock data.
///
/// import_megatron_args reads it back as the same job, except for unsupported settings. Cluster,
/// stack and the model's name are variables in front of the command.
Exported export_megatron_args(const spec::Job& job);

}  // namespace triplepoint::formats
