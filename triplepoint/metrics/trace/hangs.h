// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/run/issued.h"
#include "triplepoint/run/timeline.h"

namespace triplepoint::metrics {

/// One rank's issue of a collective, as a flight recorder knows it.
struct IssuePart {
  int32_t rank = 0;
  size_t span = 0;     // index into Timeline::spans
  int64_t issued = 0;  // ns
  run::IssueState state = run::IssueState::completed;
  std::string_view label;  // see label_of; of the call, not of its kernel
  int64_t elements = -1;   // what the ranks have to agree on; -1: not known, or they need not
};

/// What ranks wait in: a collective that some issued and none of these has finished.
struct PendingCollective {
  int32_t communicator = -1;  // index into Timeline::communicators
  int64_t sequence = -1;
  std::vector<IssuePart> parts;  // by rank
  std::vector<int32_t> never;    // ranks of the group, given, that have not come to this number
  std::vector<int32_t> unknown;  // ranks of the group that are not given
  bool kinds_differ = false, sizes_differ = false;

  bool is_waited_in() const;  // at least one rank has not finished it
  int64_t spread() const;     // ns, from the first issue to the last, by the hosts' clocks
  const IssuePart& last_issued() const;
};

/// Whether a training hangs, and in what, from the order in which ranks issue collectives.
///
/// A group runs its collectives in one order on all ranks, so a rank whose last number in a group
/// is below the one that others wait in has not issued it; one whose numbers are above it has
/// finished it (recorders drop what is finished). Of each group the first collective is told that a
/// rank has not issued, or whose ranks issued different ones, else the first that waits. Ranks that
/// others wait for, and that do not wait themselves, are the missing ones; in a circle all of
/// it are. Messages are asked only where no collective tells: who waits for a peer that has fewer
/// pending messages of the pair waits for it. Source: PyTorch, tools/flight_recorder (fr_trace),
/// and NVIDIA/nvidia-resiliency-ext's answers to its four sets of dumps.
struct HangReport {
  std::vector<PendingCollective> pending;  // by group
  std::vector<int32_t> missing;            // ranks, ascending
  std::vector<int32_t> differing;          // ranks that issued another collective than most
  int64_t waiting = 0;                     // collectives and messages that have not ended
  /// Of what all given ranks of a group issued: where the last came most after the first.
  std::optional<PendingCollective> latest;
};

/// Nothing if the timeline has no issues: no flight recorder wrote it.
std::optional<HangReport> find_hang(const run::Timeline&);

/// Whether the timeline is a flight recorder's: what computed beside its collectives, and when
/// nothing ran, is not in it.
bool knows_collectives_only(const run::Timeline&);

/// Ranks that were given: those with spans, and those that are known by a lane alone.
std::set<int32_t> given_ranks(const run::Timeline&);

/// What trace stragglers and pages say of it: who never issued what, where that rank was last, or
/// that none is missing.
std::vector<std::string> hang_sentences(const run::Timeline&, const HangReport&);

/// "rank 3", "ranks 3, 5 and 9".
std::string rank_words(const std::vector<int32_t>& ranks);

/// The frame of the program at which a collective was issued; empty if it is not known.
std::string_view frame_of_issue(const run::Timeline&, size_t span);

}  // namespace triplepoint::metrics
