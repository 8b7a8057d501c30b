// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "triplepoint/spec/op.h"

#include "trainer/comm/communicator.h"

namespace triplepoint::trainer {

/// Which array a piece belongs to. `input` and `output` are the caller's (one and the same where a
/// collective works in place), `scratch` is the collective's own.
enum class Array : uint8_t { input, output, scratch };

/// Some numbers in a row.
struct Slice {
  Array array = Array::output;
  int64_t begin = 0, count = 0;
  friend bool operator==(const Slice&, const Slice&) = default;
};

struct Message {
  int peer = 0;  // place in the group
  Slice slice;
  int absorbed_by = -1;  // of the round's local work: what may be done with it as it arrives
};

/// copy: to = from.  combine: to = from + other (or the larger one), number by number.
struct LocalWork {
  enum class Kind : uint8_t { copy, combine } kind = Kind::copy;
  Slice to, from, other;
  bool can_reduce_on_receive =
      false;  // a receive's numbers, which nothing else of the round touches
};

/// Messages that fly together; when all have landed, the local work is done.
struct Round {
  std::vector<Message> sends, receives;
  std::vector<LocalWork> then;
  bool early = false;  // its receives touch nothing that the round before still needs
};

/// Rounds one after the other. Lanes run side by side, so that one adds up while another flies.
using Lane = std::vector<Round>;

/// What one rank does for one collective: data, so that it can be checked, counted and kept.
struct Schedule {
  Algorithm algorithm = Algorithm::ring;  // the one that is really used
  std::vector<Lane> lanes;
  int64_t scratch = 0;                        // numbers
  int64_t sent_in_node = 0, sent_across = 0;  // numbers
};

inline constexpr int most_lanes = 4;

struct ScheduleRequest {
  spec::Collective collective = spec::Collective::all_reduce;
  Algorithm algorithm = Algorithm::automatic;
  int64_t count = 0;  // numbers of the whole array
  int index = 0, size = 1;
  int root = 0;                            // broadcast
  std::vector<int> nodes;                  // of each member; empty: all in one
  int64_t segment = 1 << 16;               // numbers that a large array is cut into
  std::vector<int64_t> sends, receives{};  // all_to_all: numbers per peer
  // all_gather, reduce_scatter: numbers of each member's block; empty: dealt out as evenly as may
  // be
  std::vector<int64_t> blocks{};
};

/// First number of block i of n numbers over p members, as communicator.h cuts them.
constexpr int64_t block_begin(int64_t n, int64_t i, int64_t p) {
  return n * i / p;
}

/// Who sends what to whom, in which order.
///
/// Numbers sent by all p members together, for an array of n (all_to_all: those for others):
///
///                        all_reduce             all_gather, reduce_scatter   broadcast
///   ring                 2 (p-1) n              (p-1) n                      (p-1) n
///   recursive_doubling   (q log2 q + 2 (p-q)) n  pairs: (q-1) n, and 2 for    as tree
///                                               each of the p-q others
///   tree                 2 (p-1) n              gathered up, then whole down (p-1) n
///   hierarchical         2 (p-1) n              (p-1) n                      (p-1) n
///   pairwise             2 (p-1) n              (p-1) n                      (p-1) n
///
/// (q: the largest power of two not above p.) What differs is the number of rounds, and how much of
/// it goes across nodes: N nodes of r members each, hierarchical: 2 (N-1) n in all, a ring through
/// nodes in order: N edges of 2 (p-1)/p n.
///
/// automatic: what `best_algorithm` says. all_to_all is always pairwise; where nodes are one, or
/// hold one member each, hierarchical is the ring.
/// Source: Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in
/// MPICH, 2005.
Schedule make_schedule(const ScheduleRequest&);

/// ring: large arrays; recursive doubling: few bytes, where rounds cost more than bytes;
/// hierarchical: several members on each of several nodes.
Algorithm best_algorithm(const ScheduleRequest&);

}  // namespace triplepoint::trainer
