// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/swap.h"

#include <algorithm>
#include <cstring>

#include "triplepoint/base/expect.h"

#include "trainer/comm/wire.h"

namespace triplepoint::trainer {

Swap make_swap(bool is_lower, int channel, std::span<float> data, bool maximum) {
  const size_t half = data.size() / 2 / 16 * 16;  // whole cache lines
  return {.channel = channel,
          .data = data,
          .maximum = maximum,
          .given_begin = is_lower ? half : 0,
          .given_end = is_lower ? data.size() : half};
}

Swap* Swaps::on_channel(int channel) {
  const auto its = std::find_if(swaps_.begin(), swaps_.end(),
                                [&](const Swap* swap) { return swap->channel == channel; });
  TPT_EXPECT(its != swaps_.end());
  return *its;
}

bool Swaps::advance() {
  bool moved = false;
  for (;;) {
    const bool added = add_piece(), taken = take_piece(), laid = lay_piece();
    if (!added && !taken && !laid) break;
    moved = true;
  }
  forget_finished();
  return moved;
}

bool Swaps::add_piece() {
  const uint64_t piece = others_->added.load(std::memory_order_relaxed);
  if (piece == others_->laid.load(std::memory_order_acquire)) return false;
  const size_t place = piece % Tray::pieces;
  const Tray::Label& label = others_->labels[place];
  Swap& swap = *on_channel(label.channel);
  combine_twice(others_->numbers[place].data(), swap.data.data() + label.begin,
                static_cast<int64_t>(label.count),
                swap.maximum ? Reduction::maximum : Reduction::sum);
  swap.added += label.count;
  others_->added.store(piece + 1, std::memory_order_release);
  return true;
}

bool Swaps::take_piece() {
  if (taken_ == mine_->added.load(std::memory_order_acquire)) return false;
  const size_t place = taken_ % Tray::pieces;
  const Tray::Label& label = mine_->labels[place];
  Swap& swap = *on_channel(label.channel);
  std::memcpy(swap.data.data() + label.begin, mine_->numbers[place].data(),
              label.count * sizeof(float));
  swap.taken += label.count;
  ++taken_;
  return true;
}

bool Swaps::lay_piece() {
  const uint64_t piece = mine_->laid.load(std::memory_order_relaxed);
  if (piece - taken_ == Tray::pieces) return false;
  const auto next = std::find_if(swaps_.begin(), swaps_.end(), [](const Swap* swap) {
    return swap->live && swap->given_begin + swap->laid < swap->given_end;
  });
  if (next == swaps_.end()) return false;
  Swap& swap = **next;
  const size_t begin = swap.given_begin + swap.laid;
  const size_t count = std::min(swap.given_end - begin, Tray::piece_numbers);
  const size_t place = piece % Tray::pieces;
  mine_->labels[place] = {swap.channel, begin, count};
  std::memcpy(mine_->numbers[place].data(), swap.data.data() + begin, count * sizeof(float));
  swap.laid += count;
  mine_->laid.store(piece + 1, std::memory_order_release);
  return true;
}

void Swaps::forget_finished() {
  swaps_.erase(std::remove_if(swaps_.begin(), swaps_.end(),
                              [](const Swap* swap) { return swap->is_over(); }),
               swaps_.end());
}

}  // namespace triplepoint::trainer
