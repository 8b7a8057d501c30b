// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/readers.h"

#include <array>

#include "triplepoint/trace/chakra/chakra.h"
#include "triplepoint/trace/kineto/kineto.h"

namespace triplepoint::trace {

std::span<const Reader> all_readers() {
  // clang-format off
  static constexpr std::array readers = {
      Reader{"kineto", "PyTorch profiler (Kineto) JSON", looks_like_kineto, read_kineto},
      Reader{"chakra", "Chakra execution trace", looks_like_chakra, read_chakra},
  };
  // clang-format on
  return readers;
}

}  // namespace triplepoint::trace
