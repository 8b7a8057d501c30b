// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/checkpoint.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>

#include <fmt/format.h>

#include "trainer/runtime/manifest.h"
#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {
namespace {

using spec::GroupKind;
using Blocks = std::multimap<std::string, SavedBlock>;

Path folder_of_step(const Path& folder, int64_t step) {
  return folder / fmt::format("step-{:08}", step);
}

std::string file_of_rank(int64_t rank) {
  return fmt::format("rank-{:04}.tpt", rank);
}

/// The folders step-NNNNNNNN by what they are: with a manifest, newest first, and without one.
struct StepFolders {
  std::vector<int64_t> whole;
  std::vector<int64_t> begun;
};

StepFolders step_folders(const Path& folder) {
  StepFolders found;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("step-", 0) != 0) continue;
    const int64_t step = std::strtoll(name.c_str() + 5, nullptr, 10);
    if (folder_of_step(folder, step) != entry.path()) continue;  // not one of these
    const bool whole = std::filesystem::exists(entry.path() / manifest_name, failed);
    (whole ? found.whole : found.begun).push_back(step);
  }
  std::sort(found.whole.rbegin(), found.whole.rend());
  return found;
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

/// What a bucket's optimizer keeps.
struct States {
  States(ParameterStore& store, Bucket& bucket)
      : master(store.owned_master(bucket)),
        first_moment(bucket.first_moment.all()),
        second_moment(bucket.second_moment.all()) {}

  std::span<float> master, first_moment, second_moment;
};

std::string blocks_of(ParameterStore& store, const RankGroups& groups) {
  BlockWriter writer;
  for (Bucket& bucket : store.buckets()) {
    const States states(store, bucket);
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

/// A parameter in whole coordinates.
struct FullParameter {
  int64_t rows = 0;  // of the writers' parameter: vocabularies are padded by layout
  std::vector<float> master, first_moment, second_moment;
  std::vector<bool> seen;  // by an element: a block had it
};

FullParameter assemble(const Parameter& wanted, const Blocks& blocks) {
  const auto count = static_cast<size_t>(wanted.whole_rows * wanted.whole_columns);
  FullParameter whole{0, std::vector<float>(count), std::vector<float>(count),
                      std::vector<float>(count), std::vector<bool>(count)};
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
      whole.seen[place] = true;
      if (block.first_moment.empty()) continue;
      whole.first_moment[place] = block.first_moment[k];
      whole.second_moment[place] = block.second_moment[k];
    }
  }
  return whole;
}

/// Elements of the owned piece, taken from the whole. False where one is missing.
bool fill_piece(const Piece& piece, const FullParameter& whole, const Bucket& bucket,
                const States& states) {
  bool complete = true;
  const Parameter& shape = *piece.parameter;
  for (int64_t k = 0; k < piece.end - piece.begin; ++k) {
    const int64_t element = piece.first + k;
    const int64_t row = shape.rows[static_cast<size_t>(element / shape.columns)];
    const int64_t column = shape.first_column + element % shape.columns;
    const auto from = static_cast<size_t>(row * shape.whole_columns + column);
    const auto to = static_cast<size_t>(piece.begin - bucket.owned_begin + k);
    if (whole.rows > 0 && row >= whole.rows) continue;  // padding keeps its first values
    complete = complete && whole.seen[from];
    states.master[to] = whole.master[from];
    if (!bucket.trained) continue;
    states.first_moment[to] = whole.first_moment[from];
    states.second_moment[to] = whole.second_moment[from];
  }
  return complete;
}

Result<void> fill_store(const Blocks& blocks, const Path& folder, ParameterStore& store) {
  for (Bucket& bucket : store.buckets()) {
    const States states(store, bucket);
    for (const Piece& piece : bucket.owned_pieces())
      if (!fill_piece(piece, assemble(*piece.parameter, blocks), bucket, states))
        return error(
            fmt::format("{}: has not all of {} ({} x {}) (it is the checkpoint of another "
                        "model); name the folder of this one, or an empty one",
                        folder.string(), piece.parameter->name, piece.parameter->whole_rows,
                        piece.parameter->whole_columns));
  }
  return {};
}

/// A number per rank, on all of them, in pieces that a float holds exactly.
std::vector<uint64_t> gather_checksums(Communicator& world, uint64_t mine) {
  constexpr size_t pieces = 4;
  std::array<float, pieces> own{};
  for (size_t piece = 0; piece < pieces; ++piece)
    own[piece] = static_cast<float>((mine >> (16 * piece)) & 0xffff);
  std::vector<float> all(pieces * static_cast<size_t>(world.size()));
  world.all_gather(own, all).wait();
  std::vector<uint64_t> checksums(static_cast<size_t>(world.size()));
  for (size_t i = 0; i < all.size(); ++i)
    checksums[i / pieces] |= static_cast<uint64_t>(all[i]) << (16 * (i % pieces));
  return checksums;
}

/// Numbers that no training can go on from.
Result<void> check_finite(ParameterStore& store) {
  const auto finite = [](float number) { return std::isfinite(number); };
  for (Bucket& bucket : store.buckets()) {
    const States states(store, bucket);
    for (const auto* numbers : {&states.master, &states.first_moment, &states.second_moment})
      if (!std::all_of(numbers->begin(), numbers->end(), finite))
        return error(
            "the weights or their moments are not finite, so no checkpoint is written and the one "
            "before stays (the last step was too large); resume with a lower --lr");
  }
  return {};
}

}  // namespace

Result<void> Checkpoints::open(bool resume) {
  const auto mine = [&]() -> Result<void> {
    if (world_.index() > 0) return {};
    lock_ = TPT_TRY(FolderLock::take(folder_));
    const StepFolders found = step_folders(folder_);
    if (!resume && !found.whole.empty())
      return error(
          fmt::format("{}: holds checkpoints of a training (the newest after step {}), which this "
                      "one would replace; go on with --resume, or name an empty folder",
                      folder_.string(), found.whole.front()));
    for (const int64_t step : found.begun)
      remove(step);
    return {};
  };
  return agree(world_, mine(), "open the folder of checkpoints");
}

Result<void> Checkpoints::write(const TrainState& state, ParameterStore& store,
                                const RankGroups& groups) {
  store.settle();
  TPT_TRY(agree(world_, check_finite(store), "write their part of the checkpoint"));
  const Path folder = folder_of_step(folder_, state.step);
  const std::string blocks = blocks_of(store, groups);
  const auto write_part = [&]() -> Result<void> {
    TPT_TRY(make_folder(folder));
    return write_file_atomically(folder / file_of_rank(world_.index()), blocks);
  };
  TPT_TRY(agree(world_, write_part(), "write their part of the checkpoint"));
  const std::vector<uint64_t> checksums = gather_checksums(world_, checksum_at_end(blocks));
  Result<void> named;
  if (world_.index() == 0)
    named = write_file_atomically(folder / manifest_name,
                                  manifest_text({state.step, state.loss, identity_, checksums}));
  TPT_TRY(agree(world_, named, "name the checkpoint"));
  if (world_.index() == 0) remove_old(state.step);
  return {};
}

/// Without its manifest first it is no checkpoint, wherever a kill falls.
void Checkpoints::remove(int64_t step) const {
  std::error_code ignored;
  std::filesystem::remove(folder_of_step(folder_, step) / manifest_name, ignored);
  std::filesystem::remove_all(folder_of_step(folder_, step), ignored);
}

void Checkpoints::remove_old(int64_t newest) const {
  int64_t kept = 0;
  for (const int64_t step : step_folders(folder_).whole)
    if (step <= newest && ++kept > 2) remove(step);
}

Result<std::optional<TrainState>> Checkpoints::read(ParameterStore& store) {
  const std::vector<int64_t> steps = step_folders(folder_).whole;
  if (steps.empty()) return std::optional<TrainState>();
  const Path folder = folder_of_step(folder_, steps.front());
  TrainState state;
  const auto read_all = [&]() -> Result<void> {
    const Manifest manifest = TPT_TRY(read_manifest(folder));
    TPT_TRY(check_identity(folder, manifest.identity, identity_));
    Blocks blocks;
    for (size_t rank = 0; rank < manifest.checksums.size(); ++rank)
      TPT_TRY(read_blocks(folder / file_of_rank(static_cast<int64_t>(rank)), blocks,
                          manifest.checksums[rank]));
    TPT_TRY(fill_store(blocks, folder, store));
    state = {manifest.step, manifest.loss};
    return {};
  };
  TPT_TRY(agree(world_, read_all(), "read the checkpoint"));
  store.publish();
  return state;
}

}  // namespace triplepoint::trainer
