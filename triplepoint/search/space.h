// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::search {

/// launchable: what Megatron-Core and NeMo start as they are. everything: also GPipe, zero bubble,
/// overlapped sends without chunks, ZeRO-2, FSDP with pipelines, overlapped expert exchange where
/// Megatron-Core refuses it, states of distributed optimizers that no rank shares.
enum class Reach { launchable, everything };

/// How layers are dealt over the parts (stages x chunks) of the model.
///   even         equally many
///   ends_count   embedding and head count as a layer each: the first and the last part get one
///                less
///   head_counts  the head counts as a layer
enum class Split { even, ends_count, head_counts };

/// Modules that selective recompute recomputes together; empty: core attention.
using ModuleSet = std::vector<spec::RecomputeModule>;

/// What may not vary; an empty list leaves a choice open. From "tp=8,mbs=1|2,recompute=full".
struct Fixed {
  std::vector<int64_t> tensor, pipeline, chunks, expert, expert_tensor, context, data, micro;
  std::vector<int64_t> sharding_group;
  std::vector<std::optional<int64_t>> recompute_layers;  // of a chunk; nothing: all of them
  std::vector<ModuleSet> recompute_modules;
  std::vector<spec::RankOrder> rank_order;
  std::vector<spec::Sharding> sharding;
  std::vector<spec::Recompute> recompute;
  std::vector<spec::Schedule> schedule;
  std::vector<bool> sequence_parallel, overlap_tensor, overlap_data, overlap_pipeline,
      overlap_expert, uneven, power_cap;
};
Result<Fixed> parse_fixed(std::string_view text);

/// Sizes of one layout; everything that decides how work is cut up.
struct Layout {
  int64_t tensor = 1, pipeline = 1, context = 1, expert = 1, expert_tensor = 1;
  int64_t chunks = 1;  // of a stage
  int64_t data = 1, micro = 1;
  spec::RankOrder rank_order = spec::RankOrder::tp_cp_ep_dp_pp;
  friend auto operator<=>(const Layout&, const Layout&) = default;
};

Layout layout_of(const spec::Job&);
void set_layout(const Layout&, spec::Plan&);

/// One way to save memory on state, with the communications that may hide under it.
struct StateChoice {
  bool sequence_parallel = false;
  spec::Sharding sharding = spec::Sharding::none;
  bool reshard = true;
  int64_t group = 0;               // ranks of a hybrid sharding group; 0: all that may share
  bool recomputes_experts = true;  // among its recomputes
  std::vector<uint32_t> overlaps;  // sets of the bits below
};
enum OverlapBit : uint32_t {
  overlaps_tensor = 1,
  overlaps_gradient = 2,
  overlaps_parameter = 4,
  overlaps_pipeline = 8,
  overlaps_expert = 16
};

/// Sets of these bits.
void set_overlaps(uint32_t bits, spec::Plan&);

struct RecomputeChoice {
  spec::Recompute kind = spec::Recompute::none;
  std::optional<int64_t> layers = {};  // of a chunk; absent: all
  ModuleSet modules = {};
  bool has_experts() const;
  void set(spec::Plan&) const;
};

/// The choices within one layout, independent of each other but for a state's overlaps and
/// recomputes. A variant is their mixed radix number: state, then split, schedule, recompute,
/// overlap, the last varies fastest. Valid as long as the space.
struct Variants {
  std::span<const StateChoice> states;
  std::vector<Split> splits;
  std::vector<spec::Schedule> schedules;
  std::span<const RecomputeChoice> recomputes;     // those of whole experts last
  size_t recomputes_of(const StateChoice&) const;  // how many of them, the first ones
  int64_t count_of(const StateChoice&) const;      // variants of one state and one split
  int64_t count() const;
};

/// Position of a variant within its layout.
struct VariantAt {
  size_t state = 0, split = 0, schedule = 0, recompute = 0, overlap = 0;
};

/// All plans that a model, a cluster and a global batch allow, in one fixed order, none of them
/// stored.
///
/// Left out are plans that spec::diagnose refuses or calls inert (an overlap without anything to
/// hide), so that no two plans are the same work. Sizes run over all divisors; recomputed layers of
/// a chunk over at most eight even steps. index <-> plan: a range of indices can be searched
/// anywhere.
class Space {
 public:
  Space(spec::Job base, Reach reach, Fixed fixed);

  const spec::Job& base() const { return base_; }
  const Fixed& fixed() const { return fixed_; }
  /// The part of this space in which less is left open.
  Space part(Fixed fixed) const { return {base_, reach_, std::move(fixed)}; }
  /// Where a plan of a part stands in this space.
  std::optional<int64_t> find(const Layout&, const spec::Plan&) const;
  const std::vector<Layout>& layouts() const { return layouts_; }
  Variants variants(const Layout&) const;
  int64_t size() const { return first_.back(); }
  int64_t first_of(size_t layout) const { return first_[layout]; }
  /// Whether plans may get a lower power limit than the job's (finalists.h).
  bool searches_power() const;

  const Layout& layout_of(int64_t index) const;
  spec::Plan plan(int64_t index) const;
  spec::Plan plan(const Layout&, const Variants&, const VariantAt&) const;

 private:
  /// What the number of parts (stages x chunks) decides.
  struct PartsChoices {
    std::vector<std::optional<std::vector<int64_t>>> layers;  // by Split
    std::vector<RecomputeChoice> recomputes;
  };
  const PartsChoices& choices_of(const Layout& layout) const {
    return of_parts_[as_size(layout.pipeline * layout.chunks)];
  }
  size_t layout_number(int64_t index) const;
  void add_layouts();
  void add_layouts_in(spec::RankOrder);
  void add_experts(Layout);
  void add_microbatches(Layout);
  void add_chunks(Layout);
  bool is_legal(const Layout&) const;
  bool leaves_states_whole() const;
  /// All that states() asks of a layout.
  using StatesKey = std::array<int64_t, 7>;
  StatesKey states_key(const Layout&) const;
  std::vector<StateChoice> states(const Layout&) const;
  uint32_t possible_overlaps(const Layout&, const StateChoice&) const;
  bool overlaps_experts(const Layout&, const StateChoice&) const;
  bool allows_overlap(uint32_t bits, uint32_t possible) const;
  void add_state(const Layout&, StateChoice, std::vector<StateChoice>&) const;
  std::vector<Split> splits(const Layout&) const;
  std::vector<spec::Schedule> schedules(const Layout&) const;
  std::vector<RecomputeChoice> recomputes(int64_t parts) const;
  std::vector<ModuleSet> module_sets() const;
  std::vector<int64_t> sharding_groups(const Layout&) const;

  spec::Job base_;
  Reach reach_;
  Fixed fixed_;
  std::vector<PartsChoices> of_parts_;                    // by their number
  std::map<StatesKey, std::vector<StateChoice>> states_;  // of all layouts
  std::vector<Layout> layouts_;
  std::vector<int64_t> first_;  // index of each layout's first plan, and one past the last
};

/// Layers of each part; empty for an even split, nothing where the split does not exist.
std::optional<std::vector<int64_t>> layers_of_split(Split, int64_t layers, int64_t parts);

}  // namespace triplepoint::search
