// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace triplepoint::trace {

/// Asks the system for large pages where a large array is going to be: filling it then costs a
/// fraction of the page faults, which are a third of the time of reading a trace otherwise. Where
/// there are none, nothing happens.
void prefer_large_pages(const void* begin, size_t bytes);

template <class Item>
void reserve_large(std::vector<Item>& items, size_t count) {
  items.reserve(count);
  prefer_large_pages(items.data(), items.capacity() * sizeof(Item));
}

}  // namespace triplepoint::trace
