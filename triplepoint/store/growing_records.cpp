// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/growing_records.h"

#include <algorithm>
#include <cmath>

namespace triplepoint::run {

namespace {

constexpr uint64_t most_series = 1U << 20U, most_devices = 1U << 20U, most_hosts = 1U << 16U;
constexpr int32_t most_ranks = 1 << 20;

/// Calls visit(field) for those from the `first` on, before `end`.
template <class Item, class Visit>
void for_fields(size_t first, size_t end, const Visit& visit) {
  size_t number = 0;
  for_each_field<Item>([&](const auto& field) {
    if (number >= first && number < end) visit(field);
    ++number;
  });
}

constexpr size_t to_the_end = SIZE_MAX;
// Members of a device that its record has, and of a source those that its series has as well.
constexpr size_t fields_of_device = 8, fields_of_series = 3;

template <class Item>
void put_fields(ByteWriter& out, const Item& item, size_t first = 0, size_t end = to_the_end) {
  for_fields<Item>(first, end, [&](const auto& field) { out.put(field.of(item)); });
}
template <class Item>
void get_fields(ByteReader& in, Item& item, size_t first = 0, size_t end = to_the_end) {
  for_fields<Item>(first, end, [&](const auto& field) {
    const auto get = [&](auto& target) {
      in.get(target);
      return in.is_good();
    };
    if (!in.is_good() || !field.set(item, get)) in.fail();
  });
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
  put_fields(out_, anchor);
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

void RecordWriter::core_wait(int32_t rank, Seconds wait) {
  kind(RecordKind::core_wait);
  out_.put(rank);
  out_.put(wait);
}

void RecordWriter::add(size_t position, const Device& device) {
  kind(RecordKind::device);
  out_.count(position);
  put_fields(out_, device, 0, fields_of_device);
  if (!device.power_counted_on) return;
  kind(RecordKind::package);
  out_.count(position);
  out_.put(*device.power_counted_on);
}

void RecordWriter::add(const Series& without_values, const SeriesSource* source) {
  kind(RecordKind::series);
  out_.put(without_values.signal);
  out_.put(without_values.device);
  out_.put(without_values.of_node);
  out_.put(source != nullptr);
  if (source != nullptr) put_fields(out_, *source, fields_of_series);
}

void RecordWriter::add(const SpanType& type) {
  kind(RecordKind::span_type);
  put_fields(out_, type);
}

void RecordWriter::add(const Span& span) {
  kind(RecordKind::span);
  put_fields(out_, span);
}

void RecordWriter::add(const StepRecord& step) {
  kind(RecordKind::step);
  put_fields(out_, step);
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
  for (const auto& statistic : {values.minimum, values.maximum, values.sum})
    out_.put(statistic);
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
    case RecordKind::core_wait:
      read_manifest_record(kind, in);
      break;
    case RecordKind::number:
      read_number(in);
      break;
    case RecordKind::device:
    case RecordKind::package:
      read_device(kind, in);
      break;
    case RecordKind::series:
      read_series(in);
      break;
    case RecordKind::span_type: {
      SpanType type;
      get_fields(in, type);
      if (in.is_good()) head_.timeline.types.push_back(std::move(type));
      break;
    }
    case RecordKind::span:
      read_span(in, visitor);
      break;
    case RecordKind::step: {
      StepRecord step;
      get_fields(in, step);
      if (in.is_good()) visitor.take(step);
      break;
    }
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
    get_fields(in, manifest.anchors.emplace_back());
  } else if (kind == RecordKind::note) {
    manifest.notes.emplace_back(in.text());
  } else if (kind == RecordKind::core_wait) {
    int32_t rank = 0;
    in.get(rank);
    in.get(head_.core_waits[rank]);
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

void RecordReader::read_device(RecordKind kind, ByteReader& in) {
  const uint64_t position = in.below(most_devices);
  if (position > head_.devices.size()) in.fail();
  Device device;
  if (kind == RecordKind::device)
    get_fields(in, device, 0, fields_of_device);
  else
    in.get(device.power_counted_on.emplace());
  if (!in.is_good()) return;
  if (position == head_.devices.size()) head_.devices.emplace_back();
  if (kind == RecordKind::package)
    head_.devices[position].power_counted_on = device.power_counted_on;
  else
    head_.devices[position] = std::move(device);
}

void RecordReader::read_series(ByteReader& in) {
  SeriesSource source;
  get_fields(in, source, 0, fields_of_series);
  const bool has_source = in.count() != 0;
  if (has_source) get_fields(in, source, fields_of_series);
  if (head_.series.size() >= most_series) in.fail();
  if (!in.is_good()) return;
  head_.series.push_back(
      {.signal = source.signal, .device = source.device, .of_node = source.of_node});
  if (has_source) head_.sources.push_back(std::move(source));
}

void RecordReader::read_span(ByteReader& in, RecordVisitor& visitor) {
  Span span;
  get_fields(in, span);
  const auto types = static_cast<int64_t>(head_.timeline.types.size());
  if (span.type < 0 || span.type >= types || span.rank < 0 || span.rank >= most_ranks) in.fail();
  if (!in.is_good()) return;
  head_.timeline.num_ranks = std::max(head_.timeline.num_ranks, span.rank + 1);
  visitor.take(span);
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
    if (!std::ranges::is_sorted(times_) || std::ranges::any_of(times_, [](int64_t t) {
          return std::abs(t / 2) >= farthest_nanoseconds / 2;
        }))
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
    for (std::optional<double>* statistic : {&chunk.minimum, &chunk.maximum, &chunk.sum})
      in.get(*statistic);
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
