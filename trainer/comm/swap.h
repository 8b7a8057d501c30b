// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trainer/comm/shared_segment.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

/// Two ranks add up an array of which each has its own: one does the first half, the other the
/// second. Numbers are added where they were laid out for it, and the sums taken from there: what
/// passes between the caches of two cores is each number once there and once back.
struct Swap {
  int channel = 0;
  std::span<float> data{};
  bool maximum = false;
  bool live = false;                      // the other one has begun, too
  size_t given_begin = 0, given_end = 0;  // this rank's half of numbers for the other
  size_t laid = 0, taken = 0, added = 0;  // numbers

  bool is_over() const {
    const size_t given = given_end - given_begin;
    return taken == given && added == data.size() - given;
  }
};

/// The lower rank adds up the first half.
Swap make_swap(bool is_lower, int channel, std::span<float> data, bool maximum);

/// A swap, and how the two tell each other that they have begun: by its size in bytes.
struct Meeting {
  Swap swap;
  uint64_t mine = 0, others = 0;
  Transport::Ticket told = 0, heard = 0;
  bool has_told = false, has_heard = false;
};

/// One rank's side of all swaps with one other rank. Both sides of a swap have begun before the
/// first piece is laid, so whatever lies there can be added: no order of swaps can lock up.
class Swaps {
 public:
  using Tray = SharedSegment::Tray;

  Swaps(Tray& mine, Tray& others) : mine_(&mine), others_(&others) {}
  /// The caller keeps it until it is over.
  void begin(Swap& swap) { swaps_.push_back(&swap); }
  /// As much as there is to do; true if anything was.
  bool advance();

 private:
  bool add_piece();
  bool take_piece();
  bool lay_piece();
  Swap* on_channel(int channel);
  void forget_finished();

  Tray* mine_;
  Tray* others_;
  uint64_t taken_ = 0;  // pieces of my tray
  std::vector<Swap*> swaps_;
};

}  // namespace triplepoint::trainer
