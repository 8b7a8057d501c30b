// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/saved_blocks.h"

#include <cstring>

#include <fmt/format.h>

#include "trainer/runtime/manifest.h"

namespace triplepoint::trainer {
namespace {

constexpr std::string_view magic = "TPTCKPT1";

template <class T>
void put(std::string& text, const T& value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
void put_all(std::string& text, std::span<const T> values) {
  put(text, static_cast<int64_t>(values.size()));
  text.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
}

/// Reads what was put; remembers when there was not enough.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}
  bool good() const { return good_; }
  bool at_end() const { return text_.empty(); }

  template <class T>
  T take() {
    T value{};
    if (text_.size() < sizeof value) return fail<T>();
    std::memcpy(&value, text_.data(), sizeof value);
    text_.remove_prefix(sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> take_all() {
    const auto count = take<int64_t>();
    if (count < 0 || static_cast<uint64_t>(count) > text_.size() / sizeof(T))
      return fail<std::vector<T>>();
    std::vector<T> values(static_cast<size_t>(count));
    if (!values.empty()) std::memcpy(values.data(), text_.data(), values.size() * sizeof(T));
    text_.remove_prefix(values.size() * sizeof(T));
    return values;
  }

 private:
  template <class T>
  T fail() {
    good_ = false;
    text_ = {};
    return {};
  }
  std::string_view text_;
  bool good_ = true;
};

SavedBlock read_block(Reader& reader) {
  SavedBlock block;
  const std::vector<char> name = reader.take_all<char>();
  block.shape.name.assign(name.begin(), name.end());
  block.shape.whole_rows = reader.take<int64_t>();
  block.shape.whole_columns = reader.take<int64_t>();
  block.shape.rows = reader.take_all<int64_t>();
  block.shape.first_column = reader.take<int64_t>();
  block.shape.columns = reader.take<int64_t>();
  block.first = reader.take<int64_t>();
  block.master = reader.take_all<float>();
  block.first_moment = reader.take_all<float>();
  block.second_moment = reader.take_all<float>();
  return block;
}

bool is_sound(const SavedBlock& block) {
  const Parameter& shape = block.shape;
  const auto elements = static_cast<int64_t>(block.master.size());
  const auto moments = block.first_moment.size();
  const bool inside = shape.columns > 0 && shape.first_column >= 0 && block.first >= 0 &&
                      shape.first_column + shape.columns <= shape.whole_columns &&
                      block.first + elements <= shape.count();
  if (!inside || (moments != 0 && moments != block.master.size())) return false;
  for (const int64_t row : shape.rows)
    if (row < 0 || row >= shape.whole_rows) return false;
  return moments == block.second_moment.size();
}

}  // namespace

BlockWriter::BlockWriter() : text_(magic) {}

void BlockWriter::add(const Parameter& shape, int64_t first, std::span<const float> master,
                      std::span<const float> first_moment, std::span<const float> second_moment) {
  put_all(text_, std::span<const char>(shape.name));
  put(text_, shape.whole_rows);
  put(text_, shape.whole_columns);
  put_all(text_, std::span<const int64_t>(shape.rows));
  put(text_, shape.first_column);
  put(text_, shape.columns);
  put(text_, first);
  put_all(text_, master);
  put_all(text_, first_moment);
  put_all(text_, second_moment);
}

std::string BlockWriter::take() {
  put(text_, checksum(text_));
  return std::move(text_);
}

uint64_t checksum_at_end(std::string_view text) {
  return text.size() < 8 ? 0 : Reader(text.substr(text.size() - 8)).take<uint64_t>();
}

Result<void> read_blocks(const Path& file, std::multimap<std::string, SavedBlock>& blocks,
                         std::optional<uint64_t> named) {
  const std::string text = TPT_TRY(read_file(file));
  const auto broken = [&](const char* why) {
    return error(
        fmt::format("{}: is no sound part of a checkpoint ({}); remove its folder to "
                    "resume from the checkpoint before",
                    file.string(), why));
  };
  if (text.size() < magic.size() + 8 || std::string_view(text).substr(0, 8) != magic)
    return broken("it does not begin like one");
  const std::string_view body = std::string_view(text).substr(0, text.size() - 8);
  if (checksum_at_end(text) != checksum(body)) return broken("its checksum is wrong");
  if (named && *named != checksum_at_end(text))
    return broken("the manifest names another file: it is of another checkpoint");
  Reader reader(body.substr(magic.size()));
  while (reader.good() && !reader.at_end()) {
    SavedBlock block = read_block(reader);
    if (!reader.good() || !is_sound(block)) return broken("a block in it is cut off or misplaced");
    std::string name = block.shape.name;
    blocks.emplace(std::move(name), std::move(block));
  }
  return {};
}

}  // namespace triplepoint::trainer
