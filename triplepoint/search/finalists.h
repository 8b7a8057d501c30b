// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/search/search.h"

namespace triplepoint::search {

/// A plan simulated to thermal steady state, every device with its own clock and temperature.
struct Finalist {
  Candidate candidate;
  double time = 0, energy = 0;  // s, J of all devices: one step
  double value = 0;             // of the objective
  double tokens_per_second = 0, mfu = 0;
  double power_mean = 0, power_peak = 0;   // W of a device: mean; highest that a sensor shows
  double node_power = 0;                   // W, a mean node at the wall
  double scope_energy = 0;                 // J, one step, of what energy counts in
  double hottest = 0;                      // C, highest die
  double throttled = 0;                    // share of time that clocks are below the requested one
  std::array<double, term_count> terms{};  // s; add up to `time`
  std::optional<Watts> power_limit;  // of each device, lower than the job's; absent: the job's
  std::string refused;               // by which limit; empty: allowed
  std::string kind;                  // "least energy, least memory": what it is of those shown
  bool on_front = false;             // nothing is better in time, energy, peak power and peak heat
};

/// Where a plan loses against another: the term that grows most, in seconds of a step.
struct Loss {
  Term term = Term::compute;
  double seconds = 0;
};
Loss largest_loss(const Finalist& plan, const Finalist& against);
/// "bubble", "exposed communication", "memory (recompute)", ...: the reason in a user's words.
std::string_view reason_of(Term);

struct Ranking {
  std::vector<Finalist> ranked;   // best first
  std::vector<Finalist> refused;  // what broke a limit, in the order of the search
  SearchCounts counts;
};

struct FinalOptions {
  SearchOptions search;
  size_t top = 5;
  bool kinds = false;  // the first `top` differ in kind
};

/// Searches, then simulates the best plans in full (sim::simulate) until `top` of them keep within
/// the limits, and ranks those by what the full run says. The Pareto front is marked among them.
///
/// Clocks follow each device's heat only here, so a plan may change places with one that the
/// schedule alone put just behind it; how many are simulated in full is search.keep, and four times
/// as many, and so on, where limits refuse too many of them. `extra` are further candidates to
/// simulate (other objectives' best, for a wider front).
///
/// Power limits of the devices are searched, too, in steps of power_limit_step and down to the
/// GPU's least: a plan that breaks a limit gets the highest power limit under which it keeps all
/// (heat and power fall with it), and of other goals than throughput the `top` plans get the one
/// with the least value (assumed to have one minimum). Not where the space fixes power-cap=off, the
/// job limits single devices, or the GPU's least limit is unknown.
///
/// With `kinds` the first `top` of the ranking are, beside the best, the best without context
/// parallelism and with FSDP (within worth_showing of the best), those with the least energy and
/// memory and the fewest parallel dimensions, in the order of the objective; others fill up, of
/// other layouts first.
Ranking rank_plans(const Space&, const Objective&, const Limits&, const FinalOptions&,
                   const std::vector<Candidate>& extra = {});

inline constexpr double worth_showing = 1.2;  // of the objective, over the best

inline constexpr Watts power_limit_step = 10 * unit::W;

/// The job with the plan and its power limit.
spec::Job job_of(const spec::Job& base, const Finalist&);

/// One job in full; for comparing a plan of one's own.
Finalist simulate_in_full(const spec::Job&, const Objective&);

/// Maximum number of plans that limits may refuse before the search stops.
inline constexpr size_t most_finalists = 128;

void mark_front(std::vector<Finalist>&);

/// "TP8 PP4 VPP6, mbs 2, ZeRO-1, recompute full (3), SP, overlap tp+dp".
std::string plan_text(const spec::Plan&, const Layout&);
/// The same, with the power limit that the plan needs: "..., 600 W".
std::string plan_text(const Finalist&);
/// "tp+dp"
std::string overlap_text(const spec::Plan&);

}  // namespace triplepoint::search
