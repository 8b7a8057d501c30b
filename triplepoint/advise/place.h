// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/watch.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/placement.h"
#include "triplepoint/advise/population.h"

namespace triplepoint::advise {

/// baseline: as the job stands. symmetric: cold devices take the earlier of their node's stages,
/// layers as they are. asymmetric: besides, stages on cold devices get some layers more and those
/// on hot ones as many less. searched: what a local search makes of the fastest of these.
enum class PlacementKind { baseline, symmetric, asymmetric, searched };
const char* name_of(PlacementKind);

struct Placement {
  PlacementKind kind = PlacementKind::baseline;
  int64_t shift = 0;  // layers, of an asymmetric one
  spec::Job job;
  PlacementOutcome outcome;
  MachineGains over;    // speed against the baseline, on drawn machines
  std::string same_as;  // the kind of an earlier one that has the same plan; empty: none
};

/// Below this share of speed a change of the launch costs more than it gains.
inline constexpr double least_worthwhile_gain = 0.005;

/// Where a placement's gain on the job's machine comes from, s of a step; all parts add up to it.
///
///   layers = t(base) - t(moved),  order = t(moved) - t(best)
///
/// moved: the best placement's layers on the GPUs and in the order of the job as it is. alike: the
/// same where all GPUs are equal (with_equal_slots, on_expected_machine); heat: what slots and heat
/// paths add to that; boards: what single boards and hosts add.
struct GainParts {
  struct Part {
    double alike = 0, heat = 0, boards = 0;
    double total() const { return alike + heat + boards; }
  } layers, order;
};

struct PlaceOptions {
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;  // of the energy of a token
  // The job's boards are those that were measured. If not, what one machine's boards would give is
  // luck: placements are searched on mean boards and judged on drawn machines (population.h).
  bool machine_is_known = false;
  int64_t largest_shift = 3;
  int64_t most_judged = 4000;
  int threads = 1;
  Watch watch = {};
};

struct PlaceResult {
  metrics::EnergyScope scope = metrics::EnergyScope::gpu;
  std::vector<Placement> placements;  // baseline first; those that exist
  size_t recommended = 0;             // the baseline where none gains least_worthwhile_gain
  size_t fastest = 0;                 // gains most, if anything; the baseline where none does
  std::optional<GainParts> parts;     // of the fastest one's gain
  std::vector<std::string> notes;     // why one does not exist or gain, and what was assumed
  int64_t judged = 0;                 // by the search, each to thermal steady state
  bool searched_all = true;  // ends where no neighbour is faster; false: most_judged or stopped

  const Placement& best() const { return placements[recommended]; }
  /// Speed over the baseline: the mean of drawn machines; of a machine that is known its own, of
  /// the fastest placement without what boards add, which are drawn there, too.
  double gain(const Placement&) const;
};

/// Places a job on a machine whose devices are grouped by coldness, with the simulator as judge.
///
/// The search begins at the fastest of baseline, symmetric and asymmetric, and goes to the fastest
/// neighbour as long as one is faster. Neighbours have one layer moved from a stage to another, two
/// of a node's stages exchanged in who gets cold devices (on every node alike), or another order of
/// ranks (tp-pp-dp, where legal) or nodes (as given, coolest first, coolest last).
///
/// Recommended is what gains most in speed, on a machine that is known by its step, else by the
/// mean over drawn machines if the job's own machine is not slower; and the baseline where that is
/// less than least_worthwhile_gain. Equal jobs give equal answers at any number of threads.
PlaceResult place(const spec::Job&, const ColdMap&, const PlaceOptions&);

}  // namespace triplepoint::advise
