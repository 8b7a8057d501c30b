// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/search/space.h"

#include <algorithm>

namespace triplepoint::search {
namespace {

using spec::Recompute;
using spec::Schedule;
using spec::Sharding;

constexpr int64_t recompute_steps = 8;

template <class T>
bool allows(const std::vector<T>& only, const T& value) {
  return only.empty() || holds(only, value);
}

std::vector<int64_t> divisors(int64_t whole) {
  std::vector<int64_t> found;
  for (int64_t d = 1; d <= whole; ++d)
    if (whole % d == 0) found.push_back(d);
  return found;
}

/// Layers over parts of which the first and the last already hold something worth a layer.
std::optional<std::vector<int64_t>> weighted(int64_t layers, int64_t parts, int64_t first,
                                             int64_t last) {
  const int64_t total = layers + first + last, each = total / parts, rest = total % parts;
  std::vector<int64_t> counts(as_size(parts), each);
  // What is over goes to the parts in the middle.
  for (int64_t i = 0; i < rest; ++i)
    ++counts[as_size((parts / 2 + i) % parts)];
  counts.front() -= first;
  counts.back() -= last;
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  if (*least < 1 || *least == *most) return std::nullopt;  // equal parts are the even split
  return counts;
}

}  // namespace

std::optional<std::vector<int64_t>> layers_of_split(Split split, int64_t layers, int64_t parts) {
  const bool even = layers % parts == 0;
  if (split == Split::even) return even ? std::optional(std::vector<int64_t>()) : std::nullopt;
  if (parts < 2) return std::nullopt;
  if (split == Split::ends_count) return weighted(layers, parts, 1, 1);
  return weighted(layers, parts, 0, 1);
}

size_t Variants::recomputes_of(const StateChoice& state) const {
  if (state.recomputes_experts) return recomputes.size();
  const auto first = std::ranges::find_if(recomputes, &RecomputeChoice::has_experts);
  return as_size(first - recomputes.begin());
}

bool RecomputeChoice::has_experts() const {
  return kind == Recompute::full || holds(modules, spec::RecomputeModule::moe);
}

int64_t Variants::count_of(const StateChoice& state) const {
  return static_cast<int64_t>(schedules.size() * recomputes_of(state) * state.overlaps.size());
}

int64_t Variants::count() const {
  return sum_of(states, [&](const StateChoice& state) {
    return static_cast<int64_t>(splits.size()) * count_of(state);
  });
}

Space::Space(spec::Job base, Reach reach, Fixed fixed)
    : base_(std::move(base)), reach_(reach), fixed_(std::move(fixed)) {
  of_parts_.resize(1);
  for (int64_t parts = 1; parts <= base_.model.num_layers; ++parts) {
    PartsChoices& choices = of_parts_.emplace_back();
    for (const Split split : {Split::even, Split::ends_count, Split::head_counts})
      choices.layers.push_back(layers_of_split(split, base_.model.num_layers, parts));
    choices.recomputes = recomputes(parts);
  }
  first_.push_back(0);
  add_layouts();
}

void Space::add_layouts() {
  if (fixed_.rank_order.empty()) return add_layouts_in(base_.plan.rank_order);
  for (const spec::RankOrder order : fixed_.rank_order)
    add_layouts_in(order);
}

void Space::add_layouts_in(spec::RankOrder order) {
  const int64_t world = base_.world_size();
  for (const int64_t tensor : divisors(base_.model.num_attention_heads))
    for (int64_t pipeline = 1; pipeline <= base_.model.num_layers; ++pipeline)
      for (int64_t context = 1; tensor * pipeline * context <= world; context *= 2)
        if (world % (tensor * pipeline * context) == 0)
          add_experts({.tensor = tensor,
                       .pipeline = pipeline,
                       .context = context,
                       .data = world / (tensor * pipeline * context),
                       .rank_order = order});
}

void Space::add_experts(Layout layout) {
  const auto& moe = base_.model.moe;
  for (const int64_t expert : divisors(moe ? moe->num_experts : 1)) {
    layout.expert = expert;
    layout.expert_tensor = layout.tensor;
    add_microbatches(layout);
    layout.expert_tensor = 1;
    if (moe && layout.tensor > 1) add_microbatches(layout);
  }
}

void Space::add_microbatches(Layout layout) {
  if (!is_legal(layout)) return;
  const int64_t batch = base_.plan.global_batch_size;
  if (batch % layout.data != 0) return;
  for (const int64_t micro : divisors(batch / layout.data)) {
    layout.micro = micro;
    if (allows(fixed_.micro, micro)) add_chunks(layout);
  }
}

void Space::add_chunks(Layout layout) {
  const int64_t layers = base_.model.num_layers;
  const int64_t microbatches = base_.plan.global_batch_size / (layout.micro * layout.data);
  for (int64_t chunks = 1; chunks * layout.pipeline <= layers; ++chunks) {
    if (chunks > 1 && (layout.pipeline == 1 || microbatches % layout.pipeline != 0)) break;
    layout.chunks = chunks;
    if (!allows(fixed_.chunks, chunks) || splits(layout).empty()) continue;
    const auto [known, is_new] = states_.try_emplace(states_key(layout));
    if (is_new) known->second = states(layout);
    const int64_t plans = variants(layout).count();
    if (plans == 0) continue;
    layouts_.push_back(layout);
    first_.push_back(first_.back() + plans);
  }
}

bool Space::is_legal(const Layout& layout) const {
  const spec::Model& model = base_.model;
  const bool chosen =
      allows(fixed_.tensor, layout.tensor) && allows(fixed_.pipeline, layout.pipeline) &&
      allows(fixed_.context, layout.context) && allows(fixed_.expert, layout.expert) &&
      allows(fixed_.expert_tensor, layout.expert_tensor) && allows(fixed_.data, layout.data);
  if (!chosen) return false;
  if (model.num_query_groups % layout.tensor != 0 && !model.latent_attention) return false;
  if (model.ffn_hidden_size % layout.tensor != 0) return false;
  const int64_t context = layout.context;
  if (context > 1 && model.sequence_length % (2 * context) != 0) return false;
  if (model.state_space && (model.state_space->num_groups % layout.tensor != 0 ||
                            model.state_space->num_heads % (layout.tensor * context) != 0))
    return false;
  if (!model.moe) return true;
  const int64_t ranks = base_.world_size() / layout.pipeline;
  return ranks % (layout.expert * layout.expert_tensor) == 0;
}

std::vector<Split> Space::splits(const Layout& layout) const {
  std::vector<Split> found;
  const int64_t layers = base_.model.num_layers, parts = layout.pipeline * layout.chunks;
  const auto exists = [&](Split split) {
    return choices_of(layout).layers[as_size(split)].has_value();
  };
  if (exists(Split::even) && allows(fixed_.uneven, false)) found.push_back(Split::even);
  if (!allows(fixed_.uneven, true)) return found;
  // Layers that the counted ones lack to be equally many in each part.
  const auto lacks = [&](int64_t counted) { return (parts - counted % parts) % parts; };
  const bool ends = exists(Split::ends_count), head = exists(Split::head_counts);
  if (layout.chunks == 1) {
    if (ends) found.push_back(Split::ends_count);
    if (head) found.push_back(Split::head_counts);
    return found;
  }
  // Of chunks of unequal length the more even split, and only where it lacks less than a layer a
  // stage, as in published layouts: more would only move waits from one stage to another.
  const bool head_is_nearer = head && (!ends || lacks(layers + 1) < lacks(layers + 2));
  if (head_is_nearer && lacks(layers + 1) < layout.pipeline) found.push_back(Split::head_counts);
  if (!head_is_nearer && ends && lacks(layers + 2) < layout.pipeline)
    found.push_back(Split::ends_count);
  return found;
}

std::vector<Schedule> Space::schedules(const Layout& layout) const {
  std::vector<Schedule> found;
  const auto add = [&](Schedule schedule) {
    if (allows(fixed_.schedule, schedule)) found.push_back(schedule);
  };
  if (layout.chunks > 1) {
    add(Schedule::interleaved);
    return found;
  }
  add(Schedule::one_f_one_b);
  const bool asked = !fixed_.schedule.empty();
  if (layout.pipeline > 1 && (reach_ == Reach::everything || asked)) {
    add(Schedule::gpipe);
    add(Schedule::zero_bubble);
  }
  return found;
}

std::vector<RecomputeChoice> Space::recomputes(int64_t parts) const {
  std::vector<RecomputeChoice> found;
  if (allows(fixed_.recompute, Recompute::none)) found.push_back({});
  if (allows(fixed_.recompute, Recompute::selective))
    for (const ModuleSet& modules : module_sets())
      found.push_back({.kind = Recompute::selective, .modules = modules});
  std::stable_partition(found.begin(), found.end(), std::not_fn(&RecomputeChoice::has_experts));
  if (!allows(fixed_.recompute, Recompute::full)) return found;
  const int64_t layers = (base_.model.num_layers + parts - 1) / parts;
  // Part of the layers run again and part offloaded is not modelled.
  const bool offloads = base_.plan.activation_offload > 0;
  const int64_t steps = offloads ? 1 : std::min(layers, recompute_steps);
  for (int64_t i = 1; i < steps; ++i) {
    const int64_t some = (layers * i + steps - 1) / steps;
    if (allows(fixed_.recompute_layers, std::optional(some)))
      found.push_back({.kind = Recompute::full, .layers = some});
  }
  if (allows(fixed_.recompute_layers, std::optional<int64_t>()) ||
      allows(fixed_.recompute_layers, std::optional(layers)))
    found.push_back({.kind = Recompute::full});
  return found;
}

/// Core attention; then, where Megatron-Core can, parts that are cheap to run again, one more at a
/// time, and with the last of them the whole MLP. A job's own modules stay alone.
std::vector<ModuleSet> Space::module_sets() const {
  using enum spec::RecomputeModule;
  if (!fixed_.recompute_modules.empty()) return fixed_.recompute_modules;
  if (!base_.plan.recompute_modules.empty()) return {base_.plan.recompute_modules};
  std::vector<ModuleSet> sets = {{}};
  if (base_.stack.framework != "Megatron-Core") return sets;
  ModuleSet cheap;
  const auto add = [&](spec::RecomputeModule module) {
    cheap.push_back(module);
    sets.push_back(cheap);
  };
  const bool experts = base_.model.moe.has_value();
  if (base_.model.latent_attention) add(mla_up_proj);
  if (experts) add(moe_act);
  add(layernorm);
  std::erase(cheap, moe_act);
  add(experts ? moe : mlp);
  return sets;
}

/// Of FSDP: all ranks that may share, or those that reach each other over NVLink.
std::vector<int64_t> Space::sharding_groups(const Layout& layout) const {
  std::vector<int64_t> wanted = fixed_.sharding_group;
  if (wanted.empty()) {
    wanted.push_back(base_.plan.sharding_group_size);
    const int64_t reached = base_.cluster.scale_up.domain_size / layout.tensor;
    if (wanted.front() == 0 && reached > 1) wanted.push_back(reached);
  }
  std::vector<int64_t> found;
  for (const int64_t group : wanted)
    if (group == 0 || (group < layout.data && layout.data % group == 0)) found.push_back(group);
  // A job's own groups where they divide; elsewhere its plans have none.
  if (found.empty() && fixed_.sharding_group.empty()) found.push_back(0);
  return found;
}

namespace {

/// Ranks of a context group hold the same parameters, and share their states as replicas do.
bool has_replicas(const Layout& layout) {
  return layout.data * layout.context > 1;
}

}  // namespace

/// Master weights of 16 bits are the remainders that distributed optimizers keep; whole they are
/// launchable only where the user asks for it.
bool Space::leaves_states_whole() const {
  const spec::OptimizerState& state = base_.plan.optimizer;
  const bool keeps_remainders = state.weight_bytes == 2 && state.master_bytes == 2;
  return !keeps_remainders || !fixed_.sharding.empty();
}

Space::StatesKey Space::states_key(const Layout& layout) const {
  const bool has_others = base_.plan.global_batch_size > layout.micro * layout.data;
  return {layout.tensor, layout.pipeline, layout.context,    layout.expert,
          layout.chunks, layout.data,     has_others ? 1 : 0};
}

std::vector<StateChoice> Space::states(const Layout& layout) const {
  std::vector<StateChoice> found;
  const bool all = reach_ == Reach::everything;
  for (const bool sequence_parallel : {false, true}) {
    if (!allows(fixed_.sequence_parallel, sequence_parallel)) continue;
    const bool split = layout.tensor > 1 && base_.model.sequence_length % layout.tensor == 0;
    if (sequence_parallel && !split) continue;
    // Megatron requires it of experts beside tensor parallelism.
    if (!sequence_parallel && base_.model.moe && layout.tensor > 1 && !all) continue;
    const auto add = [&](Sharding sharding, bool reshard, int64_t group = 0) {
      add_state(layout, {sequence_parallel, sharding, reshard, group, true, {}}, found);
    };
    if (all || !has_replicas(layout) || leaves_states_whole()) add(Sharding::none, true);
    if (!has_replicas(layout)) continue;
    add(Sharding::optimizer, true);
    if (all || base_.stack.gradient_sync_accumulates) add(Sharding::gradients, true);
    for (const int64_t group : sharding_groups(layout)) {
      if (all || layout.pipeline == 1) add(Sharding::parameters, true, group);
      if (all) add(Sharding::parameters, false, group);
    }
  }
  return found;
}

/// In Megatron-Core the exchange hides behind another microbatch, and only where layers run part by
/// part: not under FSDP, and not in CUDA graphs.
bool Space::overlaps_experts(const Layout& layout, const StateChoice& state) const {
  if (layout.expert == 1) return false;
  if (reach_ == Reach::everything) return true;
  const bool has_others = base_.plan.global_batch_size > layout.micro * layout.data;
  if (base_.stack.framework != "Megatron-Core" || base_.stack.cuda_graphs || !has_others ||
      state.sharding == Sharding::parameters)
    return false;
  spec::Plan plan = base_.plan;
  plan.pipeline_parallel_size = layout.pipeline;
  plan.virtual_pipeline_size = layout.chunks;
  plan.expert_parallel_size = layout.expert;
  plan.recompute = Recompute::selective;  // full recompute: see add_state
  return spec::broken_condition_of_expert_overlap(base_.model, plan).empty();
}

/// Overlaps that have something to hide.
uint32_t Space::possible_overlaps(const Layout& layout, const StateChoice& state) const {
  const bool all = reach_ == Reach::everything;
  const bool fsdp = state.sharding == Sharding::parameters;
  const bool zero = state.sharding == Sharding::optimizer || state.sharding == Sharding::gradients;
  // Userbuffers write into the memory of their peers: only where all reach each other directly.
  const bool reaches = all || layout.tensor <= base_.cluster.scale_up.domain_size;
  uint32_t may = 0;
  const auto add = [&](bool possible, uint32_t bit) { may |= possible ? bit : 0; };
  add(state.sequence_parallel && reaches, overlaps_tensor);
  add(has_replicas(layout) && !fsdp, overlaps_gradient);
  add(has_replicas(layout) && zero, overlaps_parameter);
  add(layout.pipeline > 1 && (all || layout.chunks > 1), overlaps_pipeline);
  add(overlaps_experts(layout, state), overlaps_expert);
  return may;
}

bool Space::allows_overlap(uint32_t bits, uint32_t possible) const {
  const auto has = [&](uint32_t bit) { return (bits & bit) != 0; };
  if ((bits & ~possible) != 0) return false;
  // Megatron gathers parameters ahead only where it reduces gradients ahead.
  const bool gathers_alone = has(overlaps_parameter) && !has(overlaps_gradient);
  if (gathers_alone && reach_ != Reach::everything) return false;
  const bool data =
      (possible & overlaps_gradient) == 0 || allows(fixed_.overlap_data, has(overlaps_gradient));
  return data && allows(fixed_.overlap_tensor, has(overlaps_tensor)) &&
         allows(fixed_.overlap_pipeline, has(overlaps_pipeline)) &&
         allows(fixed_.overlap_expert, has(overlaps_expert));
}

void Space::add_state(const Layout& layout, StateChoice state,
                      std::vector<StateChoice>& found) const {
  if (!allows(fixed_.sharding, state.sharding)) return;
  const uint32_t possible = possible_overlaps(layout, state);
  // Megatron-Core overlaps the exchange between experts only where they are not recomputed.
  StateChoice exchanging = state;
  exchanging.recomputes_experts = false;
  for (uint32_t bits = 0; bits < 2 * overlaps_expert; ++bits) {
    if (!allows_overlap(bits, possible)) continue;
    const bool apart = reach_ == Reach::launchable && (bits & overlaps_expert) != 0;
    (apart ? exchanging : state).overlaps.push_back(bits);
  }
  if (!state.overlaps.empty()) found.push_back(std::move(state));
  const bool recomputes_less =
      allows(fixed_.recompute, Recompute::none) || allows(fixed_.recompute, Recompute::selective);
  if (!exchanging.overlaps.empty() && recomputes_less) found.push_back(std::move(exchanging));
}

bool Space::searches_power() const {
  return allows(fixed_.power_cap, true);
}

Variants Space::variants(const Layout& layout) const {
  return {states_.at(states_key(layout)), splits(layout), schedules(layout),
          choices_of(layout).recomputes};
}

size_t Space::layout_number(int64_t index) const {
  TPT_EXPECT(index >= 0 && index < size());
  const auto above = std::upper_bound(first_.begin(), first_.end(), index);
  return as_size(above - first_.begin()) - 1;
}

std::optional<int64_t> Space::find(const Layout& layout, const spec::Plan& sought) const {
  const auto at = std::ranges::find(layouts_, layout);
  if (at == layouts_.end()) return std::nullopt;
  const auto number = as_size(at - layouts_.begin());
  for (int64_t index = first_[number]; index < first_[number + 1]; ++index)
    if (plan(index) == sought) return index;
  return std::nullopt;
}

const Layout& Space::layout_of(int64_t index) const {
  return layouts_[layout_number(index)];
}

spec::Plan Space::plan(int64_t index) const {
  const size_t at = layout_number(index);
  const Variants variants = this->variants(layouts_[at]);
  int64_t rest = index - first_[at];
  const auto splits = static_cast<int64_t>(variants.splits.size());
  VariantAt variant;
  const auto state = [&]() -> const StateChoice& { return variants.states[variant.state]; };
  for (; rest >= splits * variants.count_of(state()); ++variant.state)
    rest -= splits * variants.count_of(state());
  const auto take = [&](int64_t radix) {
    const int64_t digit = rest % radix;
    rest /= radix;
    return as_size(digit);
  };
  variant.overlap = take(static_cast<int64_t>(state().overlaps.size()));
  variant.recompute = take(static_cast<int64_t>(variants.recomputes_of(state())));
  variant.schedule = take(static_cast<int64_t>(variants.schedules.size()));
  variant.split = as_size(rest);
  return plan(layouts_[at], variants, variant);
}

spec::Plan Space::plan(const Layout& layout, const Variants& variants, const VariantAt& at) const {
  spec::Plan plan = base_.plan;
  set_layout(layout, plan);
  const StateChoice& state = variants.states[at.state];
  plan.sequence_parallel = state.sequence_parallel;
  plan.sharding = state.sharding;
  plan.reshard_after_forward = state.reshard;
  plan.sharding_group_size = state.group;
  variants.recomputes[at.recompute].set(plan);
  set_overlaps(state.overlaps[at.overlap], plan);
  plan.schedule = variants.schedules[at.schedule];
  plan.layers_per_stage = *choices_of(layout).layers[as_size(variants.splits[at.split])];
  return plan;
}

Layout layout_of(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  return {.tensor = plan.tensor_parallel_size,
          .pipeline = plan.pipeline_parallel_size,
          .context = plan.context_parallel_size,
          .expert = plan.expert_parallel_size,
          .expert_tensor = plan.expert_tensor_parallel_size.value_or(plan.tensor_parallel_size),
          .chunks = plan.virtual_pipeline_size,
          .data = job.data_parallel_size(),
          .micro = plan.micro_batch_size,
          .rank_order = plan.rank_order};
}

void set_layout(const Layout& layout, spec::Plan& plan) {
  plan.tensor_parallel_size = layout.tensor;
  plan.pipeline_parallel_size = layout.pipeline;
  plan.context_parallel_size = layout.context;
  plan.expert_parallel_size = layout.expert;
  plan.expert_tensor_parallel_size.reset();
  if (layout.expert_tensor != layout.tensor)
    plan.expert_tensor_parallel_size = layout.expert_tensor;
  plan.virtual_pipeline_size = layout.chunks;
  plan.micro_batch_size = layout.micro;
  plan.rank_order = layout.rank_order;
}

void set_overlaps(uint32_t bits, spec::Plan& plan) {
  plan.overlap_tensor = (bits & overlaps_tensor) != 0;
  plan.overlap_gradient = (bits & overlaps_gradient) != 0;
  plan.overlap_parameter = (bits & overlaps_parameter) != 0;
  plan.overlap_pipeline = (bits & overlaps_pipeline) != 0;
  plan.overlap_expert = (bits & overlaps_expert) != 0;
}

void RecomputeChoice::set(spec::Plan& plan) const {
  plan.recompute = kind;
  plan.recompute_layers = layers;
  plan.recompute_modules = modules;
}

}  // namespace triplepoint::search
