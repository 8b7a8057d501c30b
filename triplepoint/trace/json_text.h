// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace triplepoint::trace {

/// A JSON string's text without its escapes. What is no valid escape stays as it is.
std::string unescaped(std::string_view raw);

}  // namespace triplepoint::trace
