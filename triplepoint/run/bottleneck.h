// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/units.h"

namespace triplepoint::run {

/// One number of a slow device, and the median of its peers.
struct Evidence {
  enum class Kind : uint8_t {
    // What is slow.
    clock,          // mean SM clock, MHz
    scale_up,       // share of its links' bandwidth
    scale_out,      // share of its network's bandwidth
    host,           // time to launch a kernel over that of a mean host
    late_arrivals,  // collectives that it began last; peers: all in which it takes part
    // Where the time went before the worst late arrival, s beyond the peers'.
    kernels,
    gaps,         // without work on the device
    first_seen,   // until anything is seen of it: late, or profiled from a later moment on
    late_launch,  // until the host called the collective's launch
    data_loader,
    host_call,  // of its host thread
    // What it works under.
    power_limit,  // W
    power,        // W, mean
    temperature,  // of the die, °C
    // Shares of time.
    power_cap,
    power_brake,
    heat,
    clock_lock,
  };
  Kind kind = Kind::clock;
  double value = 0, peers = 0;
  std::string name = {};  // of the kernel or call that most of it is in
  friend bool operator==(const Evidence&, const Evidence&) = default;
};

/// Why it is slow, where the evidence excludes the other causes (see metrics::cause_of).
enum class Cause : uint8_t {
  unknown,
  power_limit,     // lower than its peers'
  power_cap,       // at its power limit; whether that is lower than its peers' is not known
  power_brake,     // the platform's
  power_delivery,  // held below its own power limit
  board,           // needs more power than others for the same clock
  heat,
  clock_lock,
  links,
  host,
  data_loader,
};

/// Devices, nodes or ranks that are slower than their peers, which wait for them in every
/// collective: in lockstep (tensor, context, expert groups), for the next stage, or at the end of
/// the step.
struct Bottleneck {
  enum class Of : uint8_t { gpu, node, rank };
  Of of = Of::gpu;
  std::vector<int32_t> who = {};  // slowest first
  // Of the slowest; the first item says what is slow.
  std::vector<Evidence> evidence = {};
  Cause cause = Cause::unknown;
  // By which a step would be shorter if they were like their peers; absent: not known.
  std::optional<Seconds> cost = {};
  bool at_most = false;               // the cost is an upper bound
  std::optional<Seconds> waits = {};  // of all other ranks together, over the timeline
  bool is_partial = false;            // of ranks: the job has more than those given
  friend bool operator==(const Bottleneck&, const Bottleneck&) = default;
};

}  // namespace triplepoint::run
