// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "triplepoint/base/descriptor.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

namespace triplepoint::run {

/// Bytes that were appended at once, and are there as a whole or not at all.
struct JournalBlock {
  uint64_t sequence = 0;  // ascending
  std::string body;
};

/// An append-only file of compressed blocks with a checksum each. Whatever kills the writer, and
/// wherever the file ends, all blocks before the last sync can be read.
///
///   file   = "TPntGrow" version(u32) 0(u32) run(u64), block...
///   block  = "blk1" size(u32) plain_size(u32) crc(u32) sequence(u64), size bytes of one zstd frame
///
/// All little-endian; crc: zlib's CRC-32 of what precedes it (12 bytes), sequence and frame. `run`
/// is a random number which a journal and its tail share.
class JournalWriter {
 public:
  /// A new file; one that exists is an error.
  static Result<JournalWriter> create(const Path& path, uint64_t run);

  /// On an error (disk full) the file is as before, and the same block may be tried again.
  Result<void> append(uint64_t sequence, std::string_view body);
  /// Returns when all that was appended has reached the disk.
  Result<void> sync();
  /// Forgets all blocks.
  Result<void> clear();
  const Path& path() const { return path_; }

 private:
  JournalWriter(Path path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}
  Result<void> write_at_end(std::string_view bytes);

  Path path_;
  Descriptor file_;
  int64_t end_ = 0;
  std::string frame_;  // kept, so that appending does not allocate
  struct FreeContext {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, FreeContext> context_;
};

/// Whether these bytes begin a journal.
bool is_journal(std::string_view head);

/// What a journal says of itself, and where its sound part ends.
struct JournalExtent {
  uint64_t run = 0;
  int64_t blocks = 0;
  uint64_t sound_bytes = 0, file_bytes = 0;
};

/// Calls visit for each block, up to the first one that is not whole; on any bytes.
using BlockVisitor = std::function<void(const JournalBlock&)>;
Result<JournalExtent> read_journal(std::string_view bytes, const std::string& name,
                                   const BlockVisitor& visit);
/// The same from a file, which another process may be writing; a block at a time in memory.
Result<JournalExtent> read_journal_file(const Path& path, const BlockVisitor& visit);

}  // namespace triplepoint::run
