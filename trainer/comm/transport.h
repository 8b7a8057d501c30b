// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

namespace triplepoint::trainer {

/// A peer that does not answer, or a group that disagrees. The one exception of the trainer: a wait
/// stands deep inside of a pass, and nothing there could go on. `what` names rank, peer, group.
class CommError : public std::runtime_error {
  using std::runtime_error::runtime_error;
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
  /// Makes progress. True exactly once; the ticket is forgotten then.
  virtual bool done(Ticket) = 0;
  /// Tells all ranks that this one gives up.
  virtual void abort(const char* why) = 0;
};

}  // namespace triplepoint::trainer
