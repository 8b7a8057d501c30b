// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/report/perfetto.h"

#include <bit>

#include <fmt/format.h>

namespace triplepoint::report {
namespace {

// ---- protobuf, the little of it that is needed

/// A message under construction. Source: protobuf.dev, "Encoding".
class Message {
 public:
  Message& number(uint32_t field, uint64_t value) {
    varint(field << 3U);
    varint(value);
    return *this;
  }
  Message& real(uint32_t field, double value) {
    varint(field << 3U | 1U);
    auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8U)
      bytes_ += static_cast<char>(bits & 0xFFU);
    return *this;
  }
  Message& text(uint32_t field, std::string_view value) {
    varint(field << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(uint32_t field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80U; value >>= 7U)
      bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

// Field numbers of Perfetto's messages.
namespace packet {
constexpr uint32_t timestamp = 8, sequence = 10, track_event = 11, interned_data = 12,
                   sequence_flags = 13, track_descriptor = 60;
}
namespace event {
constexpr uint32_t type = 9, name_iid = 10, track = 11, double_counter = 44, annotation = 4;
constexpr uint64_t begin = 1, end = 2, counter = 4;
}  // namespace event
namespace descriptor {
constexpr uint32_t uuid = 1, name = 2, process = 3, thread = 4, parent = 5, counter = 8;
}
constexpr uint64_t sequence_id = 1;
constexpr uint64_t state_cleared = 1, needs_state = 2;

// Identifiers of tracks: a rank's process, its streams, its counters.
uint64_t process_track(int32_t rank) {
  return 1000ULL + static_cast<uint64_t>(rank) * 100;
}
uint64_t stream_track(int32_t rank, run::Stream stream) {
  return process_track(rank) + 1 + static_cast<uint64_t>(stream);
}
uint64_t counter_track(int32_t device, std::size_t signal) {
  return process_track(device) + 10 + signal;
}

constexpr const char* counters[] = {"power_w", "power_instant_w", "die_c", "memory_c",
                                    "sm_clock_mhz"};

class Writer {
 public:
  void add(const Message& body, uint32_t field, uint64_t nanoseconds) {
    Message message;
    message.number(packet::timestamp, nanoseconds)
        .number(packet::sequence, sequence_id)
        .number(packet::sequence_flags, needs_state)
        .message(field, body);
    trace_.message(1, message);
  }
  void describe(const Message& descriptor) {
    Message message;
    message.number(packet::sequence, sequence_id).message(packet::track_descriptor, descriptor);
    trace_.message(1, message);
  }
  /// Names are sent once and then meant by number, counted from 1.
  void intern(const std::vector<run::SpanType>& types) {
    Message interned;
    for (std::size_t i = 0; i < types.size(); ++i)
      interned.message(2, Message().number(1, i + 1).text(2, types[i].name));
    Message message;
    message.number(packet::sequence, sequence_id)
        .number(packet::sequence_flags, state_cleared | needs_state)
        .message(packet::interned_data, interned);
    trace_.message(1, message);
  }
  std::string take() const { return trace_.bytes(); }

 private:
  Message trace_;
};

const char* name_of(run::Stream stream) {
  return stream == run::Stream::compute         ? "compute"
         : stream == run::Stream::communication ? "communication"
                                                : "host";
}

void describe_rank(Writer& writer, int32_t rank) {
  Message process;
  process.number(1, static_cast<uint64_t>(rank) + 1).text(6, fmt::format("rank {}", rank));
  writer.describe(Message()
                      .number(descriptor::uuid, process_track(rank))
                      .message(descriptor::process, process));
  for (run::Stream stream : {run::Stream::compute, run::Stream::communication, run::Stream::host}) {
    Message thread;
    thread.number(1, static_cast<uint64_t>(rank) + 1)
        .number(2, static_cast<uint64_t>(rank) * 10 + static_cast<uint64_t>(stream) + 1)
        .text(5, name_of(stream));
    writer.describe(Message()
                        .number(descriptor::uuid, stream_track(rank, stream))
                        .number(descriptor::parent, process_track(rank))
                        .message(descriptor::thread, thread));
  }
}

Message annotation(const char* name, double value) {
  return Message().text(10, name).real(5, value);
}

void add_span(Writer& writer, const run::Timeline& timeline, const run::Span& span) {
  const uint64_t track =
      stream_track(span.rank, timeline.types[static_cast<std::size_t>(span.type)].stream);
  Message begin;
  begin.number(event::type, event::begin)
      .number(event::track, track)
      .number(event::name_iid, static_cast<uint64_t>(span.type) + 1);
  if (span.stage >= 0) begin.message(event::annotation, annotation("stage", span.stage));
  if (span.microbatch >= 0)
    begin.message(event::annotation, annotation("microbatch", span.microbatch));
  if (span.layer >= 0) begin.message(event::annotation, annotation("layer", span.layer));
  if (span.bytes > Bytes())
    begin.message(event::annotation, annotation("bytes", span.bytes / unit::B));
  if (span.wait > Seconds())
    begin.message(event::annotation, annotation("wait_us", span.wait / unit::us));
  writer.add(begin, packet::track_event, static_cast<uint64_t>(span.begin.nanoseconds()));
  writer.add(Message().number(event::type, event::end).number(event::track, track),
             packet::track_event, static_cast<uint64_t>(span.end.nanoseconds()));
}

void add_series(Writer& writer, const run::Series& series, std::size_t signal) {
  const uint64_t track = counter_track(series.device, signal);
  writer.describe(Message()
                      .number(descriptor::uuid, track)
                      .number(descriptor::parent, process_track(series.device))
                      .text(descriptor::name, series.signal)
                      .message(descriptor::counter, Message()));
  for (std::size_t i = 0; i < series.times.size(); ++i) {
    if (series.times[i] < Instant()) continue;
    writer.add(Message()
                   .number(event::type, event::counter)
                   .number(event::track, track)
                   .real(event::double_counter, series.values[i]),
               packet::track_event, static_cast<uint64_t>(series.times[i].nanoseconds()));
  }
}

}  // namespace

std::string perfetto_trace(const run::Run& run) {
  Writer writer;
  writer.intern(run.timeline.types);
  for (int32_t rank = 0; rank < run.timeline.num_ranks; ++rank)
    describe_rank(writer, rank);
  run::for_each_span(run.timeline, -1, [&](const run::Span& span) {
    if (span.begin >= Instant()) add_span(writer, run.timeline, span);
  });
  for (const run::Series& series : run.series) {
    for (std::size_t i = 0; i < std::size(counters); ++i)
      if (series.signal == counters[i] && !series.of_node) add_series(writer, series, i);
  }
  return writer.take();
}

}  // namespace triplepoint::report
