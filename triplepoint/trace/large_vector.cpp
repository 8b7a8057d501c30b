// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/large_vector.h"

#include <cstdint>

#include <sys/mman.h>

namespace triplepoint::trace {

void prefer_large_pages(const void* begin, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t page = 4096;
  constexpr size_t worth_it = 4 << 20;
  if (bytes < worth_it) return;
  const uintptr_t first = (reinterpret_cast<uintptr_t>(begin) + page - 1) / page * page;
  const uintptr_t last = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  // Only advice: what comes back does not matter.
  (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
  (void)begin, (void)bytes;
#endif
}

}  // namespace triplepoint::trace
