// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <tuple>

#include "triplepoint/search/bound.h"
#include "triplepoint/search/search.h"

namespace triplepoint::search {

/// Walks the plans of one layout after another and bounds each; keeps estimates that plans share.
/// One per thread.
class LayoutScan {
 public:
  LayoutScan(const Space& space, const Limits& limits, Typical typical);

  /// Told of every plan that may fit in memory: its place, index and bound.
  using Visit = std::function<void(const VariantAt&, int64_t index, const StepBound&)>;
  /// Of the layout with this number in the space; returns how many of its plans cannot fit.
  int64_t visit(size_t number, const Visit& visit);

 private:
  using Group = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
  using ChunkLayout = std::vector<std::vector<workload::ChunkLayers>>;

  void enter(const Layout& layout);
  int64_t visit_split(const Layout&, const Variants&, VariantAt at, int64_t index, const Visit&);
  void visit_overlaps(const Layout&, const Variants&, VariantAt at, int64_t index,
                      const PipelineParts&, const Visit&);
  const LayerCosts& layers_of(const Layout&, const StateChoice&, uint32_t overlap);
  const SendCosts& sends_of(const Layout&, const StateChoice&);
  const std::vector<EndCost>& ends_of(const Layout&, const StateChoice&, Split, uint32_t overlap);
  void set_overlap(uint32_t overlap);

  const Space& space_;
  Typical typical_;
  Bytes usable_;
  double resting_power_ = 0;
  spec::Job job_;
  Group group_{};
  std::map<std::tuple<int64_t, bool, bool, bool, uint32_t>, LayerCosts> layers_;
  std::map<std::tuple<int64_t, bool, bool>, SendCosts> sends_;
  std::map<std::tuple<int64_t, bool, int, bool, int, uint32_t>, std::vector<EndCost>> epilogues_;
};

}  // namespace triplepoint::search
