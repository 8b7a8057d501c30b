// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// One member of what a run consists of, and its name in files. A name never changes its meaning.
template <class Item, class Value>
struct Field {
  const char* name;
  Value Item::*member;

  const Value& of(const Item& item) const { return item.*member; }
  /// `read` sets the member, and says whether that can be.
  bool set(Item& item, const auto& read) const { return read(item.*member); }
};

template <class Item, class Value>
Field(const char*, Value Item::*) -> Field<Item, Value>;

/// Farther from the epoch than 36 years lies nothing; sums of such times do not overflow.
inline constexpr int64_t farthest_nanoseconds = int64_t{1} << 60;

inline bool is_possible(Instant instant) {
  return instant.nanoseconds() > -farthest_nanoseconds &&
         instant.nanoseconds() < farthest_nanoseconds;
}

/// The end of a span, as its length.
struct SpanLength {
  const char* name = "length_ns";

  int64_t of(const Span& span) const { return span.end.nanoseconds() - span.begin.nanoseconds(); }
  bool set(Span& span, const auto& read) const {
    int64_t length = 0;
    if (!read(length) || length < 0 || length >= farthest_nanoseconds) return false;
    span.end = Instant(span.begin.nanoseconds() + length);
    return is_possible(span.end);
  }
};

/// The members of an item: columns of its table or of its chunks, in the order of a journal's
/// record.
template <class Item>
inline constexpr std::nullptr_t fields_of = nullptr;

/// Calls visit(field) for each.
template <class Item, class Visit>
void for_each_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, fields_of<Item>);
}

template <>
inline constexpr std::tuple fields_of<StepRecord>{
    Field{"begin_ns", &StepRecord::begin}, Field{"end_ns", &StepRecord::end},
    Field{"samples", &StepRecord::samples}, Field{"tokens", &StepRecord::tokens}};

template <>
inline constexpr std::tuple fields_of<ClockAnchor>{Field{"node", &ClockAnchor::node},
                                                   Field{"instant_ns", &ClockAnchor::instant},
                                                   Field{"unix_ns", &ClockAnchor::unix_ns}};

/// In a journal without its last one, which has a record to itself.
template <>
inline constexpr std::tuple fields_of<Device>{Field{"number", &Device::index},
                                              Field{"node", &Device::node},
                                              Field{"local", &Device::local},
                                              Field{"slot", &Device::slot},
                                              Field{"rank", &Device::rank},
                                              Field{"name", &Device::name},
                                              Field{"uuid", &Device::uuid},
                                              Field{"pci", &Device::pci},
                                              Field{"power_counted_on", &Device::power_counted_on}};

/// Of a series itself; the journal has the others of a source behind them.
template <>
inline constexpr std::tuple fields_of<SeriesSource>{
    Field{"signal", &SeriesSource::signal},   Field{"device", &SeriesSource::device},
    Field{"of_node", &SeriesSource::of_node}, Field{"scope", &SeriesSource::scope},
    Field{"kind", &SeriesSource::kind},       Field{"sensor", &SeriesSource::sensor},
    Field{"period_s", &SeriesSource::period}, Field{"window_s", &SeriesSource::window}};

template <>
inline constexpr std::tuple fields_of<SpanType>{Field{"name", &SpanType::name},
                                                Field{"kind", &SpanType::kind},
                                                Field{"stream", &SpanType::stream},
                                                Field{"op_class", &SpanType::op_class},
                                                Field{"collective", &SpanType::collective},
                                                Field{"group_kind", &SpanType::group}};

template <>
inline constexpr std::tuple fields_of<Span>{
    Field{"begin_ns", &Span::begin}, SpanLength{},
    Field{"type", &Span::type},      Field{"rank", &Span::rank},
    Field{"stage", &Span::stage},    Field{"microbatch", &Span::microbatch},
    Field{"layer", &Span::layer},    Field{"wait_s", &Span::wait},
    Field{"bytes", &Span::bytes},    Field{"flops", &Span::flops}};

template <>
inline constexpr std::tuple fields_of<PatternInstance>{
    Field{"begin_ns", &PatternInstance::begin}, Field{"pattern", &PatternInstance::pattern},
    Field{"rank", &PatternInstance::rank}, Field{"stage", &PatternInstance::stage},
    Field{"microbatch", &PatternInstance::microbatch}};

template <>
inline constexpr std::tuple fields_of<Lane>{
    Field{"rank", &Lane::rank}, Field{"stream", &Lane::stream}, Field{"number", &Lane::number},
    Field{"name", &Lane::name}};

template <>
inline constexpr std::tuple fields_of<Communicator>{
    Field{"name", &Communicator::name}, Field{"size", &Communicator::size},
    Field{"message_end", &Communicator::end}, Field{"peer", &Communicator::peer}};

template <>
inline constexpr std::tuple fields_of<SpanDetail>{
    Field{"lane", &SpanDetail::lane},
    Field{"communicator", &SpanDetail::communicator},
    Field{"sequence", &SpanDetail::sequence},
    Field{"correlation", &SpanDetail::correlation},
    Field{"blocks", &SpanDetail::blocks},
    Field{"threads_per_block", &SpanDetail::threads_per_block},
    Field{"in_elements", &SpanDetail::in_elements},
    Field{"out_elements", &SpanDetail::out_elements},
    Field{"occupancy", &SpanDetail::occupancy}};

template <>
inline constexpr std::tuple fields_of<MemoryUse>{
    Field{"weights_b", &MemoryUse::weights},     Field{"gradients_b", &MemoryUse::gradients},
    Field{"optimizer_b", &MemoryUse::optimizer}, Field{"activations_b", &MemoryUse::activations},
    Field{"logits_b", &MemoryUse::logits},       Field{"buffers_b", &MemoryUse::buffers},
    Field{"reserve_b", &MemoryUse::reserve}};

/// Without its lists.
template <>
inline constexpr std::tuple fields_of<DeviceSummary>{
    Field{"power_mean_w", &DeviceSummary::power_mean_w},
    Field{"power_peak_w", &DeviceSummary::power_peak_w},
    Field{"power_kernel_peak_w", &DeviceSummary::power_kernel_peak_w},
    Field{"energy_j", &DeviceSummary::energy_j},
    Field{"die_mean_c", &DeviceSummary::die_mean_c},
    Field{"die_peak_c", &DeviceSummary::die_peak_c},
    Field{"sm_clock_mean_mhz", &DeviceSummary::sm_clock_mean_mhz},
    Field{"sm_clock_min_mhz", &DeviceSummary::sm_clock_min_mhz},
    Field{"scale_up_b", &DeviceSummary::scale_up_bytes},
    Field{"scale_out_b", &DeviceSummary::scale_out_bytes}};

/// How many enumerators an enum has, which count from 0.
template <class Enum>
inline constexpr int64_t count_of = 0;
template <>
inline constexpr int64_t count_of<Scope> = 9;
template <>
inline constexpr int64_t count_of<ReadingKind> = 4;
template <>
inline constexpr int64_t count_of<SpanKind> = span_kind_count;
template <>
inline constexpr int64_t count_of<Stream> = 3;
template <>
inline constexpr int64_t count_of<MessageEnd> = 3;
template <>
inline constexpr int64_t count_of<spec::OpClass> = spec::op_class_count;
template <>
inline constexpr int64_t count_of<spec::Collective> = spec::collective_count;
template <>
inline constexpr int64_t count_of<spec::GroupKind> = spec::group_kind_count;

/// Numbers with a unit.
template <class Value>
concept IsQuantity = requires(const Value& value) {
  value.in_base_units();
};
/// What is kept as a double; texts apart, all else is kept as an integer.
template <class Value>
concept IsReal = std::is_floating_point_v<Value> || IsQuantity<Value>;

template <class Value>
int64_t integer_of(const Value& value) {
  if constexpr (std::is_same_v<Value, Instant>)
    return value.nanoseconds();
  else
    return static_cast<int64_t>(value);
}
template <IsReal Value>
double real_of(const Value& value) {
  if constexpr (IsQuantity<Value>)
    return value.in_base_units();
  else
    return double{value};
}

/// False if the number is none that a file of ours holds there.
template <class Value>
requires(!IsReal<Value>) bool set_number(Value& target, int64_t number) {
  if constexpr (std::is_same_v<Value, Instant>) {
    target = Instant(number);
    return is_possible(target);
  } else if constexpr (std::is_same_v<Value, bool>) {
    target = number != 0;
    return true;
  } else {
    target = static_cast<Value>(number);
    if constexpr (std::is_enum_v<Value>) return number >= 0 && number < count_of<Value>;
    return static_cast<int64_t>(target) == number;
  }
}
template <IsReal Value>
bool set_number(Value& target, double number) {
  target = static_cast<Value>(number);
  return true;
}

}  // namespace triplepoint::run
