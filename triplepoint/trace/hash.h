// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace triplepoint::trace {

/// A fast hash of text, the same on every machine of one byte order. Not against those who would
/// break it.
uint64_t hash_of(std::string_view text, uint64_t salt);

}  // namespace triplepoint::trace
