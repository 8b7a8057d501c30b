// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/perfetto.h"

#include <array>
#include <map>
#include <string_view>

#include "triplepoint/run/protobuf_writer.h"
#include "triplepoint/run/trace_tracks.h"

namespace triplepoint::run {

namespace {

// Field numbers, as in Perfetto's .proto files.
namespace trace {
constexpr uint32_t packet = 1;
}
namespace packet {
constexpr uint32_t timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12,
                   sequence_flags = 13, track_descriptor = 60;
}
namespace descriptor {
constexpr uint32_t uuid = 1, name = 2, process = 3, parent_uuid = 5, counter = 8;
constexpr uint32_t process_pid = 1, process_name = 6, counter_unit_name = 6;
}  // namespace descriptor
namespace event {
constexpr uint32_t debug_annotation = 4, type = 9, name_iid = 10, track_uuid = 11,
                   double_counter_value = 44;
constexpr uint64_t slice_begin = 1, slice_end = 2, counter = 4;
}  // namespace event
namespace interned {
constexpr uint32_t event_names = 2, annotation_names = 3, iid = 1, name = 2;
}
namespace annotation {
constexpr uint32_t name_iid = 1, int_value = 4, double_value = 5;
}

constexpr uint64_t sequence = 1;
constexpr uint64_t state_cleared = 1, needs_state = 2;

constexpr std::array<std::string_view, 6> argument_names = {"stage", "microbatch", "layer",
                                                            "bytes", "flops",      "wait_us"};

/// Numbers of tracks: a process has its low bits zero, its tracks and counters follow.
uint64_t process_track(uint64_t process) {
  return (process + 1) << 20U;
}

class TraceWriter {
 public:
  TraceWriter(const Run& run, TraceDetail detail) : run_(run), tracks_(run, detail) {}

  std::string write() {
    write_interned_names();
    for (int32_t rank = 0; rank < run_.timeline.num_ranks; ++rank)
      write_rank(rank);
    for (const Series& series : run_.series)
      write_counter(series);
    return std::move(bytes_);
  }

 private:
  void add(const ProtobufWriter& packet_content) {
    bytes_ += ProtobufWriter().message(trace::packet, packet_content).bytes();
  }

  void write_interned_names() {
    ProtobufWriter names;
    for (int32_t i = 0; i < tracks_.num_slice_names(); ++i)
      names.message(interned::event_names, ProtobufWriter()
                                               .integer(interned::iid, iid_of(i))
                                               .text(interned::name, tracks_.slice_name(i)));
    for (size_t i = 0; i < argument_names.size(); ++i)
      names.message(
          interned::annotation_names,
          ProtobufWriter().integer(interned::iid, i + 1).text(interned::name, argument_names[i]));
    add(ProtobufWriter()
            .integer(packet::sequence_id, sequence)
            .integer(packet::sequence_flags, state_cleared)
            .message(packet::interned_data, names));
  }
  static uint64_t iid_of(int32_t type) { return static_cast<uint64_t>(type) + 1; }

  void describe(uint64_t uuid, const ProtobufWriter& rest) {
    ProtobufWriter track = rest;
    track.integer(descriptor::uuid, uuid);
    add(ProtobufWriter()
            .integer(packet::sequence_id, sequence)
            .message(packet::track_descriptor, track));
  }

  void describe_process(uint64_t process, std::string_view name) {
    describe(process_track(process),
             ProtobufWriter().message(descriptor::process,
                                      ProtobufWriter()
                                          .integer(descriptor::process_pid, process + 1)
                                          .text(descriptor::process_name, name)));
  }

  void write_rank(int32_t rank) {
    const std::vector<TraceSlice> slices = tracks_.slices_of(rank);
    const auto process = static_cast<uint64_t>(rank);
    describe_process(process, tracks_.rank_name(rank));
    int32_t described = -1;
    for (const TraceSlice& slice : slices) {
      const uint64_t uuid = process_track(process) + static_cast<uint64_t>(slice.track) + 1;
      if (slice.track != described)
        describe(uuid, ProtobufWriter()
                           .text(descriptor::name, tracks_.track_name(rank, slice.track))
                           .integer(descriptor::parent_uuid, process_track(process)));
      described = slice.track;
      write_slice(uuid, slice.span);
    }
  }

  void write_slice(uint64_t track, const Span& span) {
    ProtobufWriter begin;
    begin.integer(event::type, event::slice_begin)
        .integer(event::track_uuid, track)
        .integer(event::name_iid, iid_of(span.type));
    add_arguments(begin, span);
    add_event(span.begin, begin);
    add_event(
        span.end,
        ProtobufWriter().integer(event::type, event::slice_end).integer(event::track_uuid, track));
  }

  static void add_arguments(ProtobufWriter& begin, const Span& span) {
    const std::array<double, 6> values = {
        static_cast<double>(span.stage), static_cast<double>(span.microbatch),
        static_cast<double>(span.layer), span.bytes / unit::B,
        span.flops / unit::FLOP,         span.wait / unit::us};
    for (size_t i = 0; i < values.size(); ++i) {
      const bool is_index = i < 3;  // stage, microbatch, layer: -1 does not apply
      if (is_index ? values[i] < 0 : values[i] <= 0) continue;
      ProtobufWriter argument;
      argument.integer(annotation::name_iid, i + 1);
      if (is_index)
        argument.integer(annotation::int_value, static_cast<uint64_t>(values[i]));
      else
        argument.real(annotation::double_value, values[i]);
      begin.message(event::debug_annotation, argument);
    }
  }

  void add_event(Instant when, const ProtobufWriter& track_event) {
    add(ProtobufWriter()
            .integer(packet::timestamp, tracks_.since_first(when))
            .integer(packet::sequence_id, sequence)
            .integer(packet::sequence_flags, needs_state)
            .message(packet::track_event, track_event));
  }

  /// The process a counter stands under: its rank's, or a separate one.
  uint64_t process_of(const TraceCounter& counter) {
    if (counter.rank && *counter.rank >= 0 && *counter.rank < run_.timeline.num_ranks)
      return static_cast<uint64_t>(*counter.rank);
    const auto next = static_cast<uint64_t>(run_.timeline.num_ranks) + owners_.size();
    const auto [found, is_new] = owners_.emplace(counter.owner, next);
    if (is_new) describe_process(next, counter.owner);
    return found->second;
  }

  void write_counter(const Series& series) {
    constexpr uint64_t first_counter = 1U << 19U;  // of a process, behind its streams
    const TraceCounter counter = describe_counter(run_, series);
    const uint64_t process = process_track(process_of(counter));
    const uint64_t uuid = process + first_counter + counters_++ % first_counter;
    const ProtobufWriter unit = ProtobufWriter().text(descriptor::counter_unit_name, counter.unit);
    describe(uuid, ProtobufWriter()
                       .text(descriptor::name, counter.name)
                       .integer(descriptor::parent_uuid, process)
                       .message(descriptor::counter, unit));
    for (size_t i = 0; i < series.times.size(); ++i)
      add_event(series.times[i], ProtobufWriter()
                                     .integer(event::type, event::counter)
                                     .integer(event::track_uuid, uuid)
                                     .real(event::double_counter_value, series.values[i]));
  }

  const Run& run_;
  TraceTracks tracks_;
  std::map<std::string, uint64_t> owners_;  // of counters without a rank
  uint64_t counters_ = 0;
  std::string bytes_;
};

}  // namespace

std::string perfetto_trace(const Run& run, TraceDetail detail) {
  return TraceWriter(run, detail).write();
}

}  // namespace triplepoint::run
