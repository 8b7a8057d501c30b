// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/mark/reader.h"
#include "triplepoint/mark/wire.h"

namespace triplepoint::mark {

/// Texts that live as long as the reader, each kept once.
class Names {
 public:
  /// The text as valid UTF-8 without control characters: it goes into tables and JSON.
  std::string_view keep(std::string_view text);

 private:
  std::set<std::string, std::less<>> texts_;
};

/// An open file that closes itself.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(); }

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();
  /// Reads all of it, or nothing.
  bool read(void* bytes, std::size_t size, std::size_t offset) const;

 private:
  int descriptor_ = -1;
};

/// One process's file, as wire.h describes it, read with pread: a file that is cut short while it
/// is read yields less, never a signal.
struct Ring {
  int32_t index = 0;  // of its process
  int64_t pid = 0;
  uint32_t entry_count = 0, name_count = 0;
  File file;  // closed when its process is gone and all is read

  /// Visits what is new; how many entries were lost on the way.
  int64_t drain(Names&, const std::function<void(const Event&)>& visit);

 private:
  struct Batch;
  enum class Found { whole, unfinished, overrun };

  std::size_t offset_of(uint64_t entry) const;
  bool writer_is_gone() const;
  void note_overdue(uint64_t head);
  Found look_at(const triplepoint_wire_entry& entry, uint64_t number) const;
  bool event_of(const triplepoint_wire_entry& entry, Names& names, Event& event);
  std::string_view name_at(uint16_t place, Names& names);
  std::vector<triplepoint_wire_entry> read_from(uint64_t number, uint64_t head) const;

  uint64_t next_ = 0;  // the first entry that was not visited
  uint64_t overdue_ = 0, head_seen_ = 0;
  int64_t head_seen_ns_ = 0;
  std::vector<std::string_view> names_;  // by place; null data: not read yet
};

/// What a file turned out to be: a ring, one that is not ready yet, or nothing of ours.
struct Opened {
  enum class State { ring, unready, foreign };
  State state = State::foreign;
  std::unique_ptr<Ring> ring;
  Process process;
};
Opened open_ring(const Path& path);

}  // namespace triplepoint::mark
