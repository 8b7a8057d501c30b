// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/large_vector.h"

#include <cstdint>

#include <sys/mman.h>

namespace triplepoint::trace {

void prefer_large_pages(const void* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = 4096;
  constexpr size_t min_bytes = 4 << 20;
  if (bytes < min_bytes) return;
  auto* const first = static_cast<const char*>(begin);
  const size_t to_page = (page - reinterpret_cast<uintptr_t>(first) % page) % page;
  const size_t whole = (bytes - to_page) / page * page;
  // Only advice: what comes back does not matter.
  (void)madvise(const_cast<char*>(first) + to_page, whole, MADV_HUGEPAGE);
#else
  (void)begin, (void)bytes;
#endif
}

}  // namespace triplepoint::trace
