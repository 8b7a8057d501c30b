// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/placement.h"
#include "triplepoint/advise/population.h"

namespace triplepoint::advise {

/// baseline: as the job stands. symmetric: cold devices take the earlier of their node's stages,
/// layers as they are. asymmetric: besides, stages on cold devices get some layers more and those
/// on hot ones as many less. optimal: the best that is known; the baseline where none gains.
enum class PlacementKind { baseline, symmetric, asymmetric, optimal };
const char* name_of(PlacementKind);

struct Placement {
  PlacementKind kind = PlacementKind::baseline;
  int64_t shift = 0;  // layers, of an asymmetric one
  spec::Job job;
  PlacementOutcome outcome;
  PlacementReason reason;  // against the baseline
  MachineGains over;       // speed against the baseline, on drawn machines
  std::string same_as;     // the kind of an earlier one that has the same plan; empty: none
};

/// How the optimal placement was found.
struct PlaceCounts {
  int64_t assignments = 0;    // of groups to stages and of nodes to blocks of ranks
  int64_t layouts = 0;        // (partial) layouts of layers that were bounded
  int64_t below = 0;          // whole ones whose bound left a chance
  int64_t judged = 0;         // by the simulator, to thermal steady state
  int64_t left = 0;           // with a chance, and not judged: stopped
  double could_gain = 0;      // of what was left, at most this share of the step
  bool nodes_alike = false;   // every node was given the same assignment
  bool layers_fixed = false;  // virtual stages: layers stay as they are
};

struct PlaceOptions {
  // The job's boards are those that were measured. If not, what one machine's boards would give is
  // luck: placements are searched on mean boards and judged on drawn machines (population.h).
  bool machine_is_known = false;
  int64_t largest_shift = 3;
  int64_t most_judged = 4000;
  int threads = 1;
  std::function<void(const char* what, size_t total)> begin;  // of a part that takes time
  std::function<void()> advance;
  std::function<bool()> stopped;
};

struct PlaceResult {
  std::vector<Placement> placements;  // baseline first; those that exist
  std::vector<std::string> notes;     // why one does not, and what was assumed
  PlaceCounts counts;
};

/// Places a job on a machine whose devices are grouped by coldness, with the simulator as judge.
///
/// Searched for the optimum: the job's rank order and tp-pp-dp (where legal); nodes as given,
/// coolest first, coolest last; on each node, every way to deal its groups to its stages and the
/// given one; all layers per stage up to 6 more or less than even. A layout is judged by
/// sim::simulate if its bound (place_bound.h) is below the best step found so far; in the order of
/// bounds, so that the first whose bound is not ends the search. Independent choices per node
/// multiply: above 256 assignments all nodes are given the same one.
/// Never worse than baseline, symmetric and asymmetric, which are judged first: by the step on a
/// machine that is known, else by the mean gain over drawn machines.
/// Equal jobs give equal answers at any number of threads.
PlaceResult place(const spec::Job&, const ColdMap&, const PlaceOptions&);

}  // namespace triplepoint::advise
