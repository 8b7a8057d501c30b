// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/input.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/trace/unpack.h"

namespace triplepoint::trace {

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
class Rejoined : public Source {
 public:
  Rejoined(std::string head, std::unique_ptr<Source> rest)
      : head_(std::move(head)), rest_(std::move(rest)) {}
  Result<size_t> read(std::span<char> room) override {
    if (used_ == head_.size()) return rest_->read(room);
    const size_t size = std::min(room.size(), head_.size() - used_);
    std::memcpy(room.data(), head_.data() + used_, size);
    used_ += size;
    return size;
  }

 private:
  std::string head_;
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

Result<Input> Input::of(std::unique_ptr<Source> source, std::string name, bool overlap) {
  std::string head(4, '\0');
  size_t size = 0;
  while (size < head.size()) {
    const size_t got = TPT_TRY(source->read(std::span(head).subspan(size)));
    if (got == 0) break;
    size += got;
  }
  head.resize(size);
  const Packing packing = packing_of(head);
  source = std::make_unique<Rejoined>(std::move(head), std::move(source));
  source = unpack(std::move(source), packing, name);
  if (overlap && packing != Packing::none) source = read_ahead(std::move(source));
  return Input(std::move(source), std::move(name));
}

Result<Input> Input::open(const Path& path, bool overlap) {
  std::unique_ptr<Source> file = TPT_TRY(open_file(path));
  std::string head(4, '\0');
  head.resize(TPT_TRY(file->read(head)));
  const bool plain = packing_of(head) == Packing::none;
  file = TPT_TRY(open_file(path));  // once more from its beginning
  Input input = TPT_TRY(of(std::move(file), path.string(), overlap));
  input.expected_size_ = guess_size(path, packing_of(head));
  if (plain) input.plain_file_ = path;
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
  while (ahead().size() < size && TPT_TRY(fill())) {
  }
  return ahead().substr(0, std::min(size, ahead().size()));
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
