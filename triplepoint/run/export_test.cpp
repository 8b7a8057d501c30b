// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/export.h"

#include <algorithm>
#include <bit>
#include <map>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/json.h"

namespace triplepoint::run {
namespace {

/// Two ranks with a pass of two layers each; on rank 1 two collectives at the same time. Begins
/// before the epoch.
Run small_run() {
  Run run;
  Timeline& t = run.timeline;
  t.num_ranks = 2;
  t.types = {{.name = "gemm \"a\"", .kind = SpanKind::compute},
             {.name = "all_reduce",
              .kind = SpanKind::communication,
              .stream = Stream::communication,
              .collective = spec::Collective::all_reduce,
              .group = spec::GroupKind::tensor}};
  PatternPiece layer{.repeat = 2, .length = 1000 * unit::ns, .first_layer = 3};
  layer.spans = {{.begin = Instant(0), .end = Instant(600), .flops = Flops(5)},
                 {.begin = Instant(600),
                  .end = Instant(1000),
                  .type = 1,
                  .wait = 100 * unit::ns,
                  .bytes = Bytes(64)}};
  t.patterns = {{.name = "forward", .pieces = {layer}}};
  for (int32_t rank : {0, 1})
    t.instances.push_back({.begin = Instant(-500), .rank = rank, .stage = rank, .microbatch = 7});
  for (int64_t begin : {5000, 5500})
    t.spans.push_back(
        {.begin = Instant(begin), .end = Instant(begin + 1000), .type = 1, .rank = 1});
  run.devices = {{.index = 8, .node = 1, .local = 0, .rank = 0},
                 {.index = 9, .node = 1, .local = 1, .rank = 1}};
  run.series = {{.signal = "power_w",
                 .device = 8,
                 .times = {Instant(0), Instant(2000)},
                 .values = {650.5, 700}},
                {.signal = "node_power_w",
                 .device = 1,
                 .of_node = true,
                 .times = {Instant(0)},
                 .values = {9000}}};
  return run;
}

/// A protobuf message, taken apart: for each field its varints, doubles and byte strings.
struct Message {
  std::multimap<uint64_t, uint64_t> integers;
  std::multimap<uint64_t, double> reals;
  std::multimap<uint64_t, std::string> texts;

  explicit Message(std::string_view bytes) {
    while (!bytes.empty()) {
      const uint64_t tag = varint(bytes);
      if (tag % 8 == 0) {
        integers.emplace(tag / 8, varint(bytes));
      } else if (tag % 8 == 1) {
        uint64_t bits = 0;
        for (unsigned i = 0; i < 8; ++i)
          bits |= static_cast<uint64_t>(static_cast<uint8_t>(bytes.at(i))) << (8 * i);
        reals.emplace(tag / 8, std::bit_cast<double>(bits));
        bytes.remove_prefix(8);
      } else {
        REQUIRE(tag % 8 == 2);
        const uint64_t size = varint(bytes);
        REQUIRE(size <= bytes.size());
        texts.emplace(tag / 8, bytes.substr(0, size));
        bytes.remove_prefix(size);
      }
    }
  }
  static uint64_t varint(std::string_view& bytes) {
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.at(0));
      bytes.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 127U) << shift;
      if (byte < 128) return value;
    }
  }
  uint64_t integer(uint64_t field) const { return integers.find(field)->second; }
  std::string text(uint64_t field) const { return texts.find(field)->second; }
};

/// What a viewer makes of a Perfetto trace.
struct Viewer {
  struct Slice {
    uint64_t begin, end;
    std::string name, track, process;
  };
  std::vector<Slice> slices;
  std::map<std::string, std::vector<double>> counters;  // by process and name
  std::map<uint64_t, std::vector<std::string>> flows;   // process and slice of each end

  explicit Viewer(const std::string& bytes) {
    const Message trace{bytes};
    for (const auto& [field, packet] : trace.texts)
      read(Message(packet));
    for (const auto& [track, stack] : open_)
      CHECK(stack.empty());
  }

 private:
  void read(const Message& packet) {
    if (packet.texts.count(12) > 0) read_names(Message(packet.text(12)));
    if (packet.texts.count(60) > 0) read_track(Message(packet.text(60)));
    if (packet.texts.count(11) > 0) read_event(packet.integer(8), Message(packet.text(11)));
  }
  void read_names(const Message& interned) {
    const auto [first, last] = interned.texts.equal_range(2);
    for (auto entry = first; entry != last; ++entry) {
      const Message name(entry->second);
      names_[name.integer(1)] = name.text(2);
    }
  }
  void read_track(const Message& track) {
    const uint64_t uuid = track.integer(1);
    CHECK(tracks_.count(uuid) == 0);
    tracks_[uuid] = track.texts.count(3) > 0 ? Message(track.text(3)).text(6) : track.text(2);
    if (track.integers.count(5) > 0) parents_[uuid] = track.integer(5);
  }
  void read_event(uint64_t time, const Message& event) {
    const uint64_t track = event.integer(11);
    REQUIRE(tracks_.count(track) == 1);
    const std::string process = tracks_[parents_[track]];
    if (event.integer(9) == 4)
      counters[process + "/" + tracks_[track]].push_back(event.reals.find(44)->second);
    if (event.integer(9) == 1) {
      CHECK(open_[track].empty());  // slices of one track do not overlap
      const auto [first, last] = event.reals.equal_range(47);
      for (auto flow = first; flow != last; ++flow)
        flows[std::bit_cast<uint64_t>(flow->second)].push_back(process + "/" +
                                                               names_.at(event.integer(10)));
      open_[track].push_back({time, 0, names_.at(event.integer(10)), tracks_[track], process});
    }
    if (event.integer(9) == 2) {
      REQUIRE(!open_[track].empty());
      slices.push_back(open_[track].back());
      slices.back().end = time;
      open_[track].pop_back();
    }
  }
  std::map<uint64_t, std::string> names_, tracks_;
  std::map<uint64_t, uint64_t> parents_;
  std::map<uint64_t, std::vector<Slice>> open_;
};

/// Two ranks, each with a launch, its kernel, a collective, and a message from rank 0 to 1.
Run run_with_details() {
  Run run;
  Timeline& t = run.timeline;
  t.num_ranks = 2;
  t.types = {{.name = "cudaLaunchKernel", .kind = SpanKind::host, .stream = Stream::host},
             {.name = "gemm", .kind = SpanKind::compute},
             {.name = "all_reduce", .kind = SpanKind::communication},
             {.name = "send_recv", .kind = SpanKind::communication}};
  t.communicators = {
      {.name = "dp", .ranks = {0, 1}, .size = 2},
      {.name = "pp", .ranks = {0, 1}, .size = 2, .end = MessageEnd::sender, .peer = 1},
      {.name = "pp", .ranks = {0, 1}, .size = 2, .end = MessageEnd::receiver, .peer = 0}};
  for (const int32_t rank : {0, 1}) {
    const auto lane = static_cast<int32_t>(t.lanes.size());
    t.lanes.push_back({rank, Stream::host, 1, "thread 1"});
    t.lanes.push_back({rank, Stream::compute, 7, "stream 7"});
    const auto add = [&](int64_t begin, int32_t type, SpanDetail detail) {
      t.spans.push_back(
          {.begin = Instant(begin), .end = Instant(begin + 50), .type = type, .rank = rank});
      t.details.push_back(detail);
    };
    add(0, 0, {.lane = lane, .correlation = 5});
    add(100, 1, {.lane = lane + 1, .correlation = 5});
    add(200, 2, {.lane = lane + 1, .communicator = 0, .sequence = 3});
    add(300, 3, {.lane = lane + 1, .communicator = 1 + rank, .sequence = rank == 0 ? 9 : 4});
  }
  return run;
}

TEST_CASE("arrows lead from launches to kernels, and from rank to rank") {
  const Viewer viewer(perfetto_trace(run_with_details()));
  using Ends = std::vector<std::string>;
  std::vector<Ends> ends;
  for (const auto& [id, slices] : viewer.flows)
    ends.push_back(slices);
  std::ranges::sort(ends);
  CHECK(ends == std::vector<Ends>{{"rank 0/all_reduce", "rank 1/all_reduce"},
                                  {"rank 0/cudaLaunchKernel", "rank 0/gemm"},
                                  {"rank 0/send_recv", "rank 1/send_recv"},
                                  {"rank 1/cudaLaunchKernel", "rank 1/gemm"}});
}

TEST_CASE("a Perfetto trace shows every span once, on tracks where none overlap") {
  const Viewer viewer(perfetto_trace(small_run(), TraceDetail::kernels));
  CHECK(static_cast<int64_t>(viewer.slices.size()) == count_spans(small_run().timeline) + 2);
  uint64_t gemm = 0;
  for (const auto& slice : viewer.slices)
    if (slice.name == "gemm \"a\"" && slice.process == "rank 0 (node 1, gpu 0, stage 0)")
      gemm += slice.end - slice.begin;
  CHECK(gemm == 1200);
  const bool has_second_track = std::ranges::any_of(viewer.slices, [](const auto& slice) {
    return slice.track == "communication 2" && slice.begin == 6000;
  });
  CHECK(has_second_track);
}

TEST_CASE("spans whose lane is known stand on its track, calls inside each other on the same one") {
  Run run;
  run.timeline.num_ranks = 2;
  run.timeline.lanes = {{.rank = 0, .number = 7, .name = "stream 7"},
                        {.rank = 1, .number = 7, .name = "stream 7"},
                        {.rank = 1, .stream = Stream::host, .number = 5}};
  const int32_t gemm = run.timeline.intern({.name = "gemm", .kind = SpanKind::compute});
  const int32_t op =
      run.timeline.intern({.name = "op", .kind = SpanKind::host, .stream = Stream::host});
  const auto add = [&](int64_t begin, int64_t end, int32_t type, int32_t rank, int32_t lane) {
    run.timeline.spans.push_back({Instant(begin), Instant(end), type, rank});
    run.timeline.details.push_back({.lane = lane});
  };
  add(0, 10, gemm, 0, 0);
  add(5, 20, gemm, 1, 1);  // overlaps the next: a second track
  add(10, 30, gemm, 1, 1);
  add(0, 100, op, 1, 2);
  add(0, 50, op, 1, 2);      // lies inside: the same track
  add(60, 90, gemm, 1, -1);  // its lane is not known
  sort(run.timeline);
  const Viewer viewer(perfetto_trace(run));
  std::map<std::string, int> tracks;
  for (const auto& slice : viewer.slices)
    ++tracks[slice.process + "/" + slice.track];
  CHECK(tracks == std::map<std::string, int>{{"rank 0/stream 7", 1},
                                             {"rank 1/compute", 1},
                                             {"rank 1/lane 5", 2},
                                             {"rank 1/stream 7", 1},
                                             {"rank 1/stream 7 2", 1}});
}

TEST_CASE("times in a trace count from the earliest event") {
  const Viewer viewer(perfetto_trace(small_run(), TraceDetail::kernels));
  uint64_t first = 1000000;
  for (const auto& slice : viewer.slices)
    first = std::min(first, slice.begin);
  CHECK(first == 0);
}

TEST_CASE("counters stand beside the rank on their device") {
  const Viewer viewer(perfetto_trace(small_run()));
  CHECK(viewer.counters.at("rank 0 (node 1, gpu 0, stage 0)/power") ==
        std::vector<double>{650.5, 700});
  CHECK(viewer.counters.at("node 1/node_power") == std::vector<double>{9000});
}

TEST_CASE("passes alone make a small trace of a long run") {
  const Viewer viewer(perfetto_trace(small_run(), TraceDetail::passes));
  CHECK(viewer.slices.size() == 4);  // two passes, two single collectives
}

TEST_CASE("an empty run is an empty trace") {
  CHECK(Viewer(perfetto_trace({})).slices.empty());
}

TEST_CASE("CSV tables have units in their names and leave unknown cells empty") {
  for (const NamedText& file : csv_tables(small_run())) {
    const CsvTable table = CsvTable::parse(file.text, file.name).value();
    if (file.name == "spans.csv") {
      CHECK(static_cast<int64_t>(table.rows()) == count_spans(small_run().timeline));
      CHECK(table.at(0, table.column("layer").value()) == "3");
      CHECK(table.at(table.rows() - 1, table.column("layer").value()).empty());
    }
    if (file.name == "devices.csv") {
      CHECK(table.rows() == 2);
      CHECK(table.at(0, table.column("power_mean_w").value()).empty());
    }
    if (file.name == "series.csv") CHECK(table.rows() == 3);
  }
}

}  // namespace
}  // namespace triplepoint::run
