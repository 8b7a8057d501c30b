// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/input.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <future>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

namespace triplepoint::trace {
namespace {

/// Reads one block ahead of the reader, in a separate thread.
class ReadAhead : public Source {
 public:
  explicit ReadAhead(std::unique_ptr<Source> source) : source_(std::move(source)) { begin_next(); }

  Result<size_t> read(std::span<char> room) override {
    if (used_ == block_.size && next_.valid()) {
      block_ = next_.get();
      used_ = 0;
      if (block_.size > 0 && !block_.failure) begin_next();
    }
    if (used_ == block_.size && block_.failure) return tl::unexpected(*block_.failure);
    const size_t size = std::min(room.size(), block_.size - used_);
    std::memcpy(room.data(), block_.bytes.get() + used_, size);
    used_ += size;
    return size;
  }

 private:
  static constexpr size_t block_size = 4 << 20;

  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
    std::optional<Error> failure;  // behind the bytes
  };

  void begin_next() {
    next_ = std::async(std::launch::async, [this] { return fill(); });
  }
  Block fill() {
    Block block{.bytes = std::make_unique_for_overwrite<char[]>(block_size)};
    while (block.size < block_size) {
      auto got = source_->read({block.bytes.get() + block.size, block_size - block.size});
      if (!got) block.failure = std::move(got).error();
      if (!got || *got == 0) break;
      block.size += *got;
    }
    return block;
  }

  std::unique_ptr<Source> source_;
  Block block_;
  size_t used_ = 0;
  std::future<Block> next_;  // last: waits for its thread before the rest goes
};

constexpr size_t packed_block = 256 << 10;

class FileSource : public Source {
 public:
  FileSource(int file, std::string name) : file_(file), name_(std::move(name)) {}
  ~FileSource() override { close(file_); }
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;

  Result<size_t> read(std::span<char> room) override {
    for (;;) {
      const ssize_t got = ::read(file_, room.data(), room.size());
      if (got >= 0) return static_cast<size_t>(got);
      if (errno != EINTR)
        return error("cannot read {} ({}); check the disk", name_,
                     std::generic_category().message(errno));
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
          "{} unpacks to more than {} times its size (no trace does); unpack "
          "it by hand if it is one",
          name_, most_ratio);
    return unpacked;
  }
  tl::unexpected<Error> broken(std::string_view why) const {
    return error("{} is damaged after {} unpacked bytes ({}); try the original", name_,
                 unpacked_bytes_, why);
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

enum class Packing : uint8_t { none, gzip, zstd };

Packing packing_of(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return Packing::gzip;
  if (head.starts_with("\x28\xb5\x2f\xfd")) return Packing::zstd;
  return Packing::none;
}

Result<std::unique_ptr<Source>> open_file(const Path& path) {
  const int file = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return error("cannot open {} ({}); check the path", path.string(),
                 std::generic_category().message(errno));
  auto source = std::make_unique<FileSource>(file, path.string());
  struct stat about = {};
  if (fstat(file, &about) == 0 && S_ISDIR(about.st_mode))
    return error("{} is a folder (a file was expected); name a file in it", path.string());
  return source;
}

/// A file that is cut off gives what can be had of it, then an error; so does one that grows beyond
/// all measure (a zip bomb).
std::unique_ptr<Source> unpack(std::unique_ptr<Source> packed, Packing packing,
                               const std::string& name) {
  if (packing == Packing::gzip) return std::make_unique<GzipSource>(std::move(packed), name);
  return std::make_unique<ZstdSource>(std::move(packed), name);
}

/// What is left of an input, as a source.
class InputSource : public Source {
 public:
  explicit InputSource(Input input) : input_(std::move(input)) {}
  Result<size_t> read(std::span<char> room) override {
    if (input_.ahead().empty() && !TPT_TRY(input_.fill())) return size_t{0};
    const size_t size = std::min(room.size(), input_.ahead().size());
    std::memcpy(room.data(), input_.ahead().data(), size);
    input_.skip(size);
    return size;
  }

 private:
  Input input_;
};

/// What gzip says of its last member, if that can be all of it: the size modulo 2^32 is in the last
/// four bytes. Else what profilers' files usually shrink by.
std::optional<uint64_t> guess_size(const Path& path, bool is_packed) {
  std::error_code none;
  const uint64_t packed = std::filesystem::file_size(path, none);
  if (none) return std::nullopt;
  if (!is_packed) return packed;
  constexpr uint64_t usual_ratio = 20, most_ratio = 60;
  std::ifstream file(path, std::ios::binary);
  std::array<char, 4> head{};
  std::array<uint8_t, 4> last{};
  file.read(head.data(), head.size());
  const bool is_gzip = packing_of({head.data(), head.size()}) == Packing::gzip;
  if (is_gzip && packed > last.size() && file.seekg(-4, std::ios::end) &&
      file.read(reinterpret_cast<char*>(last.data()), last.size())) {
    const uint64_t size = last[0] | last[1] << 8 | last[2] << 16 | uint64_t{last[3]} << 24;
    if (size > packed && size / most_ratio < packed) return size;
  }
  return packed * usual_ratio;
}

}  // namespace

std::unique_ptr<Source> text_source(std::string text) {
  return std::make_unique<TextSource>(std::move(text));
}

Input::Input(std::unique_ptr<Source> source, std::string name)
    : source_(std::move(source)),
      name_(std::move(name)),
      window_(std::make_unique<char[]>(padding)) {}
Input::Input(Input&&) noexcept = default;
Input& Input::operator=(Input&&) noexcept = default;
Input::~Input() = default;

Result<Input> Input::of(std::unique_ptr<Source> source, std::string name, bool overlap) {
  Input input(std::move(source), name);
  constexpr int most_times = 3;  // packed; twice is a mistake that happens
  for (int time = 0; time < most_times; ++time) {
    const Packing packing = packing_of(TPT_TRY(input.peek(4)));
    if (packing == Packing::none) break;
    source = unpack(std::make_unique<InputSource>(std::move(input)), packing, name);
    if (overlap) source = std::make_unique<ReadAhead>(std::move(source));
    input = Input(std::move(source), name);
    input.packed_ = true;
  }
  // A byte order mark, which editors on Windows write, is no part of any format.
  if (TPT_TRY(input.peek(3)) == "\xef\xbb\xbf") input.skip(3);
  return input;
}

/// A file is opened once: standard input and pipes can be read once only.
Result<Input> Input::open(const Path& path, bool overlap) {
  Input input = TPT_TRY(of(TPT_TRY(open_file(path)), path.string(), overlap));
  input.expected_size_ = guess_size(path, input.packed_);
  std::error_code none;
  if (!input.packed_ && std::filesystem::is_regular_file(path, none)) input.plain_file_ = path;
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
      return error("{} is longer than {} bytes (its format is read as a whole); give a part of it",
                   name_, most);
    all += ahead();
    skip(ahead().size());
  } while (TPT_TRY(fill()));
  return all;
}

}  // namespace triplepoint::trace
