// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::trace {

/// As run::sort, for many spans: with less time, and less memory at its height.
void sort_spans(run::Timeline&);

/// Asks the system for large pages where a large array is going to be: filling it then costs a
/// fraction of the page faults, which are a third of the time of reading a trace otherwise. Where
/// there are none, nothing happens.
void prefer_large_pages(const void* begin, size_t bytes);

/// Reserves space if available: the size is often a guess, and costs only once it is
/// filled.
template <class Item>
void reserve_large(std::vector<Item>& items, size_t count) {
  try {
    items.reserve(count);
  } catch (const std::bad_alloc&) {
    return;  // it grows step by step, or fails where it is really needed
  }
  prefer_large_pages(items.data(), items.capacity() * sizeof(Item));
}

}  // namespace triplepoint::trace
