// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "triplepoint/search/finalists.h"

namespace triplepoint::search {

/// A plan beside the ranking.
struct OtherPlan {
  std::string what;             // "TP8 instead of TP4", "your job"
  Finalist plan = {};           // without time or heat where it does not fit
  Bytes missing = {};           // memory beyond what a device has; 0: it fits
  Bytes missing_headroom = {};  // of the memory that is to stay free; 0: enough does
  std::string problem = {};     // why it cannot run; empty: it can
};

/// Any plan of the job, simulated in full if it fits.
OtherPlan judged_plan(std::string what, const spec::Job& job, const Objective&, const Limits&);

/// The plans beside a plan: each size at the nearest values that can run; sharding, sequence
/// parallelism and recomputation the other way; nothing overlapped. What cannot run says why.
std::vector<OtherPlan> neighbours_of(const spec::Job& job, const Objective&, const Limits&);

/// The one change of a plan that gains most (neighbours_of), and the two together that gain more;
/// fewer where none does.
std::vector<OtherPlan> best_changes(const spec::Job& job, const Objective&, const Limits&);

/// "Your job, TP8 PP4 ..., takes 26.6 s a step, +7.3 s (+38 %) against plan 1: bubble +5.1 s, ...".
std::string own_text(const OtherPlan& own, const Finalist& first);

/// "bubble +3.1 s, recomputation +1.2 s, others −0.1 s": where a step is longer; adds up to the
/// gap.
std::string causes_text(const Finalist& plan, const Finalist& against);

/// "out of memory by 4.6 GiB".
std::string missing_text(const OtherPlan&);

/// "out of memory by 4.6 GiB", "bubble +12.3 %", "energy +2.1 %": in which way it is behind the
/// first, of what was asked for.
std::string why_not(const OtherPlan& other, const Finalist& first, Goal goal);
std::string behind_text(const Finalist& plan, const Finalist& first, Goal goal);

/// "bubble +12.3 %", "bubble +12.3 %, others −2.0 %": its largest loss, in shares of the first's
/// step, and what takes back a part of it.
std::string cause_text(const Finalist& plan, const Finalist& first);

/// The nearest job that fits in memory, for one that does not: the fewest nodes, then the
/// fastest with or without sequence parallelism and recomputation, of the smallest model-parallel
/// group that fits and of those up to four times as large.
/// Nothing if none is found within 64 times the nodes.
std::optional<spec::Job> nearest_that_fits(const spec::Job& job);

/// "--nodes 2 --tp 8 --recompute full": the flags that turn a job into that one.
std::string flags_between(const spec::Job& job, const spec::Job& other);

}  // namespace triplepoint::search
