// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace triplepoint {

/// Adds the files of a pack, which replace others of their names. For each: the lengths of its name
/// and of its content (32 bits each, little-endian), its name, its content. False: the pack is cut
/// short, and what is whole of it is there.
bool mount(std::string_view pack);

}  // namespace triplepoint
