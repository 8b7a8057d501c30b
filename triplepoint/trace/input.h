// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

namespace triplepoint::trace {

/// Bytes from somewhere, once, in order.
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  /// Fills the beginning of `room` and says how much; 0 only at the end. An error may follow good
  /// bytes: a file that was cut off.
  virtual Result<size_t> read(std::span<char> room) = 0;
};

/// What a reader reads from: decompressed bytes behind a window that holds no more than the reader
/// asks for.
///
///   while (...) {
///     std::string_view text = input.ahead();      // use what is there
///     if (that is not enough) input.fill();       // then ahead() is longer
///     input.skip(used);
///   }
class Input {
 public:
  /// A file: plain, gzip or zstd, by its first bytes; "-" is standard input. With `overlap`, its
  /// own thread unpacks ahead of the reader. A byte order mark of UTF-8 is left out.
  static Result<Input> open(const Path&, bool overlap = false);
  static Input of_text(std::string text, std::string name);
  /// Of a source that may be compressed too.
  static Result<Input> of(std::unique_ptr<Source>, std::string name, bool overlap = false);

  Input(Input&&) noexcept;
  Input& operator=(Input&&) noexcept;
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;
  ~Input();

  /// For messages: "traces.tar.gz: rank0.json".
  const std::string& name() const { return name_; }
  /// The file itself, if its bytes lie on disk as they are (what SQLite needs).
  const std::optional<Path>& plain_file() const { return plain_file_; }
  /// How long the whole will be, unpacked: a guess from the file's size and trailer, to make room.
  std::optional<uint64_t> expected_size() const { return expected_size_; }
  void expect_size(uint64_t bytes) { expected_size_ = bytes; }

  /// What has been read but not skipped. Valid until the next fill(). `padding` zero bytes follow
  /// it, so that a scan for something needs no check of the end.
  std::string_view ahead() const { return {window_.get() + begin_, end_ - begin_}; }
  static constexpr size_t padding = 64;
  /// How much a fill() reads at least: a megabyte, unless said otherwise.
  void read_in_steps_of(size_t bytes) { step_ = bytes; }
  /// Makes ahead() longer, by at least as much as it holds if there is so much; false at the end.
  Result<bool> fill();
  /// At least `size` bytes ahead, unless the input is shorter.
  Result<std::string_view> peek(size_t size);
  void skip(size_t size) { begin_ += size; }
  /// Everything from here to the end; an error beyond `most` bytes. For formats whose files are
  /// small.
  Result<std::string> rest(size_t most);
  /// What is wrong behind the last byte that a reader needed: a checksum that does not fit, a file
  /// that is cut off there. Only what is compressed tells; reads it to its end.
  std::optional<Error> damage_behind();
  /// Bytes skipped so far, decompressed.
  uint64_t position() const { return before_window_ + begin_; }

 private:
  Input(std::unique_ptr<Source>, std::string name);
  void make_room(size_t size);

  std::unique_ptr<Source> source_;
  std::string name_;
  std::optional<Path> plain_file_;
  std::optional<uint64_t> expected_size_;
  std::unique_ptr<char[]> window_;  // raw, so that growing it writes nothing
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
  uint64_t before_window_ = 0;
  size_t step_ = 1 << 20;
  bool at_end_ = false, packed_ = false;
};

std::unique_ptr<Source> text_source(std::string text);

}  // namespace triplepoint::trace
