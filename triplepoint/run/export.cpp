// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/export.h"

#include <array>
#include <map>
#include <utility>

#include "triplepoint/base/csv.h"

#include "triplepoint/run/protobuf_writer.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::run {
namespace {

// Field numbers, as in Perfetto's .proto files.
namespace trace {
constexpr uint32_t packet = 1;

}  // namespace trace

namespace packet {

constexpr uint32_t timestamp = 8, sequence_id = 10, track_event = 11, interned_data = 12,
                   sequence_flags = 13, track_descriptor = 60;

}  // namespace packet

namespace descriptor {

constexpr uint32_t uuid = 1, name = 2, process = 3, parent_uuid = 5, counter = 8;
constexpr uint32_t process_pid = 1, process_name = 6, counter_unit_name = 6;

}  // namespace descriptor

namespace event {

constexpr uint32_t debug_annotation = 4, type = 9, name_iid = 10, track_uuid = 11,
                   double_counter_value = 44, flow_ids = 47;
constexpr uint64_t slice_begin = 1, slice_end = 2, counter = 4;

}  // namespace event

namespace interned {

constexpr uint32_t event_names = 2, annotation_names = 3, iid = 1, name = 2;

}  // namespace interned

namespace annotation {

constexpr uint32_t name_iid = 1, int_value = 4, double_value = 5;

}  // namespace annotation

constexpr uint64_t sequence = 1;
constexpr uint64_t state_cleared = 1, needs_state = 2;

constexpr std::array<std::string_view, 6> argument_names = {"stage", "microbatch", "layer",
                                                            "bytes", "flops",      "wait_us"};

/// The number of an arrow: equal at both of its ends. FNV-1a (Fowler, Noll, Vo).
uint64_t flow_of(const std::string& what) {
  uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : what)
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3U;
  return hash;
}

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
      write_slice(uuid, slice);
    }
  }

  void write_slice(uint64_t track, const TraceSlice& slice) {
    const Span& span = slice.span;
    ProtobufWriter begin;
    begin.integer(event::type, event::slice_begin)
        .integer(event::track_uuid, track)
        .integer(event::name_iid, iid_of(span.type));
    add_arguments(begin, span);
    if (slice.detail != nullptr) add_flows(begin, span, *slice.detail);
    add_event(span.begin, begin);
    add_event(
        span.end,
        ProtobufWriter().integer(event::type, event::slice_end).integer(event::track_uuid, track));
  }

  void add_flows(ProtobufWriter& begin, const Span& span, const SpanDetail& detail) {
    const auto add = [&](const std::string& what) {
      begin.fixed64(event::flow_ids, flow_of(what));
    };
    if (detail.correlation >= 0) add(fmt::format("launch {} {}", span.rank, detail.correlation));
    const SpanKind kind = run_.timeline.types[as_size(span.type)].kind;
    if (kind != SpanKind::communication || detail.communicator < 0) return;
    const Communicator& group = run_.timeline.communicators[as_size(detail.communicator)];
    if (group.end == MessageEnd::none) {
      if (detail.sequence < 0) return;
      add(fmt::format("collective {} {} {}", group.name, fmt::join(group.ranks, " "),
                      detail.sequence));
    } else if (group.peer >= 0) {
      // The n-th message of two ranks in this direction, on either of them.
      const int64_t nth = messages_[{span.rank, detail.communicator}]++;
      const bool sends = group.end == MessageEnd::sender;
      add(fmt::format("message {} {} {} {}", group.name, sends ? span.rank : group.peer,
                      sends ? group.peer : span.rank, nth));
    }
  }

  static void add_arguments(ProtobufWriter& begin, const Span& span) {
    const std::array<double, 6> values = {as_real(span.stage),     as_real(span.microbatch),
                                          as_real(span.layer),     span.bytes / unit::B,
                                          span.flops / unit::FLOP, span.wait / unit::us};
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
  std::map<std::pair<int32_t, int32_t>, int64_t> messages_;  // of rank and communicator, so far
  std::string bytes_;
};

}  // namespace

std::string perfetto_trace(const Run& run, TraceDetail detail) {
  return TraceWriter(run, detail).write();
}

namespace {

void add(CsvWriter& csv, std::optional<double> value) {
  if (value)
    csv.cell(*value);
  else
    csv.empty_cell();
}

/// -1 is how a span says that a number does not apply; a table leaves the cell empty.
void add_index(CsvWriter& csv, int32_t index) {
  if (index >= 0)
    csv.cell(int64_t{index});
  else
    csv.empty_cell();
}

std::string spans_csv(const Timeline& timeline) {
  const std::vector<std::string> header = {"rank",   "begin_ns",   "end_ns", "name",       "kind",
                                           "stage",  "microbatch", "layer",  "collective", "group",
                                           "wait_s", "bytes",      "flops"};
  CsvWriter csv(header);
  for_each_span(timeline, -1, [&](const Span& span) {
    const SpanType& type = timeline.types[as_size(span.type)];
    csv.cell(int64_t{span.rank}).cell(span.begin.nanoseconds()).cell(span.end.nanoseconds());
    csv.cell(type.name).cell(span_kind_name(type.kind));
    add_index(csv, span.stage);
    add_index(csv, span.microbatch);
    add_index(csv, span.layer);
    csv.cell(type.collective ? spec::enum_name(*type.collective) : "");
    csv.cell(type.group ? spec::enum_name(*type.group) : "");
    csv.cell(span.wait / unit::s).cell(span.bytes / unit::B).cell(span.flops / unit::FLOP);
    csv.end_row();
  });
  return csv.text();
}

std::string series_csv(const std::vector<Series>& all) {
  const std::vector<std::string> header = {"scope", "index", "signal", "time_ns", "value"};
  CsvWriter csv(header);
  for (const Series& series : all)
    for (size_t i = 0; i < series.times.size(); ++i) {
      csv.cell(series.of_node ? "node" : "device").cell(int64_t{series.device});
      csv.cell(series.signal).cell(series.times[i].nanoseconds()).cell(series.values[i]);
      csv.end_row();
    }
  return csv.text();
}

std::string devices_csv(const Run& run) {
  const std::vector<std::string> header = {"device",
                                           "node",
                                           "local",
                                           "slot",
                                           "name",
                                           "rank",
                                           "power_mean_w",
                                           "power_peak_w",
                                           "energy_j",
                                           "die_mean_c",
                                           "die_peak_c",
                                           "sm_clock_mean_mhz",
                                           "sm_clock_min_mhz",
                                           "scale_up_bytes",
                                           "scale_out_bytes"};
  CsvWriter csv(header);
  for (size_t i = 0; i < run.devices.size(); ++i) {
    const Device& device = run.devices[i];
    const DeviceSummary known = i < run.summaries.size() ? run.summaries[i] : DeviceSummary();
    csv.cell(int64_t{device.index}).cell(int64_t{device.node}).cell(int64_t{device.local});
    csv.cell(int64_t{device.slot}).cell(device.name);
    add_index(csv, device.rank.value_or(-1));
    for (const auto& value : {known.power_mean_w, known.power_peak_w, known.energy_j,
                              known.die_mean_c, known.die_peak_c, known.sm_clock_mean_mhz,
                              known.sm_clock_min_mhz, known.scale_up_bytes, known.scale_out_bytes})
      add(csv, value);
    csv.end_row();
  }
  return csv.text();
}

std::string steps_csv(const std::vector<StepRecord>& steps) {
  const std::vector<std::string> header = {"begin_ns", "end_ns", "samples", "tokens"};
  CsvWriter csv(header);
  for (const StepRecord& step : steps) {
    csv.cell(step.begin.nanoseconds()).cell(step.end.nanoseconds());
    csv.cell(step.samples).cell(step.tokens);
    csv.end_row();
  }
  return csv.text();
}

}  // namespace

std::string_view span_kind_name(SpanKind kind) {
  constexpr std::array<std::string_view, span_kind_count> names = {
      "compute", "memory", "communication", "other", "host", "pass", "step", "copy"};
  return names[as_size(kind)];
}

std::vector<NamedText> csv_tables(const Run& run) {
  return {{"spans.csv", spans_csv(run.timeline)},
          {"series.csv", series_csv(run.series)},
          {"devices.csv", devices_csv(run)},
          {"steps.csv", steps_csv(run.steps)}};
}

Result<void> write_all(const std::vector<NamedText>& files, const Path& folder) {
  if (auto made = make_folder(folder); !made) return made;
  for (const NamedText& file : files) {
    TPT_TRY(make_folder((folder / file.name).parent_path()));
    TPT_TRY(write_file_atomically(folder / file.name, file.text));
  }
  return {};
}

}  // namespace triplepoint::run
