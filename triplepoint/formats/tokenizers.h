// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace triplepoint::formats {

/// Tokens of a tokenizer before padding, by its name in launch files ("GPT2BPETokenizer",
/// "meta-llama/Meta-Llama-3-70B"); letters of either case.
std::optional<int64_t> vocabulary_of(std::string_view tokenizer);

}  // namespace triplepoint::formats
