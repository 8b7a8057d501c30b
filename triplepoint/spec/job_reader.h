// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/table_reader.h"

namespace triplepoint::spec {

// What a job that names none runs with: the plainest Megatron.
inline constexpr std::string_view default_stack = "megatron-core";
inline constexpr std::string_view serving_stack = "vllm";  // of prefill and decode

/// A job from the root of its tree.
Result<Job> read_job(const ReadScope& scope, const TomlValue& root);

}  // namespace triplepoint::spec
