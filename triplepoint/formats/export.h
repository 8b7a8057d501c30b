// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::formats {

/// A job as a launch file, and what the other tool has no word for (each a sentence; they also
/// stand as comments on top of the file).
struct Exported {
  std::string text;
  std::vector<std::string> unsupported_settings;
  std::string refused_by_launcher = {};  // why the other tool cannot start the file; empty: it can
};

/// A configuration for NeMo's megatron_gpt_pretraining, _finetuning (LoRA) or _generate (prefill).
///
/// It trains for `steps` steps. Under a stack with the profiler it traces the 11th, as the paper's
/// artifact, or the last of fewer. import_nemo_yaml reads it back as the same job, except for
/// unsupported settings. Cluster and stack are named under `run`, which NeMo's scripts leave alone.
Exported export_nemo_yaml(const spec::Job& job, int64_t steps = 20);

/// The program of NeMo's examples/nlp/language_modeling that takes it.
std::string_view nemo_entry_script(spec::Task task);

/// A shell line that starts Megatron-LM's pretrain_gpt.py under torchrun, on mock data.
///
/// import_megatron_args reads it back as the same job, except for unsupported settings. Cluster,
/// stack and the model's name are variables in front of the command.
Exported export_megatron_args(const spec::Job& job);

/// "num-layers" 32: an argument of Megatron-LM, without words where it is a switch.
struct MegatronArgument {
  std::string name;
  std::vector<std::string> words;
};
/// The arguments of a job, and what they leave out.
std::vector<MegatronArgument> megatron_arguments(const spec::Job& job,
                                                 std::vector<std::string>& unsupported);

/// A configuration of Megatron-Bridge (ConfigContainer): the same arguments under its sections.
/// import_tool reads it back as the same job; cluster, nodes and stack are not in it.
Exported export_bridge_yaml(const spec::Job& job);

/// Writes STEM-job.toml, STEM-megatron.sh and STEM-nemo.yaml. Returns remarks, one a line: what a
/// file leaves out, and why there is no nemo.yaml where NeMo cannot start the job (an older file of
/// that name is removed).
Result<std::string> write_job_files(const spec::Library&, const spec::Job&, const Path& stem);

/// Settings that no launch file has: the room, the order of devices, experts' imbalance.
std::vector<std::string> unsupported_by_launch_files(const spec::Job& job);

/// "# not in this file: ..." for each.
std::string comments_of(const std::vector<std::string>& unsupported);

/// Do all stages but the first and the last hold equally many layers?
bool has_even_inner_stages(const std::vector<int64_t>& layers);

/// Leading dense layers as Megatron writes them: "([0]*3+[1]*58)".
std::string moe_pattern(const spec::Model& model);

}  // namespace triplepoint::formats
