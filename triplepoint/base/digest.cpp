// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/digest.h"

#include <cstdint>

#include <fmt/format.h>

namespace triplepoint {

std::string digest(std::string_view text) {
  uint64_t hash = 14695981039346656037ULL;
  for (char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  return fmt::format("{:016x}", hash);
}

}  // namespace triplepoint
