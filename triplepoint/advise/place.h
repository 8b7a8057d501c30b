// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/watch.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/advise/placement.h"
#include "triplepoint/answers/document.h"

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
  // luck: placements are searched on mean boards and judged on drawn machines (placement.h).
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

/// What devices were grouped by, and how.
struct GroupedMachine {
  std::vector<ThermalSample> devices;
  ThermalGroups groups;
  std::string source;  // "simulated", or the files
};

/// What separates the GPUs, and the order that puts cold ones first.
answers::Document groups_answer(const GroupedMachine&, const std::vector<std::string>& notes = {});

/// Which stages on which slots, what each placement gains, and how to launch the best. `pictured`:
/// with the chassis before and after, for which both are simulated.
answers::Document place_answer(const spec::Job&, const GroupedMachine&, const PlaceResult&,
                               bool pictured);

/// "asymmetric +1".
std::string placement_name(const Placement&);
/// What a launcher has to be told: a line each.
std::vector<std::string> launch_lines(const spec::Job&);
/// Order of visible devices of a node, as text: "1,2,5,7,0,3,4,6".
std::string visible_devices(const spec::Job&, int64_t node);
/// devices.sh and hostfile.
std::string devices_script(const spec::Job&);
std::string host_file(const spec::Job&, const std::vector<std::string>& hosts);

/// Per placement: job.toml, megatron.sh, nemo.yaml where NeMo can start it, devices.sh
/// (CUDA_VISIBLE_DEVICES of each node) and hostfile. `hosts`: names of the nodes, if known.
/// Returns the remarks of formats::write_job_files.
Result<std::string> write_placements(const Path& folder, const spec::Library& library,
                                     const PlaceResult& result, const spec::Job& original,
                                     const std::vector<std::string>& hosts);

}  // namespace triplepoint::advise
