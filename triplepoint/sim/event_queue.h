// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "triplepoint/base/expect.h"
#include "triplepoint/base/units.h"

namespace triplepoint::sim {

/// Times of slots, earliest first; a slot has at most one time, which may move. Equal times come by
/// slot. A binary heap that knows where each slot stands: O(log n) for everything.
class EventQueue {
 public:
  explicit EventQueue(size_t slots) : place_(slots, absent) { heap_.reserve(slots); }

  bool empty() const { return heap_.empty(); }
  Seconds next_time() const { return heap_.front().time; }

  void set(int32_t slot, Seconds time) {
    size_t at = place_[static_cast<size_t>(slot)];
    if (at == absent) {
      at = heap_.size();
      heap_.push_back({time, slot});
    }
    const Entry entry{time, slot};
    sink(entry, rise(entry, at));
  }

  int32_t pop() {
    TPT_EXPECT(!heap_.empty());
    const int32_t slot = heap_.front().slot;
    place_[static_cast<size_t>(slot)] = absent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last, 0);
    return slot;
  }

 private:
  static constexpr size_t absent = ~size_t{0};
  struct Entry {
    Seconds time;
    int32_t slot;
    bool before(const Entry& other) const {
      return time < other.time || (time == other.time && slot < other.slot);
    }
  };

  /// Where the entry belongs, looking towards the front from `at`; makes room on the way.
  size_t rise(const Entry& entry, size_t at) {
    while (at > 0 && entry.before(heap_[(at - 1) / 2])) {
      put(heap_[(at - 1) / 2], at);
      at = (at - 1) / 2;
    }
    return at;
  }

  void sink(const Entry& entry, size_t at) {
    for (size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1].before(heap_[child])) ++child;
      if (!heap_[child].before(entry)) break;
      put(heap_[child], at);
      at = child;
    }
    put(entry, at);
  }

  void put(const Entry& entry, size_t at) {
    heap_[at] = entry;
    place_[static_cast<size_t>(entry.slot)] = at;
  }

  std::vector<Entry> heap_;
  std::vector<size_t> place_;  // [slot]
};

}  // namespace triplepoint::sim
