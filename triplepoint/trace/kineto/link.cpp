// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/trace/kernel_kind.h"
#include "triplepoint/trace/kineto/collector.h"

namespace triplepoint::trace::kineto {

namespace {

using run::SpanKind;

bool is_collective(const run::Timeline& timeline, const run::Span& span) {
  return timeline.types[as_size(span.type)].kind == SpanKind::communication;
}

/// A copy on the device, which may be one to a peer whose memory is mapped.
bool is_device_copy(const run::SpanType& type) {
  return type.kind == SpanKind::copy && (type.name.find("DtoD") != std::string::npos ||
                                         type.name.find("DeviceToDevice") != std::string::npos);
}

/// What may be a collective although its name does not say so: if an operator of one launched it.
/// Copies between devices are, where the copy engine gathers; those on a device only if the
/// collective itself launched them, and no copy of a tensor inside of it.
bool may_be_collective(const run::SpanType& type) {
  if (type.kind == SpanKind::copy)
    return type.name.find("PtoP") != std::string::npos || is_device_copy(type);
  return type.kind == SpanKind::other ||
         (type.kind == SpanKind::memory && collective_of(type.name).has_value());
}

/// Launches by correlation. Of two that share one, the first: the other is a mistake.
class LaunchIndex {
 public:
  LaunchIndex(const std::vector<Launch>& launches, const std::vector<int32_t>& process)
      : process_(process), launches_(launches) {
    order_.resize(launches.size());
    for (size_t i = 0; i < order_.size(); ++i)
      order_[i] = static_cast<uint32_t>(i);
    std::ranges::stable_sort(
        order_, [&](uint32_t a, uint32_t b) { return key_of(launches[a]) < key_of(launches[b]); });
  }
  const Launch* find(const run::SpanDetail& detail) const {
    const int32_t process = detail.lane < 0 ? 0 : process_[as_size(detail.lane)];
    const std::pair key(process, detail.correlation);
    const auto found =
        std::lower_bound(order_.begin(), order_.end(), key,
                         [&](uint32_t i, const auto& k) { return key_of(launches_[i]) < k; });
    if (found == order_.end() || key_of(launches_[*found]) != key) return nullptr;
    return &launches_[*found];
  }

 private:
  static std::pair<int32_t, int64_t> key_of(const Launch& launch) {
    return {launch.process, launch.correlation};
  }

  const std::vector<int32_t>& process_;  // of each lane
  const std::vector<Launch>& launches_;
  std::vector<uint32_t> order_;
};

/// What `call` does not say, from `other`.
void complete(CollectiveCall& call, const CollectiveCall& other) {
  if (!call.collective) call.collective = other.collective;
  if (call.communicator < 0) call.communicator = other.communicator;
  if (call.sequence < 0) call.sequence = other.sequence;
  if (call.in_elements < 0) {
    call.in_elements = other.in_elements;
    call.element_bytes = other.element_bytes;
  }
  if (call.out_elements < 0) call.out_elements = other.out_elements;
}

/// Operators around collectives, by thread and begin.
class OpIndex {
 public:
  OpIndex(std::vector<CollectiveOp> ops, const std::vector<int32_t>& process)
      : ops_(std::move(ops)) {
    std::ranges::stable_sort(ops_, by_lane_and_begin);
    for (const CollectiveOp& op : ops_)
      if (op.external_id >= 0)
        by_external_id_.try_emplace({process[as_size(op.lane)], op.external_id}, &op);
  }

  bool empty() const { return ops_.empty(); }
  /// The collective that is the innermost operator around a launch.
  const CollectiveOp* around(const Launch& launch) const {
    const auto named = by_external_id_.find({launch.process, launch.external_id});
    return launch.external_id < 0 || named == by_external_id_.end() ? nullptr : named->second;
  }
  /// Of the operator that the launch names, and of those that enclose it on its thread, the
  /// innermost first: each says what the ones before do not.
  CollectiveCall call_of(const Launch& launch) const {
    CollectiveCall call;
    if (const CollectiveOp* const own = around(launch)) complete(call, own->call);
    auto after = std::upper_bound(ops_.begin(), ops_.end(),
                                  CollectiveOp{.lane = launch.lane, .begin = launch.begin},
                                  by_lane_and_begin);
    // Nested operators begin shortly before; profilers record a handful around a collective.
    for (int looked = 0; looked < most_nested && after != ops_.begin(); ++looked) {
      --after;
      if (after->lane != launch.lane) break;
      if (after->end >= launch.begin) complete(call, after->call);
    }
    return call;
  }

 private:
  static constexpr int most_nested = 16;
  static bool by_lane_and_begin(const CollectiveOp& a, const CollectiveOp& b) {
    return std::tuple(a.lane, a.begin) < std::tuple(b.lane, b.begin);
  }

  std::vector<CollectiveOp> ops_;
  std::map<std::pair<int32_t, int64_t>, const CollectiveOp*> by_external_id_;
};

/// The type of the same name with the collective that its launch told.
class TypesWithCollective {
 public:
  explicit TypesWithCollective(run::Timeline& timeline) : timeline_(timeline) {}
  int32_t operator()(int32_t type, spec::Collective collective) {
    const run::SpanType& now = timeline_.types[as_size(type)];
    if (now.kind == SpanKind::communication && now.collective == collective) return type;
    const auto [found, is_new] = known_.try_emplace(std::pair(type, collective), 0);
    if (is_new) {
      run::SpanType changed = timeline_.types[as_size(type)];
      changed.kind = SpanKind::communication;
      changed.stream = run::Stream::communication;
      changed.op_class = spec::OpClass::communication;
      changed.collective = collective;
      found->second = timeline_.intern(changed);
    }
    return found->second;
  }

 private:
  run::Timeline& timeline_;
  std::map<std::pair<int32_t, spec::Collective>, int32_t> known_;
};

/// Spans of collectives in order of their begin.
std::vector<size_t> collectives_in_order(const run::Timeline& timeline) {
  std::vector<size_t> all;
  for (size_t i = 0; i < timeline.spans.size(); ++i)
    if (is_collective(timeline, timeline.spans[i])) all.push_back(i);
  std::ranges::stable_sort(
      all, [&](size_t a, size_t b) { return timeline.spans[a].begin < timeline.spans[b].begin; });
  return all;
}

/// A communicator for the collectives that name none: that of the others on their stream, if it is
/// one; else a new one for each stream, because frameworks give each communicator its own.
void number_communicators(run::Timeline& timeline, const std::vector<size_t>& collectives) {
  constexpr int32_t ambiguous = -2;
  std::map<int32_t, int32_t> of_lane;
  for (const size_t i : collectives) {
    const run::SpanDetail& detail = timeline.details[i];
    if (detail.communicator < 0) continue;
    const auto [found, is_new] = of_lane.try_emplace(detail.lane, detail.communicator);
    if (!is_new && found->second != detail.communicator) found->second = ambiguous;
  }
  std::erase_if(of_lane, [](const auto& entry) { return entry.second == ambiguous; });
  int32_t unnamed = 0;
  for (const size_t i : collectives) {
    run::SpanDetail& detail = timeline.details[i];
    if (detail.communicator >= 0) continue;
    const auto [found, is_new] =
        of_lane.try_emplace(detail.lane, static_cast<int32_t>(timeline.communicators.size()));
    if (is_new) timeline.communicators.push_back({.name = fmt::format("unnamed {}", unnamed++)});
    detail.communicator = found->second;
  }
}

/// Where a communicator's collectives have no sequence numbers, the order of their launches is one.
/// Those launched before the profiler began are not counted: their number differs between ranks,
/// while the profiler begins at the same step on all.
void number_sequences(run::Timeline& timeline, const std::vector<size_t>& collectives,
                      const LaunchIndex& launch_of) {
  struct Count {
    bool has_numbers = false, has_launches = false;
    int64_t next = 0;
  };
  std::vector<Count> counts(timeline.communicators.size());
  const auto launched = [&](const run::SpanDetail& detail) {
    return launch_of.find(detail) != nullptr;
  };
  for (const size_t i : collectives) {
    const run::SpanDetail& detail = timeline.details[i];
    Count& count = counts[as_size(detail.communicator)];
    count.has_numbers = count.has_numbers || detail.sequence >= 0;
    count.has_launches = count.has_launches || launched(detail);
  }
  for (const size_t i : collectives) {
    run::SpanDetail& detail = timeline.details[i];
    Count& count = counts[as_size(detail.communicator)];
    if (!count.has_numbers && (!count.has_launches || launched(detail)))
      detail.sequence = count.next++;
  }
}

/// Groups that only operators without a kernel named, such as a barrier's, are of no use.
void drop_unused_communicators(run::Timeline& timeline) {
  std::vector<int32_t> place(timeline.communicators.size(), -1);
  for (const run::SpanDetail& detail : timeline.details)
    if (detail.communicator >= 0) place[as_size(detail.communicator)] = 0;
  std::vector<run::Communicator> used;
  for (size_t i = 0; i < place.size(); ++i) {
    if (place[i] < 0) continue;
    place[i] = static_cast<int32_t>(used.size());
    used.push_back(std::move(timeline.communicators[i]));
  }
  timeline.communicators = std::move(used);
  for (run::SpanDetail& detail : timeline.details)
    if (detail.communicator >= 0) detail.communicator = place[as_size(detail.communicator)];
}

}  // namespace

void link_collectives(run::Timeline& timeline, std::vector<CollectiveOp> ops,
                      const std::vector<Launch>& launches, const std::vector<int32_t>& process) {
  const LaunchIndex launch_of(launches, process);
  const OpIndex op_of(std::move(ops), process);
  TypesWithCollective type_with(timeline);
  const std::vector<bool> may_be =
      mapped(timeline.types, [](const run::SpanType& type) { return may_be_collective(type); });
  for (size_t i = 0; i < timeline.spans.size() && !op_of.empty(); ++i) {
    run::Span& span = timeline.spans[i];
    if (!may_be[as_size(span.type)]) continue;
    const Launch* const launch = launch_of.find(timeline.details[i]);
    if (launch == nullptr) continue;
    if (is_device_copy(timeline.types[as_size(span.type)])) {
      const CollectiveOp* const own = op_of.around(*launch);
      const int32_t group = own == nullptr ? -1 : own->call.communicator;
      if (group < 0 || timeline.communicators[as_size(group)].size == 1) continue;
    }
    const CollectiveCall call = op_of.call_of(*launch);
    if (call.collective) span.type = type_with(span.type, *call.collective);
  }
  const std::vector<size_t> collectives = collectives_in_order(timeline);
  for (const size_t i : collectives) {
    run::Span& span = timeline.spans[i];
    run::SpanDetail& detail = timeline.details[i];
    const bool said = detail.communicator >= 0 && detail.in_elements >= 0;
    const Launch* const launch = said ? nullptr : launch_of.find(detail);
    if (launch == nullptr) continue;
    CollectiveCall call = op_of.call_of(*launch);
    const auto known = timeline.types[as_size(span.type)].collective;
    if (known) call.collective = known;
    const Bytes copied = span.bytes;
    apply(call, span, detail);
    const std::string& name = timeline.types[as_size(span.type)].name;
    if (name.starts_with("Memcpy") || name.starts_with("Copy")) {
      span.bytes = copied;  // a part of what is gathered
      detail.in_elements = detail.out_elements = -1;
    }
    if (call.collective) span.type = type_with(span.type, *call.collective);
  }
  number_communicators(timeline, collectives);
  number_sequences(timeline, collectives, launch_of);
  drop_unused_communicators(timeline);
}

void link_grids(run::Timeline& timeline, const std::vector<Launch>& launches,
                const std::vector<int32_t>& process) {
  const bool known =
      std::ranges::any_of(launches, [](const Launch& launch) { return launch.blocks >= 0; });
  if (!known) return;
  const LaunchIndex launch_of(launches, process);
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    run::SpanDetail& detail = timeline.details[i];
    const SpanKind kind = timeline.types[as_size(timeline.spans[i].type)].kind;
    if (kind > SpanKind::other || detail.blocks >= 0 || detail.correlation < 0) continue;
    const Launch* const launch = launch_of.find(detail);
    if (launch == nullptr || launch->blocks < 0) continue;
    detail.blocks = launch->blocks;
    if (launch->threads_per_block <= INT32_MAX)
      detail.threads_per_block = static_cast<int32_t>(launch->threads_per_block);
  }
}

}  // namespace triplepoint::trace::kineto
