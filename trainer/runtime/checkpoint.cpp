// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/checkpoint.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {
namespace {

constexpr std::string_view magic = "TPTCKPT1";

/// FNV-1a over words of eight bytes, then over the rest.
uint64_t checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  for (; at < text.size(); ++at)
    hash = (hash ^ static_cast<unsigned char>(text[at])) * 0x100000001b3;
  return hash;
}

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

Result<void> read_blocks(const Path& file, std::multimap<std::string, SavedBlock>& blocks) {
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
  if (Reader(std::string_view(text).substr(body.size())).take<uint64_t>() != checksum(body))
    return broken("its checksum is wrong");
  Reader reader(body.substr(magic.size()));
  while (reader.good() && !reader.at_end()) {
    SavedBlock block = read_block(reader);
    if (!reader.good() || !is_sound(block)) return broken("a block in it is cut off or misplaced");
    std::string name = block.shape.name;
    blocks.emplace(std::move(name), std::move(block));
  }
  return {};
}

namespace {

using spec::GroupKind;
using Blocks = std::multimap<std::string, SavedBlock>;

constexpr std::string_view manifest_name = "manifest.json";

Path folder_of_step(const Path& folder, int64_t step) {
  return folder / fmt::format("step-{:08}", step);
}

std::string file_of_rank(int64_t rank) {
  return fmt::format("rank-{:04}.tpt", rank);
}

/// Steps whose folder has a manifest, newest first.
std::vector<int64_t> whole_checkpoints(const Path& folder) {
  std::vector<int64_t> steps;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("step-", 0) != 0) continue;
    if (!std::filesystem::exists(entry.path() / manifest_name, failed)) continue;
    steps.push_back(std::strtoll(name.c_str() + 5, nullptr, 10));
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

/// Of several ranks that hold the same, one writes.
bool writes(const Bucket& bucket, const Parameter& parameter, const RankGroups& groups) {
  if (bucket.replica != nullptr && bucket.replica->index() > 0) return false;
  if (!bucket.trained && bucket.shard == nullptr) {
    const GroupKind copies = bucket.experts ? GroupKind::expert_data : GroupKind::data;
    if (groups.of(copies).index() > 0) return false;
  }
  if (bucket.tied && groups.of(GroupKind::pipeline).index() > 0) return false;
  return !parameter.on_every_tensor_rank || bucket.experts ||
         groups.of(GroupKind::tensor).index() == 0;
}

/// An array as the host sees it.
std::vector<float> fetched(Math& math, std::span<const float> numbers) {
  std::vector<float> here(numbers.size());
  if (!here.empty()) math.fetch(static_cast<int64_t>(here.size()), numbers.data(), here.data());
  return here;
}

/// What a bucket's optimizer keeps, as the host sees it.
struct HostStates {
  HostStates(ParameterStore& store, Bucket& bucket)
      : master(fetched(store.math(), store.owned_master(bucket))),
        first_moment(fetched(store.math(), bucket.first_moment.all())),
        second_moment(fetched(store.math(), bucket.second_moment.all())) {}

  void put_back(ParameterStore& store, Bucket& bucket) const {
    put(store.math(), master, store.owned_master(bucket));
    put(store.math(), first_moment, bucket.first_moment.all());
    put(store.math(), second_moment, bucket.second_moment.all());
  }
  static void put(Math& math, const std::vector<float>& here, std::span<float> numbers) {
    if (!here.empty()) math.put(static_cast<int64_t>(here.size()), here.data(), numbers.data());
  }

  std::vector<float> master, first_moment, second_moment;
};

std::string blocks_of(ParameterStore& store, const RankGroups& groups) {
  BlockWriter writer;
  for (Bucket& bucket : store.buckets()) {
    const HostStates states(store, bucket);
    for (const Piece& piece : bucket.owned_pieces()) {
      if (!writes(bucket, *piece.parameter, groups)) continue;
      const auto part = [&](std::span<const float> owned) {
        return owned.empty() ? owned
                             : owned.subspan(static_cast<size_t>(piece.begin - bucket.owned_begin),
                                             static_cast<size_t>(piece.end - piece.begin));
      };
      writer.add(*piece.parameter, piece.first, part(states.master), part(states.first_moment),
                 part(states.second_moment));
    }
  }
  return writer.take();
}

/// A parameter in whole coordinates; not a number where no block says.
struct FullParameter {
  int64_t rows = 0;  // of the writers' parameter: vocabularies are padded by layout
  std::vector<float> master, first_moment, second_moment;
};

FullParameter assemble(const Parameter& wanted, const Blocks& blocks) {
  const auto count = static_cast<size_t>(wanted.whole_rows * wanted.whole_columns);
  FullParameter whole{0, std::vector<float>(count, std::numeric_limits<float>::quiet_NaN()),
                      std::vector<float>(count), std::vector<float>(count)};
  const auto [begin, end] = blocks.equal_range(wanted.name);
  for (auto found = begin; found != end; ++found) {
    const SavedBlock& block = found->second;
    if (block.shape.whole_columns != wanted.whole_columns) continue;
    whole.rows = block.shape.whole_rows;
    for (size_t k = 0; k < block.master.size(); ++k) {
      const int64_t element = block.first + static_cast<int64_t>(k);
      const int64_t row = block.shape.rows[static_cast<size_t>(element / block.shape.columns)];
      const int64_t column = block.shape.first_column + element % block.shape.columns;
      if (row >= wanted.whole_rows) continue;
      const auto place = static_cast<size_t>(row * wanted.whole_columns + column);
      whole.master[place] = block.master[k];
      if (block.first_moment.empty()) continue;
      whole.first_moment[place] = block.first_moment[k];
      whole.second_moment[place] = block.second_moment[k];
    }
  }
  return whole;
}

/// Elements of the owned piece, taken from the whole. False where one is missing.
bool fill_piece(const Piece& piece, const FullParameter& whole, const Bucket& bucket,
                HostStates& states) {
  bool complete = true;
  const Parameter& shape = *piece.parameter;
  for (int64_t k = 0; k < piece.end - piece.begin; ++k) {
    const int64_t element = piece.first + k;
    const int64_t row = shape.rows[static_cast<size_t>(element / shape.columns)];
    const int64_t column = shape.first_column + element % shape.columns;
    const auto from = static_cast<size_t>(row * shape.whole_columns + column);
    const auto to = static_cast<size_t>(piece.begin - bucket.owned_begin + k);
    if (whole.rows > 0 && row >= whole.rows) continue;  // padding keeps its first values
    complete = complete && whole.master[from] == whole.master[from];
    states.master[to] = whole.master[from];
    if (!bucket.trained) continue;
    states.first_moment[to] = whole.first_moment[from];
    states.second_moment[to] = whole.second_moment[from];
  }
  return complete;
}

Result<void> fill_store(const Blocks& blocks, const Path& folder, ParameterStore& store) {
  for (Bucket& bucket : store.buckets()) {
    HostStates states(store, bucket);
    for (const Piece& piece : bucket.owned_pieces())
      if (!fill_piece(piece, assemble(*piece.parameter, blocks), bucket, states))
        return error(
            fmt::format("{}: has not all of {} ({} x {}) (it is the checkpoint of another "
                        "model); name the folder of this one, or an empty one",
                        folder.string(), piece.parameter->name, piece.parameter->whole_rows,
                        piece.parameter->whole_columns));
    states.put_back(store, bucket);
  }
  return {};
}

Result<Json> read_manifest(const Path& folder) {
  const Path file = folder / manifest_name;
  const std::string text = TPT_TRY(read_file(file));
  Json manifest = TPT_TRY(parse_json(text, file.string()));
  const bool sound = manifest.is_object() && manifest.contains("ranks") &&
                     manifest["ranks"].is_number_integer() && manifest.contains("step") &&
                     manifest["step"].is_number_integer() && manifest.contains("seed") &&
                     manifest["seed"].is_number_integer();
  if (!sound)
    return error(
        fmt::format("{}: is no manifest of a checkpoint (step, seed and ranks are "
                    "missing); remove its folder to resume from the checkpoint before",
                    file.string()));
  return manifest;
}

}  // namespace

Result<void> Checkpoints::write(const TrainState& state, ParameterStore& store,
                                const RankGroups& groups) {
  store.settle();
  const Path folder = folder_of_step(folder_, state.step);
  const auto write_part = [&]() -> Result<void> {
    TPT_TRY(make_folder(folder));
    return write_file_atomically(folder / file_of_rank(world_.index()), blocks_of(store, groups));
  };
  TPT_TRY(agree(world_, write_part(), "write their part of the checkpoint"));
  Result<void> named;
  if (world_.index() == 0) {
    const Json manifest = {{"format", 1},
                           {"step", state.step},
                           {"seed", state.seed},
                           {"loss", state.loss},
                           {"ranks", world_.size()}};
    named = write_file_atomically(folder / manifest_name, json_text(manifest) + "\n");
  }
  TPT_TRY(agree(world_, named, "name the checkpoint"));
  if (world_.index() == 0) remove_old(state.step);
  return {};
}

void Checkpoints::remove_old(int64_t newest) const {
  int64_t kept = 0;
  for (const int64_t step : whole_checkpoints(folder_)) {
    if (step > newest || ++kept <= 2) continue;
    std::error_code ignored;
    // Without its manifest first it is no checkpoint, wherever a kill falls.
    std::filesystem::remove(folder_of_step(folder_, step) / manifest_name, ignored);
    std::filesystem::remove_all(folder_of_step(folder_, step), ignored);
  }
}

Result<std::optional<TrainState>> Checkpoints::read(ParameterStore& store) {
  const std::vector<int64_t> steps = whole_checkpoints(folder_);
  if (steps.empty()) return std::optional<TrainState>();
  const Path folder = folder_of_step(folder_, steps.front());
  TrainState state;
  const auto read_all = [&]() -> Result<void> {
    const Json manifest = TPT_TRY(read_manifest(folder));
    Blocks blocks;
    for (int64_t rank = 0; rank < manifest["ranks"].get<int64_t>(); ++rank)
      TPT_TRY(read_blocks(folder / file_of_rank(rank), blocks));
    TPT_TRY(fill_store(blocks, folder, store));
    state = {manifest["step"].get<int64_t>(), manifest["seed"].get<uint64_t>(),
             manifest.value("loss", 0.0)};
    return {};
  };
  TPT_TRY(agree(world_, read_all(), "read the checkpoint"));
  store.publish();
  return state;
}

}  // namespace triplepoint::trainer
