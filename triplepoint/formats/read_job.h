// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::formats {

/// A job from whatever file holds one: our TOML, a stored run, NeMo YAML, Megatron arguments; a
/// Hugging Face config.json gives the model only. "paper/h200:NAME" is a job of a study.
Result<spec::Job> read_job(const spec::Library& library, const std::string& what);

/// The stack of a job that names none: the plain one of the framework the study used.
inline constexpr const char* default_stack = "megatron-core";
inline constexpr const char* serving_stack = "vllm";

}  // namespace triplepoint::formats
