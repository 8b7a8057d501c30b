// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/input.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

namespace triplepoint::trace {
namespace {

struct Block {
  std::unique_ptr<char[]> bytes;
  size_t size = 0, used = 0;
};

/// A ring of blocks: a thread fills them in order, the reader empties them in order.
class ReadAhead : public Source {
 public:
  explicit ReadAhead(std::unique_ptr<Source> source) : source_(std::move(source)) {
    for (Block& block : blocks_)
      block.bytes = std::make_unique_for_overwrite<char[]>(block_size);
    thread_ = std::jthread([this](const std::stop_token& stop) { fill_blocks(stop); });
  }
  ~ReadAhead() override {
    thread_.request_stop();
    changed_.notify_all();
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ReadAhead(ReadAhead&&) = delete;
  ReadAhead& operator=(ReadAhead&&) = delete;

  Result<size_t> read(std::span<char> room) override {
    Block* block = next_full();
    if (block == nullptr) {
      if (failure_) return tl::unexpected(*failure_);
      return 0;
    }
    const size_t size = std::min(room.size(), block->size - block->used);
    std::memcpy(room.data(), block->bytes.get() + block->used, size);
    block->used += size;
    if (block->used == block->size) advance(emptied_);
    return size;
  }

 private:
  static constexpr size_t block_size = 1 << 20;

  void advance(uint64_t& counter) {
    {
      const std::lock_guard lock(mutex_);
      ++counter;
    }
    changed_.notify_all();
  }

  /// The oldest block with bytes in it; null at the end.
  Block* next_full() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return emptied_ < filled_ || ended_; });
    return emptied_ < filled_ ? &blocks_[emptied_ % blocks_.size()] : nullptr;
  }

  void fill_blocks(const std::stop_token& stop) {
    for (;;) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock,
                      [&] { return filled_ - emptied_ < blocks_.size() || stop.stop_requested(); });
      }
      if (stop.stop_requested() || !fill(blocks_[filled_ % blocks_.size()])) break;
      advance(filled_);
    }
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
  }

  /// False at the end. What came before an error is handed out before the error is.
  bool fill(Block& block) {
    block.size = block.used = 0;
    while (block.size < block_size && !failure_) {
      auto got = source_->read({block.bytes.get() + block.size, block_size - block.size});
      if (!got) {
        failure_ = std::move(got).error();
        break;
      }
      if (*got == 0) break;
      block.size += *got;
    }
    return block.size > 0;
  }

  std::unique_ptr<Source> source_;
  std::array<Block, 4> blocks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t filled_ = 0, emptied_ = 0;  // blocks so far
  bool ended_ = false;
  std::optional<Error> failure_;  // written by the thread before ended_ is
  std::jthread thread_;           // last: joins before the rest goes
};

}  // namespace

std::unique_ptr<Source> read_ahead(std::unique_ptr<Source> source) {
  return std::make_unique<ReadAhead>(std::move(source));
}

namespace {

constexpr size_t packed_block = 256 << 10;

class FileSource : public Source {
 public:
  FileSource(int file, std::string name) : file_(file), name_(std::move(name)) {}
  ~FileSource() override { close(file_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  FileSource(FileSource&&) = delete;
  FileSource& operator=(FileSource&&) = delete;

  Result<size_t> read(std::span<char> room) override {
    for (;;) {
      const ssize_t got = ::read(file_, room.data(), room.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR)
        return error(fmt::format("cannot read {} ({}); check the disk", name_,
                                 std::generic_category().message(errno)));
    }
  }

 private:
  int file_;
  std::string name_;
};

class TextSource : public Source {
 public:
  explicit TextSource(std::string text) : text_(std::move(text)) {}
  Result<size_t> read(std::span<char> room) override {
    const size_t size = std::min(room.size(), text_.size() - used_);
    std::memcpy(room.data(), text_.data() + used_, size);
    used_ += size;
    return size;
  }

 private:
  std::string text_;
  size_t used_ = 0;
};

/// What unpackers share: the packed bytes at hand, and how much came of how much.
class Unpacker : public Source {
 protected:
  Unpacker(std::unique_ptr<Source> packed, std::string name)
      : packed_(std::move(packed)), name_(std::move(name)), buffer_(packed_block, '\0') {}

  /// More packed bytes, in buffer_; 0 at the end.
  Result<size_t> more() {
    const size_t size = TPT_TRY(packed_->read(buffer_));
    packed_bytes_ += size;
    return size;
  }
  char* buffer() { return buffer_.data(); }

  /// Traces shrink by 13 to 30, the most regular ones by 100. What shrinks more is no trace.
  Result<size_t> count(size_t unpacked) {
    constexpr uint64_t harmless = 256 << 20, most_ratio = 500;
    unpacked_bytes_ += unpacked;
    if (unpacked_bytes_ > harmless && unpacked_bytes_ / most_ratio > packed_bytes_)
      return error(
          fmt::format("{} unpacks to more than {} times its size (no trace does); unpack "
                      "it by hand if it is one",
                      name_, most_ratio));
    return unpacked;
  }
  tl::unexpected<Error> broken(std::string_view why) const {
    return error(fmt::format("{} is damaged after {} unpacked bytes ({}); try the original", name_,
                             unpacked_bytes_, why));
  }

 private:
  std::unique_ptr<Source> packed_;
  std::string name_;
  std::string buffer_;
  uint64_t packed_bytes_ = 0, unpacked_bytes_ = 0;
};

/// Any number of gzip members one after the other, as `cat a.gz b.gz` makes them.
class GzipSource : public Unpacker {
 public:
  GzipSource(std::unique_ptr<Source> packed, std::string name)
      : Unpacker(std::move(packed), std::move(name)), state_(std::make_unique<inflate_state>()) {
    begin_member();
  }

  Result<size_t> read(std::span<char> room) override {
    if (invalid_ != nullptr) return broken(invalid_);
    state_->next_out = reinterpret_cast<uint8_t*>(room.data());
    state_->avail_out = static_cast<uint32_t>(std::min<size_t>(room.size(), 1U << 30));
    const uint32_t wanted = state_->avail_out;
    while (state_->avail_out > 0) {
      // What was unpacked goes out before an error about the rest does.
      const bool holds_more = state_->tmp_out_processed < state_->tmp_out_valid;
      if (state_->avail_in == 0 && !holds_more && state_->avail_out < wanted) break;
      if (state_->avail_in == 0 && !holds_more && !TPT_TRY(refill())) break;
      if (state_->block_state == ISAL_BLOCK_FINISH && !holds_more && !begin_next_member()) break;
      in_member_ = true;
      if (const int status = isal_inflate(state_.get()); status < 0) {
        invalid_ = status == ISAL_INCORRECT_CHECKSUM ? "its checksum or length is wrong"
                                                     : "it is no valid gzip";
        break;
      }
    }
    if (invalid_ != nullptr && state_->avail_out == wanted) return broken(invalid_);
    return count(wanted - state_->avail_out);
  }

 private:
  void begin_member() {
    isal_inflate_init(state_.get());
    state_->crc_flag = ISAL_GZIP;
    in_member_ = false;
  }

  Result<bool> refill() {
    const size_t size = TPT_TRY(more());
    state_->next_in = reinterpret_cast<uint8_t*>(buffer());
    state_->avail_in = static_cast<uint32_t>(size);
    if (size == 0 && in_member_ && state_->block_state != ISAL_BLOCK_FINISH)
      return broken("it is cut off");
    return size > 0;
  }

  /// Whether another member follows; zeros and whatever else may pad the end of a file.
  bool begin_next_member() {
    if (*state_->next_in != 0x1f) {
      state_->avail_in = 0;
      return false;
    }
    uint8_t* const in = state_->next_in;
    const uint32_t left = state_->avail_in;
    uint8_t* const out = state_->next_out;
    const uint32_t room = state_->avail_out;
    begin_member();
    state_->next_in = in, state_->avail_in = left, state_->next_out = out, state_->avail_out = room;
    return true;
  }

  std::unique_ptr<inflate_state> state_;
  bool in_member_ = false;
  const char* invalid_ = nullptr;  // why
};

class ZstdSource : public Unpacker {
 public:
  ZstdSource(std::unique_ptr<Source> packed, std::string name)
      : Unpacker(std::move(packed), std::move(name)), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, 27);  // 128 MiB
  }

  Result<size_t> read(std::span<char> room) override {
    ZSTD_outBuffer out{room.data(), room.size(), 0};
    if (ZSTD_isError(status_) != 0) return broken(ZSTD_getErrorName(status_));
    while (out.pos < out.size) {
      if (in_.pos == in_.size && out.pos > 0) break;
      if (in_.pos == in_.size && !TPT_TRY(refill())) break;
      status_ = ZSTD_decompressStream(context_.get(), &out, &in_);
      if (ZSTD_isError(status_) != 0) break;
      in_frame_ = status_ != 0;
    }
    if (ZSTD_isError(status_) != 0 && out.pos == 0) return broken(ZSTD_getErrorName(status_));
    return count(out.pos);
  }

 private:
  Result<bool> refill() {
    const size_t size = TPT_TRY(more());
    in_ = {buffer(), size, 0};
    if (size == 0 && in_frame_) return broken("it is cut off");
    return size > 0;
  }

  std::unique_ptr<ZSTD_DCtx, size_t (*)(ZSTD_DCtx*)> context_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  size_t status_ = 0;
  bool in_frame_ = false;
};

}  // namespace

Packing packing_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return Packing::gzip;
  if (head.starts_with("\x28\xb5\x2f\xfd")) return Packing::zstd;
  return Packing::none;
}

Result<std::unique_ptr<Source>> open_file(const Path& path) {
  const int file = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return error(fmt::format("cannot open {} ({}); check the path", path.string(),
                             std::generic_category().message(errno)));
  auto source = std::make_unique<FileSource>(file, path.string());
  struct stat about = {};
  if (fstat(file, &about) == 0 && S_ISDIR(about.st_mode))
    return error(
        fmt::format("{} is a folder (a file was expected); name a file in it", path.string()));
  return source;
}

std::unique_ptr<Source> text_source(std::string text) {
  return std::make_unique<TextSource>(std::move(text));
}

std::unique_ptr<Source> unpack(std::unique_ptr<Source> packed, Packing packing,
                               const std::string& name) {
  switch (packing) {
    case Packing::none:
      return packed;
    case Packing::gzip:
      return std::make_unique<GzipSource>(std::move(packed), name);
    case Packing::zstd:
      return std::make_unique<ZstdSource>(std::move(packed), name);
  }
  return packed;
}

namespace {

/// What gzip says of its last member, if that can be all of it: the size modulo 2^32 is in the last
/// four bytes. Else what profilers' files usually shrink by.
std::optional<uint64_t> guess_size(const Path& path, Packing packing) {
  std::error_code none;
  const uint64_t packed = std::filesystem::file_size(path, none);
  if (none) return std::nullopt;
  if (packing == Packing::none) return packed;
  constexpr uint64_t usual_ratio = 20, most_ratio = 60;
  std::ifstream file(path, std::ios::binary);
  std::array<uint8_t, 4> last{};
  if (packing == Packing::gzip && packed > last.size() && file.seekg(-4, std::ios::end) &&
      file.read(reinterpret_cast<char*>(last.data()), last.size())) {
    const uint64_t size = last[0] | last[1] << 8 | last[2] << 16 | uint64_t{last[3]} << 24;
    if (size > packed && size / most_ratio < packed) return size;
  }
  return packed * usual_ratio;
}

/// Some bytes that were looked at already, then the source they came from.
class PrefixedSource : public Source {
 public:
  PrefixedSource(std::string head, std::optional<Error> failure, std::unique_ptr<Source> rest)
      : head_(std::move(head)), failure_(std::move(failure)), rest_(std::move(rest)) {}
  Result<size_t> read(std::span<char> room) override {
    if (used_ == head_.size() && failure_) return tl::unexpected(*failure_);
    if (used_ == head_.size()) return rest_->read(room);
    const size_t size = std::min(room.size(), head_.size() - used_);
    std::memcpy(room.data(), head_.data() + used_, size);
    used_ += size;
    return size;
  }

 private:
  std::string head_;
  std::optional<Error> failure_;
  std::unique_ptr<Source> rest_;
  size_t used_ = 0;
};

}  // namespace

Input::Input(std::unique_ptr<Source> source, std::string name)
    : source_(std::move(source)),
      name_(std::move(name)),
      window_(std::make_unique<char[]>(padding)) {}
Input::Input(Input&&) noexcept = default;
Input& Input::operator=(Input&&) noexcept = default;
Input::~Input() = default;

namespace {

/// The first four bytes, or as many as there are, and what stopped it.
struct Head {
  std::string bytes;
  std::optional<Error> failure;
};
Head head_of(Source& source) {
  Head head{.bytes = std::string(4, '\0')};
  size_t size = 0;
  while (size < head.bytes.size()) {
    const auto got = source.read(std::span(head.bytes).subspan(size));
    if (!got) head.failure = got.error();
    if (!got || *got == 0) break;
    size += *got;
  }
  head.bytes.resize(size);
  return head;
}

std::unique_ptr<Source> prefixed(Head head, std::unique_ptr<Source> rest) {
  return std::make_unique<PrefixedSource>(std::move(head.bytes), std::move(head.failure),
                                          std::move(rest));
}

}  // namespace

Result<Input> Input::of(std::unique_ptr<Source> source, std::string name, bool overlap) {
  Head head = head_of(*source);
  Packing packing = packing_of(head.bytes);
  source = prefixed(std::move(head), std::move(source));
  source = unpack(std::move(source), packing, name);
  for (int again = 0; again < 2 && packing != Packing::none; ++again) {  // packed twice
    head = head_of(*source);
    const Packing inner = packing_of(head.bytes);
    source = prefixed(std::move(head), std::move(source));
    if (inner == Packing::none) break;
    source = unpack(std::move(source), inner, name);
  }
  if (overlap && packing != Packing::none) source = read_ahead(std::move(source));
  // A byte order mark, which editors on Windows write, is no part of any format.
  head = head_of(*source);
  if (head.bytes.starts_with("\xef\xbb\xbf")) head.bytes.erase(0, 3);
  source = prefixed(std::move(head), std::move(source));
  Input input(std::move(source), std::move(name));
  input.packed_ = packing != Packing::none;
  return input;
}

/// A file is opened once: standard input and pipes can be read once only.
Result<Input> Input::open(const Path& path, bool overlap) {
  std::unique_ptr<Source> file = TPT_TRY(open_file(path));
  Head head = head_of(*file);
  if (head.failure) return tl::unexpected(*head.failure);
  const Packing packing = packing_of(head.bytes);
  file = prefixed(std::move(head), std::move(file));
  Input input = TPT_TRY(of(std::move(file), path.string(), overlap));
  input.expected_size_ = guess_size(path, packing);
  std::error_code none;
  if (packing == Packing::none && std::filesystem::is_regular_file(path, none))
    input.plain_file_ = path;
  return input;
}

Input Input::of_text(std::string text, std::string name) {
  const size_t size = text.size();
  Input input(text_source(std::move(text)), std::move(name));
  input.expected_size_ = size;
  return input;
}

void Input::make_room(size_t size) {
  if (capacity_ - end_ >= size) return;
  const size_t kept = end_ - begin_;
  if (capacity_ < kept + size) {
    capacity_ = 2 * (kept + size);  // the next time there is room
    auto larger = std::make_unique_for_overwrite<char[]>(capacity_ + padding);
    if (kept > 0) std::memcpy(larger.get(), window_.get() + begin_, kept);
    window_ = std::move(larger);
  } else {
    std::memmove(window_.get(), window_.get() + begin_, kept);
  }
  before_window_ += begin_;
  begin_ = 0;
  end_ = kept;
}

Result<bool> Input::fill() {
  if (at_end_) return false;
  const size_t wanted = std::max(step_, end_ - begin_);
  make_room(wanted);
  size_t size = 0;
  while (size < wanted && !at_end_) {
    auto got = source_->read({window_.get() + end_, wanted - size});
    if (!got && size > 0) break;  // the next call meets the same error
    if (!got) at_end_ = true;
    const size_t read = TPT_TRY(std::move(got));
    at_end_ = read == 0;
    size += read;
    end_ += read;
    std::memset(window_.get() + end_, 0, padding);
  }
  return size > 0;
}

Result<std::string_view> Input::peek(size_t size) {
  while (ahead().size() < size) {
    const auto more = fill();
    // What came before the damage is enough to tell what the file is, and is read.
    if (!more && ahead().empty()) return tl::unexpected(more.error());
    if (!more || !*more) break;
  }
  return ahead().substr(0, std::min(size, ahead().size()));
}

std::optional<Error> Input::damage_behind() {
  while (packed_) {
    skip(ahead().size());
    const auto more = fill();
    if (!more) return more.error();
    if (!*more) break;
  }
  return std::nullopt;
}

Result<std::string> Input::rest(size_t most) {
  std::string all;
  do {
    if (all.size() + ahead().size() > most)
      return error(
          fmt::format("{} is longer than {} bytes (its format is read as a whole); "
                      "give a part of it",
                      name_, most));
    all += ahead();
    skip(ahead().size());
  } while (TPT_TRY(fill()));
  return all;
}

}  // namespace triplepoint::trace
