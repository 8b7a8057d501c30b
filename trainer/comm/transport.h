// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

namespace triplepoint::trainer {

enum class Reduction { sum, maximum };

/// to[i] = to[i] + from[i], or the larger one.
void combine(const float* from, float* to, int64_t count, Reduction);

/// Block i of n numbers over p ranks: [n i / p, n (i + 1) / p), rounded down.
struct Block {
  int64_t first, count;
};
constexpr Block block_of(int64_t n, int64_t i, int64_t p) {
  return {n * i / p, n * (i + 1) / p - n * i / p};
}

/// A peer that does not answer, or a group that disagrees. The one exception of the trainer: a wait
/// stands deep inside of a pass, and nothing there could go on. `what` names rank, peer, group.
class CommError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A collective or message under way. Its arrays stay until it is done or this is gone.
class Transfer {
 public:
  virtual ~Transfer() = default;
  virtual bool done() = 0;  // makes progress; stays true
  /// A rank of the job that has not come yet; -1: not known.
  virtual int waits_for() const = 0;
};

/// The collectives of one group of at least two ranks, and messages between two of its members:
/// ordered per pair and channel. `count`: of the whole array.
class GroupTransport {
 public:
  using Started = std::unique_ptr<Transfer>;

  virtual ~GroupTransport() = default;
  virtual Started all_reduce(float* data, int64_t count, Reduction) = 0;
  /// `mine` may be its place in `whole`.
  virtual Started all_gather(const float* mine, float* whole, int64_t count) = 0;
  virtual Started reduce_scatter(const float* whole, float* mine, int64_t count, Reduction) = 0;
  virtual Started send(const float* data, int64_t count, int to, int channel) = 0;
  virtual Started receive(float* data, int64_t count, int from, int channel) = 0;
};

/// One rank's way to the others: an MPI (one process per rank), or the memory of one process whose
/// threads are the ranks. Called by one thread at a time, but for rest().
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// All members call it, in the same order as for other groups; `number` tells groups with the
  /// same first rank apart.
  virtual std::unique_ptr<GroupTransport> group(const std::vector<int>& ranks, int number) = 0;
  /// Tells ranks of this process that this one gives up: their next done() throws CommError.
  /// Processes are ended by MpiSession::end_all.
  virtual void abort(const char* why) = 0;
  /// Called when nothing has moved for a number of looks in a row: gives the core to others, at
  /// most for a millisecond.
  virtual void rest(int looks) = 0;
};

/// Ranks that are threads of one process, for tests and for machines without MPI: one transport
/// each. The last member that comes into a collective, and those that wait for it meanwhile, carry
/// it out, block by block and straight between the members' arrays; sums are added in the group's
/// order.
std::vector<std::unique_ptr<Transport>> thread_transports(int ranks);

}  // namespace triplepoint::trainer
