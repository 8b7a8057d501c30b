// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "triplepoint/search/bound.h"
#include "triplepoint/search/objective.h"
#include "triplepoint/search/space.h"
#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::search {

/// Bytes a device may use under these limits.
Bytes usable_memory(const spec::Job&, const Limits&);

/// Bounds layouts, and the plans of one layout after another; keeps estimates that plans share. One
/// per thread.
class LayoutScan {
 public:
  LayoutScan(const Space& space, const Limits& limits, Typical typical,
             EnergyBound energy = EnergyBound::lowest_clock);

  /// At most the bound of any plan of the layout, in joules only what devices at rest draw: no
  /// recompute, no sends, nothing at the step's end. Nothing where no plan fits in memory. Of all
  /// parts it is what a plan without these has, of many layers alone it costs the least.
  std::optional<StepBound> bound(size_t number, CountedParts);

  /// Told of every plan that may fit in memory: its place, index and bound.
  using Visit = std::function<void(const VariantAt&, int64_t index, const StepBound&)>;
  /// Plans of the layout with this number in the space, but for some of those that are not asked
  /// for; returns how many of the others cannot fit.
  int64_t visit(size_t number, const MayWin& may_win, const Visit& visit);

 private:
  using Shapes = std::array<workload::GroupShape, 4>;
  using LayerKey = std::tuple<int64_t, bool, bool, bool, int64_t, uint32_t, uint32_t>;
  using LayerTable = std::map<LayerKey, LayerCosts>;
  using BareKey = std::tuple<int64_t, bool, bool, bool, int64_t, bool>;
  using BareCosts = std::array<LayerCosts, 4>;  // by overlaps that reach into layers
  using BareTable = std::map<BareKey, BareCosts>;
  using ChunkLayout = std::vector<std::vector<workload::ChunkLayers>>;

  void enter(const Layout& layout);
  Shapes shapes_in_layers(const Layout& layout);
  void enter_bare(const Layout&, const Variants&, const VariantAt&);
  static BareKey bare_key(const Layout&, const StateChoice&, spec::Schedule);
  const LayerCosts& bare_layers(const Layout&, const StateChoice&, size_t choice, CountedParts);
  StepBound bound_bare(const LayerCosts&, const PipelineParts&) const;
  int64_t visit_split(const Layout&, const Variants&, VariantAt at, int64_t index, const MayWin&,
                      const Visit&);
  bool may_win_bare(const Layout&, const Variants&, VariantAt at, const PipelineParts& bare,
                    const MayWin&);
  StepBound bound_overlap(const Layout&, const Variants&, const VariantAt&, const PipelineParts&);
  void visit_overlaps(const Layout&, const Variants&, VariantAt at, int64_t index,
                      const PipelineParts&, const Visit&);
  const BareCosts& many_layers_of(const Layout&, const StateChoice&);
  const LayerCosts& layers_of(const Layout&, const StateChoice&, uint32_t overlap);
  LayerCosts estimate(LayerTable&, LayerKey) const;
  const SendCosts& sends_of(const Layout&, const StateChoice&);
  const std::vector<EndCost>& ends_of(const Layout&, const StateChoice&, Split, uint32_t overlap);

  const Space& space_;
  Typical typical_;
  EnergyBound energy_;
  Bytes usable_;
  double resting_power_ = 0;
  spec::Job job_;
  Layout entered_{};
  Shapes shapes_{};                     // of the groups whose collectives stand inside of layers
  LayerTable layers_, sharded_layers_;  // sharded: under FSDP, which gathers over the data group
  BareTable bare_, sharded_bare_;
  std::map<std::tuple<int64_t, bool, bool>, SendCosts> sends_;
  std::map<std::tuple<int64_t, bool, int, bool, int64_t, int, uint32_t>, std::vector<EndCost>>
      epilogues_;
};

}  // namespace triplepoint::search
