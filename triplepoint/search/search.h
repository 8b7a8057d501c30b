// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "triplepoint/search/bound.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/search/space.h"
#include "triplepoint/search/step.h"
#include "triplepoint/search/worker_pool.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::search {

/// The best plan of one layout.
struct Candidate {
  int64_t index = 0;  // in the space
  Layout layout;
  spec::Plan plan;
  double bound = 0;  // of the objective
  StepEstimate step;
  Bytes memory;      // on the fullest device
  double value = 0;  // of the objective, schedule-accurate
};

/// What became of all plans. The same for any number of threads.
struct SearchCounts {
  int64_t plans = 0, layouts = 0;
  int64_t out_of_memory = 0;       // by the closed form
  int64_t bounded = 0;             // closed forms of the step computed in the first pass
  int64_t layouts_simulated = 0;   // layouts whose bound did not rule them out
  int64_t simulated = 0;           // schedules simulated
  int64_t simulated_on_links = 0;  // of these, event by event over shared links
  int64_t exact_out_of_memory = 0;
  SearchCounts& operator+=(const SearchCounts&);
};

struct SearchOptions {
  int threads = 1;
  size_t keep = 12;  // layouts
  // Searches with other processes, or (never both) only the layouts of one shard: groups of layouts
  // whose number leaves `shard` when divided by `shards`.
  const WorkerPool* pool = nullptr;
  size_t shard = 0, shards = 1;
  // Told, from any thread, how many pieces of work there are and that one is done.
  std::function<void(const char* what, size_t total)> begin = {};
  std::function<void()> advance = {};
  std::function<bool()> stopped = {};  // asked now and then; what was found until then is kept
  bool stop() const { return stopped && stopped(); }
};

struct Found {
  std::vector<Candidate> best;  // of each layout its best plan, best layout first
  SearchCounts counts;
};

/// The best plans of a space, as an exhaustive schedule-accurate search would find them.
///
/// Bounds of all plans first (bound.h); then layouts in the order of their bound, each searched in
/// the order of its plans' bounds, until the next bound is above the `keep`-th best value found.
/// A plan is dropped only by a bound that is above what was found, so the answer is that of a
/// search without bounds; of equal values the lower index wins. Layouts are taken in batches of
/// fixed size, so that threads change nothing.
Found search(const Space&, const Objective&, const Limits&, const SearchOptions&);

/// What searches of all shards found, as one search would have: the `keep` best. Counts add up;
/// they are higher than those of one search, as no shard knew what the others had found.
Found merge(std::vector<Found> parts, size_t keep);

/// A plan of the space with what its index says; not yet simulated.
Candidate candidate_at(const Space& space, int64_t index);

/// One plan at the schedule-accurate fidelity, for comparing a plan of one's own.
Candidate evaluate_plan(const spec::Job&, const Objective&);

/// Bytes a device may use under these limits.
Bytes usable_memory(const spec::Job&, const Limits&);

/// Walks the plans of one layout after another and bounds each; keeps estimates that plans share.
/// One per thread.
class LayoutScan {
 public:
  LayoutScan(const Space& space, const Limits& limits, Typical typical,
             EnergyBound energy = EnergyBound::lowest_clock);

  /// Told of every plan that may fit in memory: its place, index and bound.
  using Visit = std::function<void(const VariantAt&, int64_t index, const StepBound&)>;
  /// Of the layout with this number in the space; returns how many of its plans cannot fit.
  int64_t visit(size_t number, const Visit& visit);

 private:
  using Shapes = std::array<workload::GroupShape, 4>;
  using LayerKey = std::tuple<int64_t, bool, bool, bool, int64_t, uint32_t, uint32_t>;
  using LayerTable = std::map<LayerKey, LayerCosts>;
  using ChunkLayout = std::vector<std::vector<workload::ChunkLayers>>;

  void enter(const Layout& layout);
  Shapes shapes_in_layers(const Layout& layout);
  int64_t visit_split(const Layout&, const Variants&, VariantAt at, int64_t index, const Visit&);
  void visit_overlaps(const Layout&, const Variants&, VariantAt at, int64_t index,
                      const PipelineParts&, const Visit&);
  const LayerCosts& layers_of(const Layout&, const StateChoice&, uint32_t overlap);
  LayerCosts estimate(LayerTable&, LayerKey) const;
  const SendCosts& sends_of(const Layout&, const StateChoice&);
  const std::vector<EndCost>& ends_of(const Layout&, const StateChoice&, Split, uint32_t overlap);
  void set_overlap(uint32_t overlap);

  const Space& space_;
  Typical typical_;
  EnergyBound energy_;
  Bytes usable_;
  double resting_power_ = 0;
  spec::Job job_;
  Layout entered_{};
  Shapes shapes_{};                     // of the groups whose collectives stand inside of layers
  LayerTable layers_, sharded_layers_;  // sharded: under FSDP, which gathers over the data group
  std::map<std::tuple<int64_t, bool, bool>, SendCosts> sends_;
  std::map<std::tuple<int64_t, bool, int, bool, int64_t, int, uint32_t>, std::vector<EndCost>>
      epilogues_;
};

}  // namespace triplepoint::search
