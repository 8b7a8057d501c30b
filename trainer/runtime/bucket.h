// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

#include "trainer/memory_ledger.h"
#include "trainer/model/chunk.h"
#include "trainer/runtime/rank_groups.h"

namespace triplepoint::trainer {

/// A unit of a chunk of this rank.
struct UnitName {
  size_t chunk = 0, unit = 0;
  friend bool operator==(const UnitName&, const UnitName&) = default;
};

/// Part of a flat array that belongs to one parameter.
struct Piece {
  Parameter* parameter = nullptr;
  int64_t begin = 0, end = 0;  // in the flat array
  int64_t first = 0;           // element of the parameter at `begin`
};

/// Parameters one after the other in one flat array: reduced, gathered and updated together.
///
/// Ranks of `shard` divide what the plan's sharding divides, each owning block [owned_begin,
/// owned_end); ranks of `replica` hold copies. Without sharding `shard` is null and everything is
/// owned.
struct Bucket {
  std::vector<Piece> pieces;
  std::vector<UnitName> units;
  int64_t count = 0;
  bool tied = false;

  Communicator* shard = nullptr;    // null: not divided
  Communicator* replica = nullptr;  // null: no further copies
  int64_t owned_begin = 0, owned_end = 0;

  Buffer value;           // whole; empty under FSDP
  Buffer gradient;        // whole, of all microbatches; empty where each of them is reduced
  Buffer owned_value;     // FSDP's shard
  Buffer owned_gradient;  // sum of the reduced shards
  Buffer first_moment, second_moment;  // owned

  int64_t owned() const { return owned_end - owned_begin; }
  /// The owned part of each piece.
  std::vector<Piece> owned_pieces() const;
};

/// Cuts the units of a rank's chunks into buckets, in the order of the model.
///
/// Tied parameters (whose blocks must agree between stages) have separate buckets. FSDP: a
/// bucket per unit. Otherwise a bucket is closed when it holds plan.gradient_bucket bytes of
/// gradients; without that, at the end of the chunk, or of the unit where reductions are to hide
/// behind the backward pass.
std::vector<Bucket> make_buckets(const spec::Job&, const std::vector<std::vector<Unit>*>& chunks,
                                 const RankGroups&);

/// Which buckets hold parts of a unit.
class BucketMap {
 public:
  explicit BucketMap(const std::vector<Bucket>& buckets) {
    for (size_t i = 0; i < buckets.size(); ++i)
      for (const UnitName& name : buckets[i].units)
        place(name).push_back(i);
  }
  const std::vector<size_t>& of(UnitName name) const {
    static const std::vector<size_t> none;
    if (name.chunk >= map_.size() || name.unit >= map_[name.chunk].size()) return none;
    return map_[name.chunk][name.unit];
  }

 private:
  std::vector<size_t>& place(UnitName name) {
    if (name.chunk >= map_.size()) map_.resize(name.chunk + 1);
    if (name.unit >= map_[name.chunk].size()) map_[name.chunk].resize(name.unit + 1);
    return map_[name.chunk][name.unit];
  }
  std::vector<std::vector<std::vector<size_t>>> map_;  // [chunk][unit]
};

}  // namespace triplepoint::trainer
