// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace triplepoint {

/// 64 bits of a text, as 16 hexadecimal digits. FNV-1a (Fowler, Noll, Vo).
std::string digest(std::string_view text);

}  // namespace triplepoint
