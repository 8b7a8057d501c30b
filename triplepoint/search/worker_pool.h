// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "triplepoint/base/result.h"

namespace triplepoint::search {

/// Processes that search one space together. Each does the items whose number leaves its rank as
/// remainder, then all tell each other, so that everyone goes on from the same state: the outcome
/// is that of one process, to the bit.
struct WorkerPool {
  int rank = 0, size = 1;
  /// Gives `mine` to all and returns what everyone gave, by rank. All members call it equally
  /// often.
  std::function<std::vector<std::string>(const std::string& mine)> share;

  bool has(size_t item) const {
    return item % static_cast<size_t>(size) == static_cast<size_t>(rank);
  }
};

/// Values as bytes, for processes of one program on machines of one kind.
class Packer {
 public:
  template <class T>
  Packer& add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::span<const char> bytes) : bytes_(bytes) {}

  template <class T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    TPT_EXPECT(bytes_.size() >= sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_ = bytes_.subspan(sizeof(T));
    return value;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::span<const char> bytes_;
};

/// Whether any member says yes.
inline bool anyone(const WorkerPool* pool, bool mine) {
  if (pool == nullptr) return mine;
  bool any = false;
  for (const std::string& one : pool->share(std::string(1, mine ? 'y' : 'n')))
    any |= one == "y";
  return any;
}

/// Completes `items` of which each member did its own: `pack(packer, i)` writes one of them,
/// `unpack(unpacker, i)` reads it.
template <class Pack, class Unpack>
void complete(const WorkerPool* pool, size_t items, const Pack& pack, const Unpack& unpack) {
  if (pool == nullptr) return;
  Packer mine;
  for (size_t i = 0; i < items; ++i)
    if (pool->has(i)) pack(mine, i);
  const std::vector<std::string> all = pool->share(mine.bytes());
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == pool->rank) continue;
    Unpacker theirs(all[rank]);
    for (size_t i = rank; i < items; i += all.size())
      unpack(theirs, i);
  }
}

}  // namespace triplepoint::search
