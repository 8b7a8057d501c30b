// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "trainer/comm/schedule.h"

namespace triplepoint::trainer {

/// Pieces that belong to one member (or that a subtree holds).
using Part = std::vector<Slice>;

int64_t count_of(const Part&);
/// Pieces of both; neighbours are joined.
void append(Part& part, const Part& more);

/// Some members of the group, in order, and which of them this rank is.
struct Team {
  std::vector<int> members;
  int me = 0;
  int size() const { return static_cast<int>(members.size()); }
  int member(int place) const { return members[static_cast<size_t>((place + size()) % size())]; }
};

/// The rounds of one lane. What is added up arrives in scratch from `landing` on: two halves in
/// turn, so that the next message may fly while this one is added.
class LaneWriter {
 public:
  LaneWriter(Lane& lane, int64_t landing) : lane_(lane), landing_(landing) {}

  Round& next() { return lane_.emplace_back(); }
  static void send(Round& round, int peer, const Part& part);
  static void receive(Round& round, int peer, const Part& part);
  static void copy(Round& round, const Part& to, const Part& from);
  /// into = into + what comes.
  void receive_and_add(Round& round, int peer, const Part& into);
  /// A place for `count` numbers that have just come.
  Slice land(int64_t count);
  int64_t scratch_end() const { return end_; }

 private:
  Lane& lane_;
  int64_t landing_, end_ = 0, half_ = -1, used_ = 0;
};

/// Parts by place in the team; every member has all parts to begin with, adds up its own.
void ring_reduce(LaneWriter&, const Team&, const std::vector<Part>& parts);
/// Every member has its own part to begin with, all of them in the end.
void ring_gather(LaneWriter&, const Team&, const std::vector<Part>& parts);

/// All of `whole`, over powers of two; the members beyond hand theirs in first.
void doubling_all_reduce(LaneWriter&, const Team&, const Part& whole);
void doubling_gather(LaneWriter&, const Team&, const std::vector<Part>& parts);
void halving_reduce(LaneWriter&, const Team&, const std::vector<Part>& parts);

/// Binomial trees, root: the team's first.
void tree_reduce(LaneWriter&, const Team&, const Part& whole);
void tree_broadcast(LaneWriter&, const Team&, const Part& whole);
void tree_gather(LaneWriter&, const Team&, const std::vector<Part>& parts);
void tree_scatter(LaneWriter&, const Team&, const std::vector<Part>& parts);

/// Straight from each to each.
void pairwise_reduce(LaneWriter&, const Team&, const std::vector<Part>& parts);
void pairwise_gather(LaneWriter&, const Team&, const std::vector<Part>& parts);

}  // namespace triplepoint::trainer
