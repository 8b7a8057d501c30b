// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/journal.h"

#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

namespace triplepoint::run {

namespace {

constexpr std::string_view magic = "TPntGrow";
constexpr std::string_view block_magic = "blk1";
constexpr uint32_t version = 1;
constexpr size_t file_header_bytes = 24, block_header_bytes = 24;
// Blocks hold a second of readings, or a minute of them encoded.
constexpr uint32_t most_block_bytes = 64U << 20U;
constexpr int compression_level = 1;

void put(char* at, auto number) {
  for (size_t i = 0; i < sizeof number; ++i)
    at[i] = static_cast<char>(number >> (8 * i));
}
template <class Number>
Number take(std::string_view bytes, size_t at) {
  Number number = 0;
  for (size_t i = 0; i < sizeof number; ++i)
    number |= static_cast<Number>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return number;
}

uint32_t add_to_crc(uint32_t crc, std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

/// Of a block's header before and behind the place of the sum, and of the frame.
uint32_t crc_of(std::string_view header, std::string_view frame) {
  return add_to_crc(add_to_crc(add_to_crc(0, header.substr(0, 12)), header.substr(16, 8)), frame);
}

tl::unexpected<Error> cannot_write(const Path& path, int code) {
  const bool full = code == ENOSPC || code == EDQUOT || code == EFBIG;
  return error("cannot write {} ({}); {}", path.string(), std::generic_category().message(code),
               full ? "free some space or write to another folder"
                    : "check the folder, its permissions and the disk");
}

std::string file_header(uint64_t run) {
  std::string header(file_header_bytes, '\0');
  header.replace(0, magic.size(), magic);
  put(header.data() + 8, version);
  put(header.data() + 16, run);
  return header;
}

/// The block whose frame this is; nothing if it is not what the header says.
std::optional<JournalBlock> unpack(std::string_view header, std::string_view frame) {
  if (crc_of(header, frame) != take<uint32_t>(header, 12)) return std::nullopt;
  const auto plain_bytes = take<uint32_t>(header, 8);
  if (ZSTD_getFrameContentSize(frame.data(), frame.size()) != plain_bytes) return std::nullopt;
  JournalBlock block{.sequence = take<uint64_t>(header, 16),
                     .body = std::string(plain_bytes, '\0')};
  const size_t got =
      ZSTD_decompress(block.body.data(), block.body.size(), frame.data(), frame.size());
  if (ZSTD_isError(got) != 0 || got != block.body.size()) return std::nullopt;
  return block;
}

/// Bytes of the frame that follows, if this is a block's header.
std::optional<uint32_t> frame_bytes(std::string_view header) {
  if (header.size() < block_header_bytes || !header.starts_with(block_magic)) return std::nullopt;
  const auto size = take<uint32_t>(header, 4), plain = take<uint32_t>(header, 8);
  if (size > most_block_bytes || plain > most_block_bytes) return std::nullopt;
  return size;
}

/// Blocks from anything that yields the next bytes: `read(n)` gives up to n of them.
Result<JournalExtent> read_blocks(auto read, const std::string& name, const BlockVisitor& visit) {
  const std::string head(read(file_header_bytes));
  if (head.size() < file_header_bytes || !is_journal(head))
    return error("{} is no growing run (it does not begin as one); give a file that record writes",
                 name);
  if (take<uint32_t>(head, 8) > version)
    return error(
        "{} is a growing run of version {} (this program reads up to {}); use a newer triplepoint",
        name, take<uint32_t>(head, 8), version);
  JournalExtent extent{.run = take<uint64_t>(head, 16), .sound_bytes = file_header_bytes};
  while (true) {
    const std::string header(read(block_header_bytes));
    const auto size = frame_bytes(header);
    if (!size) return extent;
    const std::string_view frame = read(*size);
    const auto block = frame.size() == *size ? unpack(header, frame) : std::nullopt;
    if (!block) return extent;
    visit(*block);
    ++extent.blocks;
    extent.sound_bytes += block_header_bytes + *size;
  }
}

}  // namespace

bool is_journal(std::string_view head) {
  return head.starts_with(magic);
}

void JournalWriter::FreeContext::operator()(void* context) const {
  ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(context));
}

Result<JournalWriter> JournalWriter::create(const Path& path, uint64_t run) {
  Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file) return cannot_write(path, errno);
  JournalWriter writer(path, std::move(file));
  writer.context_.reset(ZSTD_createCCtx());
  TPT_TRY(writer.write_at_end(file_header(run)));
  return writer;
}

Result<void> JournalWriter::write_at_end(std::string_view bytes) {
  int64_t at = end_;
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file_.number(), bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const int code = errno;
      // Best effort: a reader stops at half a block anyway, and the next one is written over it.
      [[maybe_unused]] const int ignored = ::ftruncate(file_.number(), end_);
      return cannot_write(path_, code);
    }
    bytes.remove_prefix(static_cast<size_t>(count));
    at += count;
  }
  end_ = at;
  return {};
}

Result<void> JournalWriter::append(uint64_t sequence, std::string_view body) {
  if (body.size() > most_block_bytes)
    return error("{}: a block of {} bytes is too large; write more often", path_.string(),
                 body.size());
  frame_.resize(block_header_bytes + ZSTD_compressBound(body.size()));
  const size_t size = ZSTD_compressCCtx(
      static_cast<ZSTD_CCtx*>(context_.get()), frame_.data() + block_header_bytes,
      frame_.size() - block_header_bytes, body.data(), body.size(), compression_level);
  if (ZSTD_isError(size) != 0)
    return error("{}: cannot compress ({}); free some memory", path_.string(),
                 ZSTD_getErrorName(size));
  frame_.resize(block_header_bytes + size);
  frame_.replace(0, block_magic.size(), block_magic);
  put(frame_.data() + 4, static_cast<uint32_t>(size));
  put(frame_.data() + 8, static_cast<uint32_t>(body.size()));
  put(frame_.data() + 16, sequence);
  const std::string_view whole = frame_;
  put(frame_.data() + 12,
      crc_of(whole.substr(0, block_header_bytes), whole.substr(block_header_bytes)));
  return write_at_end(frame_);
}

Result<void> JournalWriter::sync() {
  if (::fdatasync(file_.number()) != 0 && errno != EINVAL) return cannot_write(path_, errno);
  return {};
}

Result<void> JournalWriter::clear() {
  if (::ftruncate(file_.number(), static_cast<off_t>(file_header_bytes)) != 0)
    return cannot_write(path_, errno);
  end_ = static_cast<int64_t>(file_header_bytes);
  return {};
}

Result<JournalExtent> read_journal(std::string_view bytes, const std::string& name,
                                   const BlockVisitor& visit) {
  const size_t all = bytes.size();
  const auto read = [&](size_t count) {
    const std::string_view next = bytes.substr(0, count);
    bytes.remove_prefix(next.size());
    return next;
  };
  JournalExtent extent = TPT_TRY(read_blocks(read, name, visit));
  extent.file_bytes = all;
  return extent;
}

Result<JournalExtent> read_journal_file(const Path& path, const BlockVisitor& visit) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file)
    return error("cannot read {} ({}); check the path", path.string(),
                 std::generic_category().message(errno));
  std::string buffer;
  const auto read = [&](size_t count) -> std::string_view {
    buffer.resize(count);
    size_t got = 0;
    while (got < count) {
      const ssize_t n = ::read(file.number(), buffer.data() + got, count - got);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      got += static_cast<size_t>(n);
    }
    return std::string_view(buffer).substr(0, got);
  };
  Result<JournalExtent> extent = read_blocks(read, path.string(), visit);
  struct stat status {};
  if (extent && ::fstat(file.number(), &status) == 0)
    extent->file_bytes = static_cast<uint64_t>(status.st_size);
  return extent;
}

}  // namespace triplepoint::run
