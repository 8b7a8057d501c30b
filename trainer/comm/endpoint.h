// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "triplepoint/spec/op.h"

#include "trainer/comm/communicator.h"
#include "trainer/comm/transport.h"

namespace triplepoint::trainer {

struct EndpointSettings {
  double timeout_seconds = 300;  // how long a peer may stay silent
  std::vector<int> nodes;        // of each rank of the job; empty: all in one
  /// Zero: automatic. native: as the transport does it (an MPI's own, in fp32), where it can; its
  /// bytes are not known. Communicators must then be made in the same order by all ranks.
  std::array<Algorithm, spec::collective_count> algorithms{};
  /// Large arrays travel in pieces of this size: in one node, where nothing flies while another is
  /// added up (memory is where both happen), and between nodes.
  int64_t segment_bytes = 1 << 20, across_segment_bytes = 1 << 18;
  /// A thread that keeps messages moving while this rank computes; worth it only where something
  /// overlaps. An MPI must then have been opened for calls from any thread, one at a time.
  bool progress_thread = false;
};

/// One rank's end of all its groups: owns the transport and keeps every started collective moving,
/// whichever of them is waited for.
///
/// A communicator is known by its kind and `instance`: a rank may have several groups of a kind (or
/// one group twice), all members give it the same instance. Channels of send() and receive() are
/// 0 ... most_channels - 1. Communicators must not outlive their endpoint.
class Endpoint {
 public:
  static constexpr int most_instances = 8;
  static constexpr int most_channels = 240;

  explicit Endpoint(std::unique_ptr<Transport>, EndpointSettings = {});
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int rank() const;
  int size() const;
  /// `ranks` of the job, this one among them.
  std::unique_ptr<Communicator> communicator(spec::GroupKind, std::vector<int> ranks,
                                             int instance = 0);
  /// Aborts all ranks with this message.
  void abort(const char* why);

  class Engine;

 private:
  std::unique_ptr<Engine> engine_;
};

}  // namespace triplepoint::trainer
