// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace triplepoint::trace::kineto {

/// Numbers for (name, salt): one look-up an event, nothing allocated unless the name is new. Names
/// made to share a hash cost time, not memory.
class NameTable {
 public:
  /// The number given to this pair before; -1 if it is new: then give() it one.
  int32_t find(std::string_view name, uint32_t salt);
  void give(int32_t number);  // to what find() did not find last
  size_t bytes() const { return slots_.size() * sizeof(Slot) + name_bytes_; }

 private:
  struct Slot {
    uint64_t hash = 0;
    const char* name = nullptr;
    uint32_t size = 0, salt = 0;
    int32_t number = -1;
  };
  void grow();

  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  size_t used_ = 0, name_bytes_ = 0;
  std::deque<std::string> names_;  // a deque: what slots point to stays
  // What find() did not find.
  std::string_view missed_;
  uint64_t missed_hash_ = 0;
  uint32_t missed_salt_ = 0;
};

}  // namespace triplepoint::trace::kineto
