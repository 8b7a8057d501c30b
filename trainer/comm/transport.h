// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <vector>

#include "trainer/comm/shared_segment.h"

namespace triplepoint::trainer {

/// A peer that does not answer, or a group that disagrees. The one exception of the trainer: a wait
/// stands deep inside of a pass, and nothing there could go on. `what` names rank, peer, group.
class CommError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class NativeCollectives;

/// What becomes of floats as they arrive: to = arrived + other, or the larger one.
struct ReduceTarget {
  float* to = nullptr;
  const float* other = nullptr;
  bool maximum = false;
};

/// Messages between the ranks of a job. Those of one (from, to, channel) arrive in order.
///
/// Implemented by MPI point-to-point (one process per rank), by memory between threads of one
/// process (tests, and machines without MPI), and by shaping, which wraps another one.
/// Called by one thread at a time.
class Transport {
 public:
  using Ticket = uint64_t;

  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The buffer must stay as it is until the ticket is done.
  virtual Ticket send(int to, int channel, std::span<const std::byte> bytes) = 0;
  virtual Ticket receive(int from, int channel, std::span<std::byte> bytes) = 0;
  /// Can receive_reduce be called?
  virtual bool can_reduce_on_receive() const { return false; }
  /// Receives floats that are combined with others while they are in the caches; `size` in bytes.
  virtual Ticket receive_reduce(int from, int channel, size_t size, const ReduceTarget&);
  /// Can all_reduce_with be called?
  virtual bool swaps() const { return false; }
  /// An all-reduce with one other rank, which calls it with as many numbers.
  virtual Ticket all_reduce_with(int peer, int channel, std::span<float> data, bool maximum);
  /// Makes progress. True exactly once; the ticket is forgotten then.
  virtual bool done(Ticket) = 0;
  /// Tells all ranks that this one gives up: their next done() throws CommError. Never throws.
  virtual void abort(const char* why) = 0;
  /// Called when nothing has moved for a number of polls in a row: gives the core to others, at
  /// most for `longest`, and comes back early where it can tell that something has arrived. May be
  /// called beside the other functions.
  virtual void rest(int looks, std::chrono::nanoseconds longest);
  /// Looks of who knows when something arrives: who yields again and again instead of sleeping
  /// comes last on a busy core.
  static constexpr int sleep_at_once = std::numeric_limits<int>::max();
  static constexpr std::chrono::nanoseconds longest_rest = std::chrono::milliseconds(1);
  /// A number that all ranks of one machine see, zero at first, `place` below most_shared_numbers;
  /// null where there is none.
  virtual std::atomic<int64_t>* shared_number(int place);
  static constexpr int most_shared_numbers = 256;
  /// Collectives of the transport's own; null where it has none.
  virtual NativeCollectives* native() { return nullptr; }
};

/// What an MPI brings itself, of numbers in fp32. Tickets are the transport's.
class NativeCollectives {
 public:
  using Ticket = Transport::Ticket;
  using Numbers = std::span<const float>;
  using Counts = std::span<const int>;

  virtual ~NativeCollectives() = default;
  /// Creates a separate group; all members call it, in the same order as everywhere.
  virtual int join(std::span<const int> ranks, int channel) = 0;
  virtual Ticket all_reduce(int group, std::span<float> data, bool maximum) = 0;
  virtual Ticket all_gather(int group, Numbers mine, std::span<float> whole, Counts counts) = 0;
  virtual Ticket reduce_scatter(int group, Numbers whole, std::span<float> mine, Counts counts,
                                bool maximum) = 0;
  virtual Ticket all_to_all(int group, Numbers send, Counts send_counts, std::span<float> receive,
                            Counts receive_counts) = 0;
  virtual Ticket broadcast(int group, std::span<float> data, int root) = 0;
};

/// Ranks that are threads of one process, for tests and for machines without MPI: one transport
/// each. A message is copied once, straight from the sender's buffer to the receiver's, by
/// whichever of the two comes last; a waiting rank sleeps until the other arrives.
std::vector<std::unique_ptr<Transport>> thread_transports(int ranks);

/// Ranks that are processes of one machine. Who waits sleeps until a peer has written or read, so
/// that it takes nothing from those who compute on the same core; a peer that has died is noticed
/// within a second.
std::unique_ptr<Transport> shared_transport(std::shared_ptr<SharedSegment>, int rank);

/// All ends in one process, for tests.
std::vector<std::unique_ptr<Transport>> shared_transports(int ranks);

}  // namespace triplepoint::trainer
