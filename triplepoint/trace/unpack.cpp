// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/unpack.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <isa-l/igzip_lib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

namespace triplepoint::trace {

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
    if (invalid_) return broken("it is no valid gzip");
    state_->next_out = reinterpret_cast<uint8_t*>(room.data());
    state_->avail_out = static_cast<uint32_t>(std::min<size_t>(room.size(), 1U << 30));
    const uint32_t wanted = state_->avail_out;
    while (state_->avail_out > 0) {
      // What was unpacked goes out before an error about the rest does.
      if (state_->avail_in == 0 && state_->avail_out < wanted) break;
      if (state_->avail_in == 0 && !TPT_TRY(refill())) break;
      if (state_->block_state == ISAL_BLOCK_FINISH && !begin_next_member()) break;
      in_member_ = true;
      invalid_ = isal_inflate(state_.get()) < 0;
      if (invalid_) break;
    }
    if (invalid_ && state_->avail_out == wanted) return broken("it is no valid gzip");
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
  bool in_member_ = false, invalid_ = false;
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
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
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

}  // namespace triplepoint::trace
