// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::calibrate {

/// A spelling cut into what matters: words, numbers and sizes, in small letters.
///
/// "LLAMA3.1_405B" gives llama, 3.1, 405b; "Qwen3_30B_a3B" gives qwen, 3, 30b, a, 3b;
/// "Mixtral-8x7B" gives mixtral, 8, x, 7b. A number is a size if b, m or t follows and no letter
/// after that.
std::vector<std::string> name_pieces(std::string_view spelling);

/// The library's name of a model that is spelled in any usual way: "Llama 3.1 405b 24.09" is
/// llama3-405b, "GPT-3 5B" is gpt3-5b, "Llama3-70B (layer-cut)" is llama3-70b. Cuts, precisions and
/// dates in the spelling are passed over.
///
/// An architecture that a decoder-only transformer cannot express is an error that says which one;
/// so is a name nobody knows.
Result<std::string> model_named(std::string_view spelling);

}  // namespace triplepoint::calibrate
