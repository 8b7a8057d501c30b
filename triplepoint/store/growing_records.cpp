// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/growing_records.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {

namespace {

constexpr uint64_t most_series = 1U << 20U, most_devices = 1U << 20U, most_hosts = 1U << 16U;
constexpr int32_t most_ranks = 1 << 20;

std::optional<double> in_seconds(const std::optional<Seconds>& time) {
  if (!time) return std::nullopt;
  return *time / unit::s;
}
std::optional<Seconds> as_seconds(const std::optional<double>& number) {
  if (!number) return std::nullopt;
  return *number * unit::s;
}

/// A time that a run can have.
Instant read_instant(ByteReader& in) {
  Instant instant;
  if (!set_instant(instant, in.integer())) in.fail();
  return instant;
}

template <class Enum>
std::optional<Enum> read_enum_or_nothing(ByteReader& in, int count) {
  const uint64_t code = in.below(static_cast<uint64_t>(count) + 1);
  if (code == 0) return std::nullopt;
  return static_cast<Enum>(code - 1);
}
template <class Enum>
uint64_t code_of(const std::optional<Enum>& value) {
  return value ? static_cast<uint64_t>(*value) + 1 : 0;
}

}  // namespace

void RecordWriter::begin(const Manifest& manifest) {
  kind(RecordKind::begin);
  out_.count(static_cast<uint64_t>(manifest.origin));
  out_.count(static_cast<uint64_t>(manifest.fidelity));
  out_.text(manifest.name);
  out_.text(manifest.producer);
  out_.count(manifest.epoch_unix_ns ? 1 : 0);
  out_.integer(manifest.epoch_unix_ns.value_or(0));
}

void RecordWriter::host(int32_t node, std::string_view name) {
  kind(RecordKind::host);
  out_.count(static_cast<uint64_t>(node));
  out_.text(name);
}

void RecordWriter::add(const ClockAnchor& anchor) {
  kind(RecordKind::anchor);
  out_.integer(int64_t{anchor.node});
  out_.integer(anchor.instant.nanoseconds());
  out_.integer(anchor.unix_ns);
}

void RecordWriter::note(std::string_view text) {
  kind(RecordKind::note);
  out_.text(text);
}

void RecordWriter::fact(std::string_view key, std::string_view value) {
  kind(RecordKind::fact);
  out_.text(key);
  out_.text(value);
}

void RecordWriter::number(std::string_view key, std::optional<int64_t> whole,
                          std::optional<double> real) {
  kind(RecordKind::number);
  out_.text(key);
  out_.count(whole ? 1 : 0);
  if (whole)
    out_.integer(*whole);
  else
    out_.real(real.value_or(0));
}

void RecordWriter::add(size_t position, const Device& device) {
  kind(RecordKind::device);
  out_.count(position);
  for (int32_t number : {device.index, device.node, device.local, device.slot})
    out_.integer(int64_t{number});
  out_.integer(device.rank);
  for (const std::string& text : {device.name, device.uuid, device.pci})
    out_.text(text);
}

void RecordWriter::add(const Series& without_values, const SeriesSource* source) {
  kind(RecordKind::series);
  out_.text(without_values.signal);
  out_.integer(int64_t{without_values.device});
  out_.count(without_values.of_node ? 1 : 0);
  out_.count(source != nullptr ? 1 : 0);
  if (source == nullptr) return;
  out_.count(static_cast<uint64_t>(source->scope));
  out_.count(static_cast<uint64_t>(source->kind));
  out_.text(source->sensor);
  out_.real(in_seconds(source->period));
  out_.real(in_seconds(source->window));
}

void RecordWriter::add(const SpanType& type) {
  kind(RecordKind::span_type);
  out_.text(type.name);
  out_.count(static_cast<uint64_t>(type.kind));
  out_.count(static_cast<uint64_t>(type.stream));
  out_.count(static_cast<uint64_t>(type.op_class));
  out_.count(code_of(type.collective));
  out_.count(code_of(type.group));
}

void RecordWriter::add(const Span& span) {
  kind(RecordKind::span);
  out_.integer(span.begin.nanoseconds());
  out_.integer(span.end.nanoseconds() - span.begin.nanoseconds());
  for (int32_t number : {span.type, span.rank, span.stage, span.microbatch, span.layer})
    out_.integer(int64_t{number});
  out_.real(span.wait.in_base_units());
  out_.real(span.bytes.in_base_units());
  out_.real(span.flops.in_base_units());
}

void RecordWriter::add(const StepRecord& step) {
  kind(RecordKind::step);
  out_.integer(step.begin.nanoseconds());
  out_.integer(step.end.nanoseconds());
  out_.integer(step.samples);
  out_.integer(step.tokens);
}

void RecordWriter::add(const Values& all) {
  kind(RecordKind::values);
  out_.count(all.series);
  out_.count(all.count);
  const bool same =
      std::equal(all.times, all.times + all.count, last_times_.begin(), last_times_.end());
  out_.count(same ? 1 : 0);
  if (!same) {
    last_times_.assign(all.times, all.times + all.count);
    int64_t last = 0;
    for (size_t i = 0; i < all.count; ++i) {
      out_.integer(all.times[i] - last);
      last = all.times[i];
    }
  }
  for (size_t i = 0; i < all.count; ++i)
    out_.real(all.values[i]);
}

void RecordWriter::encoded(const Chunk& chunk) {
  out_.count(static_cast<uint64_t>(chunk.count));
  out_.count(static_cast<uint64_t>(chunk.codec));
  out_.count(static_cast<uint64_t>(chunk.decimals));
  out_.text(chunk.data);
}

void RecordWriter::axis(const Chunk& times) {
  kind(RecordKind::axis);
  encoded(times);
}

void RecordWriter::chunk(uint64_t series, uint64_t axis, const Chunk& values) {
  kind(RecordKind::chunk);
  out_.count(series);
  out_.count(axis);
  out_.real(values.minimum);
  out_.real(values.maximum);
  out_.real(values.sum);
  encoded(values);
}

bool RecordReader::read(std::string_view block, RecordVisitor& visitor) {
  ByteReader in(block);
  axes_ = 0;
  times_.clear();
  while (!in.at_end())
    if (!read_record(in, visitor)) return false;
  return in.is_good();
}

bool RecordReader::read_record(ByteReader& in, RecordVisitor& visitor) {
  const auto kind = static_cast<RecordKind>(in.below(256));
  switch (kind) {
    case RecordKind::begin:
    case RecordKind::host:
    case RecordKind::anchor:
    case RecordKind::note:
    case RecordKind::fact:
      read_manifest_record(kind, in);
      break;
    case RecordKind::number:
      read_number(in);
      break;
    case RecordKind::device:
      read_device(in);
      break;
    case RecordKind::series:
      read_series(in);
      break;
    case RecordKind::span_type:
      read_span_type(in);
      break;
    case RecordKind::span:
      read_span(in, visitor);
      break;
    case RecordKind::step:
      read_step(in, visitor);
      break;
    case RecordKind::values:
      read_values(in, visitor);
      break;
    case RecordKind::axis:
    case RecordKind::chunk:
      read_chunk(kind, in, visitor);
      break;
    default:
      in.fail();
  }
  return in.is_good();
}

void RecordReader::read_manifest_record(RecordKind kind, ByteReader& in) {
  Manifest& manifest = head_.manifest;
  if (kind == RecordKind::begin) {
    manifest.origin = static_cast<Origin>(in.below(3));
    manifest.fidelity = static_cast<Fidelity>(in.below(4));
    manifest.name = in.text();
    manifest.producer = in.text();
    const bool has_epoch = in.count() != 0;
    const int64_t epoch = in.integer();
    if (has_epoch) manifest.epoch_unix_ns = epoch;
  } else if (kind == RecordKind::host) {
    const uint64_t node = in.below(most_hosts);
    const std::string_view name = in.text();
    if (!in.is_good()) return;
    manifest.hosts.resize(std::max<size_t>(manifest.hosts.size(), node + 1));
    manifest.hosts[node] = name;
  } else if (kind == RecordKind::anchor) {
    const int32_t node = in.narrow();
    const Instant instant = read_instant(in);
    manifest.anchors.push_back({.node = node, .instant = instant, .unix_ns = in.integer()});
  } else if (kind == RecordKind::note) {
    manifest.notes.emplace_back(in.text());
  } else {
    const std::string key(in.text());
    manifest.facts[key] = in.text();
  }
}

void RecordReader::read_number(ByteReader& in) {
  const std::string key(in.text());
  const bool is_whole = in.count() != 0;
  const int64_t whole = is_whole ? in.integer() : 0;
  const double real = is_whole ? 0 : in.real();
  if (!in.is_good()) return;
  visit_numbers(head_.numbers, [&]<class Number>(const char* name, std::optional<Number>& number) {
    if (key != name || is_whole != std::is_integral_v<Number>) return;
    if constexpr (std::is_integral_v<Number>)
      number = whole;
    else
      number = real;
  });
}

void RecordReader::read_device(ByteReader& in) {
  const uint64_t position = in.below(most_devices);
  Device device;
  for (int32_t* number : {&device.index, &device.node, &device.local, &device.slot})
    *number = in.narrow();
  device.rank = in.narrow_or_nothing();
  for (std::string* text : {&device.name, &device.uuid, &device.pci})
    *text = in.text();
  if (position > head_.devices.size()) in.fail();
  if (!in.is_good()) return;
  if (position == head_.devices.size()) head_.devices.emplace_back();
  head_.devices[position] = std::move(device);
}

void RecordReader::read_series(ByteReader& in) {
  Series series{.signal = std::string(in.text()), .device = in.narrow()};
  series.of_node = in.count() != 0;
  if (in.count() != 0) {
    SeriesSource source{
        .signal = series.signal, .device = series.device, .of_node = series.of_node};
    source.scope = static_cast<Scope>(in.below(9));
    source.kind = static_cast<ReadingKind>(in.below(4));
    source.sensor = in.text();
    source.period = as_seconds(in.real_or_nothing());
    source.window = as_seconds(in.real_or_nothing());
    if (in.is_good()) head_.sources.push_back(std::move(source));
  }
  if (head_.series.size() >= most_series) in.fail();
  if (in.is_good()) head_.series.push_back(std::move(series));
}

void RecordReader::read_span_type(ByteReader& in) {
  SpanType type{.name = std::string(in.text())};
  type.kind = static_cast<SpanKind>(in.below(span_kind_count));
  type.stream = static_cast<Stream>(in.below(3));
  type.op_class = static_cast<spec::OpClass>(in.below(spec::op_class_count));
  type.collective = read_enum_or_nothing<spec::Collective>(in, spec::collective_count);
  type.group = read_enum_or_nothing<spec::GroupKind>(in, spec::group_kind_count);
  if (in.is_good()) head_.timeline.types.push_back(std::move(type));
}

void RecordReader::read_span(ByteReader& in, RecordVisitor& visitor) {
  Span span{.begin = read_instant(in)};
  const int64_t length = in.integer();
  if (length < 0 || length >= farthest_nanoseconds ||
      !set_instant(span.end, span.begin.nanoseconds() + length))
    in.fail();
  for (int32_t* number : {&span.type, &span.rank, &span.stage, &span.microbatch, &span.layer})
    *number = in.narrow();
  span.wait = Seconds(in.real());
  span.bytes = Bytes(in.real());
  span.flops = Flops(in.real());
  const auto types = static_cast<int64_t>(head_.timeline.types.size());
  if (span.type < 0 || span.type >= types || span.rank < 0 || span.rank >= most_ranks) in.fail();
  if (!in.is_good()) return;
  head_.timeline.num_ranks = std::max(head_.timeline.num_ranks, span.rank + 1);
  visitor.take(span);
}

void RecordReader::read_step(ByteReader& in, RecordVisitor& visitor) {
  StepRecord step{.begin = read_instant(in), .end = read_instant(in)};
  step.samples = in.integer();
  step.tokens = in.integer();
  if (in.is_good()) visitor.take(step);
}

void RecordReader::read_values(ByteReader& in, RecordVisitor& visitor) {
  const uint64_t series = in.below(std::max<uint64_t>(1, head_.series.size()));
  const uint64_t count = in.below(in.bytes_left() / 8 + 1);
  const bool same_times = in.count() != 0;
  if (same_times && count != times_.size()) in.fail();
  if (!same_times) {
    times_.clear();
    uint64_t time = 0;  // wraps where the bytes are nonsense
    for (uint64_t i = 0; i < count && in.is_good(); ++i)
      times_.push_back(static_cast<int64_t>(time += static_cast<uint64_t>(in.integer())));
    // Sums of what any bytes say may lie anywhere.
    if (!std::is_sorted(times_.begin(), times_.end()) ||
        std::any_of(times_.begin(), times_.end(),
                    [](int64_t t) { return std::abs(t / 2) >= farthest_nanoseconds / 2; }))
      in.fail();
  }
  values_.clear();
  for (uint64_t i = 0; i < count && in.is_good(); ++i)
    values_.push_back(in.real());
  if (series >= head_.series.size()) in.fail();
  if (in.is_good()) visitor.values(series, times_, values_);
}

void RecordReader::read_chunk(RecordKind kind, ByteReader& in, RecordVisitor& visitor) {
  Chunk chunk;
  uint64_t series = 0, axis = 0;
  if (kind == RecordKind::chunk) {
    series = in.count();
    axis = in.count();
    chunk.minimum = in.real_or_nothing();
    chunk.maximum = in.real_or_nothing();
    chunk.sum = in.real_or_nothing();
  }
  chunk.count = static_cast<int64_t>(in.below(most_values_per_chunk + 1));
  chunk.codec = static_cast<ChunkCodec>(in.below(256));
  chunk.decimals = static_cast<int>(in.below(10));
  chunk.data = in.text();
  if (kind == RecordKind::chunk && (series >= head_.series.size() || axis >= axes_)) in.fail();
  if (!in.is_good()) return;
  if (kind == RecordKind::axis) {
    ++axes_;
    visitor.axis(chunk);
  } else {
    visitor.chunk(series, axis, chunk);
  }
}

}  // namespace triplepoint::run
