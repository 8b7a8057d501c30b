// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// One rank's kernel of a collective.
struct CollectivePart {
  int32_t rank = 0, span = 0;  // index into Timeline::spans
  int64_t begin = 0, end = 0;  // ns
  int64_t duration() const { return end - begin; }
};

/// One collective, as all ranks that the timeline shows took part in it.
///
///   arrival     = last begin; in a timeline that knows its waits (simulated), begin + wait
///   transfer    = last end - arrival: duration after the last arrival
///   wait of r   = arrival - begin of r, within its kernel; the last to begin does not wait
/// Source: telemetry of eight ranks of DLRM on one host: ends differ by 1 to 7 us, begins by up to
/// 7,624 us. A span's own `wait`, where the producer knows it (simulated runs), goes before.
struct Collective {
  std::string_view label;     // see label_of
  std::string_view name;      // of the kernel
  int32_t communicator = -1;  // index into Timeline::communicators
  int64_t sequence = -1;      // in its communicator, or how many of its kind came before
  Bytes size;                 // S of nccl-tests: the whole array; 0: not known
  int64_t count = -1;         // nccl-tests' column: elements that one rank contributes; -1: unknown
  int32_t group_size = 0;     // 0: not known
  bool is_message = false;    // from one rank to another
  int32_t sender = -1;        // of a message
  std::vector<CollectivePart> parts;  // by rank

  std::optional<int64_t> known_arrival;  // ns; where the producer knows it

  bool across_ranks() const { return parts.size() > 1; }
  bool knows_waits() const { return across_ranks() || known_arrival.has_value(); }
  int64_t first_begin() const;
  int64_t last_begin() const;
  int64_t first_end() const;
  int64_t last_end() const;
  int32_t last_starter() const;  // the lowest of those that begin last
  int64_t arrival() const { return known_arrival.value_or(last_begin()); }
  int64_t wait_of(const CollectivePart& part) const;
  bool is_partial() const {  // ranks of the group are missing
    return across_ranks() && group_size > static_cast<int32_t>(parts.size());
  }
  std::optional<int64_t> transfer() const;  // nothing where waits are not known
};

/// busbw / algbw of nccl-tests: all-reduce 2(n-1)/n; all-gather, reduce-scatter, all-to-all
/// (n-1)/n; broadcast and send-receive 1. Nothing for what it does not know, or for n < 1.
/// Source: nccl-tests, doc/PERFORMANCE.md.
std::optional<double> bus_factor(std::string_view label, int32_t ranks);

/// Collectives of one label, group size and message size, in nccl-tests' columns.
struct CollectiveRow {
  std::string_view label;
  int32_t group_size = 0;
  Bytes size;
  int64_t count = -1;
  int64_t occurrences = 0;
  int64_t total = 0, shortest = 0, longest = 0;  // ns, of the kernels, waiting included, all ranks
  std::optional<int64_t> wait, transfer;         // ns: summed over ranks; summed over occurrences
  int64_t kernels = 0;                           // over all ranks
  /// algbw of the mean transfer; where only one rank is known, of the shortest kernel (the waits
  /// are inside the others).
  std::optional<double> algbw_gb_s, busbw_gb_s;
};
/// By label, then group size, then message size.
std::vector<CollectiveRow> tabulate(const std::vector<Collective>&);

/// Collectives by message size: powers of two, smallest first; without those of unknown size.
struct MessageSizes {
  std::string_view label;
  Bytes upper;                                       // messages up to this size, above half of it
  int64_t occurrences = 0, total = 0, transfer = 0;  // ns as above
};
std::vector<MessageSizes> message_sizes(const std::vector<Collective>&);

}  // namespace triplepoint::metrics
