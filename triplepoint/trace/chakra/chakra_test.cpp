// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/chakra.h"

#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/trace/chakra/codec.h"
#include "triplepoint/trace/read.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::trace {

using chakra::Attribute;
using chakra::Node;
using chakra::NodeType;
using chakra::ValueForm;

namespace {

run::Timeline only_rank(const run::Timeline& timeline, int32_t rank) {
  run::Timeline one = timeline;
  one.spans.clear();
  one.details.clear();
  for (size_t i = 0; i < timeline.spans.size(); ++i) {
    if (timeline.spans[i].rank != rank) continue;
    one.spans.push_back(timeline.spans[i]);
    if (!timeline.details.empty()) one.details.push_back(timeline.details[i]);
  }
  return one;
}

/// Moves the first begin to 0, as readers do.
run::Timeline from_zero(run::Timeline timeline) {
  const int64_t first = run::extent(timeline)->begin.nanoseconds();
  for (run::Span& span : timeline.spans) {
    span.begin = Instant(span.begin.nanoseconds() - first);
    span.end = Instant(span.end.nanoseconds() - first);
  }
  return timeline;
}

Node node(uint64_t id, NodeType type, uint64_t duration_us, std::vector<uint64_t> needs) {
  Node made;
  made.id = id;
  made.name = fmt::format("node {}", id);
  made.type = type;
  made.duration_us = duration_us;
  made.data_dependencies = std::move(needs);
  return made;
}

std::string file_of(const std::vector<Node>& nodes) {
  std::string file = encode(chakra::Header{.version = "0.0.4"});
  for (const Node& each : nodes)
    file += encode(each);
  return file;
}

}  // namespace

TEST_CASE("a node is read back with every form of value an attribute can have") {
  Node written = node(7, NodeType::collective, 12, {1, 2, 300});
  written.control_dependencies = {5};
  written.start_us = 99;
  written.inputs = {"[[1, 2]]", "[[4]]", "['Tensor(float)']"};
  for (const ValueForm form : {ValueForm::i32, ValueForm::i64, ValueForm::u32, ValueForm::u64,
                               ValueForm::s32, ValueForm::s64, ValueForm::fixed32,
                               ValueForm::fixed64, ValueForm::sfixed32, ValueForm::sfixed64}) {
    written.attributes.push_back({"single", form, int64_t{1'000'003}});
    written.attributes.push_back({"list", form, std::vector<int64_t>{0, 1, 70'000}});
  }
  for (const ValueForm form : {ValueForm::i32, ValueForm::i64, ValueForm::s32, ValueForm::s64,
                               ValueForm::sfixed32, ValueForm::sfixed64})
    written.attributes.push_back({"negative", form, int64_t{-5}});
  for (const ValueForm form : {ValueForm::f32, ValueForm::f64}) {
    written.attributes.push_back({"single", form, 0.25});
    written.attributes.push_back({"list", form, std::vector<double>{-1.5, 3e20F}});
  }
  for (const ValueForm form : {ValueForm::text, ValueForm::bytes}) {
    written.attributes.push_back({"single", form, std::string("a\0b", 3)});
    written.attributes.push_back({"list", form, std::vector<std::string>{"", "x"}});
  }
  const std::string file = file_of({written});
  auto decoder = chakra::Decoder::open(file);
  REQUIRE(decoder);
  CHECK(decoder->header().version == "0.0.4");
  Node read;
  REQUIRE(decoder->next(read));
  CHECK(read == written);
  CHECK_FALSE(decoder->next(read));
  CHECK(decoder->skipped() == 0);
}

TEST_CASE("a timeline written as Chakra is read back the same, rank by rank") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const run::Timeline timeline = sample_timeline(seed, 3);
    const Dependencies needs = dependencies_of(timeline);
    size_t edges = 0;
    for (int32_t rank = 0; rank < 3; ++rank) {
      const auto read = parse_chakra(write_chakra(timeline, needs, rank));
      REQUIRE(read);
      CHECK(read->trace.skipped == Skipped{});
      CHECK(described(read->trace.timeline) == described(from_zero(only_rank(timeline, rank))));
      CHECK_FALSE(run::find_fault(read->trace.timeline));
      // What is written again is the same bytes, dependencies and all.
      const run::Timeline one = from_zero(only_rank(timeline, rank));
      CHECK(write_chakra(read->trace.timeline, read->dependencies, rank) ==
            write_chakra(one, dependencies_of(one), rank));
      edges += read->dependencies.edges.size();
    }
    CHECK(edges == needs.edges.size());
  }
}

TEST_CASE("ranks written as Chakra stay aligned") {
  const run::Timeline timeline = sample_timeline(1, 2);
  const Dependencies needs = dependencies_of(timeline);
  for (int32_t rank = 0; rank < 2; ++rank) {
    const auto read = parse_chakra(write_chakra(timeline, needs, rank, 1'700'000'000'000'000'000));
    REQUIRE(read);
    const int64_t first = only_rank(timeline, rank).spans.front().begin.nanoseconds();
    CHECK(read->trace.epoch_unix_ns == 1'700'000'000'000'000'000 + first);
  }
}

TEST_CASE("nodes without times begin when what they need has ended and their queue is free") {
  const auto read = parse_chakra(
      file_of({node(1, NodeType::compute, 10, {}), node(2, NodeType::compute, 5, {1}),
               node(3, NodeType::collective, 20, {1}), node(4, NodeType::compute, 1, {2, 3})}));
  REQUIRE(read);
  CHECK(read->trace.facts.at("times") == "laid_out");
  std::map<std::string, int64_t> begins;
  for (const run::Span& span : read->trace.timeline.spans)
    begins[read->trace.timeline.types[static_cast<size_t>(span.type)].name] =
        span.begin.nanoseconds() / 1000;
  CHECK(begins == std::map<std::string, int64_t>{
                      {"node 1", 0}, {"node 2", 10}, {"node 3", 10}, {"node 4", 30}});
  CHECK(read->dependencies.edges.size() == 4);
}

TEST_CASE("tasks of one queue never overlap, and none begins before its dependencies") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    chakra::TaskGraph graph;
    for (int32_t i = 0; i < 60; ++i) {
      const auto draw = static_cast<uint64_t>(i);
      graph.durations_ns.push_back(1 + static_cast<int64_t>(random_uniform({seed, 1}, draw) * 50));
      graph.queues.push_back(static_cast<int32_t>(random_uniform({seed, 2}, draw) * 4));
      for (int n = 0; i > 0 && n < 2; ++n)
        graph.needs.emplace_back(
            i, static_cast<int32_t>(random_uniform({seed, 3}, 2 * draw + static_cast<uint64_t>(n)) *
                                    i));
    }
    const auto begins = chakra::begins_of(graph);
    for (const auto& [after, before] : graph.needs)
      CHECK(begins[static_cast<size_t>(after)] >=
            begins[static_cast<size_t>(before)] + graph.durations_ns[static_cast<size_t>(before)]);
    for (size_t a = 0; a < 60; ++a)
      for (size_t b = 0; b < 60; ++b)
        if (a != b && graph.queues[a] == graph.queues[b] && begins[a] <= begins[b])
          CHECK(begins[a] + graph.durations_ns[a] <= begins[b]);
  }
}

TEST_CASE("nodes that need themselves are skipped, and so is what needs them") {
  const auto read = parse_chakra(
      file_of({node(1, NodeType::compute, 10, {}), node(2, NodeType::compute, 5, {3}),
               node(3, NodeType::compute, 5, {2}), node(4, NodeType::compute, 5, {3})}));
  REQUIRE(read);
  CHECK(read->trace.timeline.spans.size() == 1);
  CHECK(read->trace.skipped.events == 3);
}

TEST_CASE("a Chakra file cut anywhere gives the whole nodes before the cut, and says so") {
  const std::string file =
      file_of({node(1, NodeType::compute, 10, {}), node(2, NodeType::compute, 5, {1})});
  const size_t header = encode(chakra::Header{.version = "0.0.4"}).size();
  const size_t first = header + encode(node(1, NodeType::compute, 10, {})).size();
  for (size_t size = header; size < file.size(); ++size) {
    const auto read = parse_chakra(std::string_view(file).substr(0, size));
    REQUIRE(read);
    CHECK(read->trace.timeline.spans.size() == (size < first ? 0 : 1));
    CHECK(read->trace.skipped.truncated == (size != header && size != first));
  }
  CHECK_FALSE(parse_chakra("no such thing"));
  CHECK_FALSE(parse_chakra(""));
}

TEST_CASE("attributes that are no number do not get into the timeline") {
  Node odd = node(1, NodeType::collective, 5, {});
  odd.attributes.push_back({"comm_size", ValueForm::f64, std::nan("")});
  odd.attributes.push_back({"occupancy", ValueForm::f32, double{INFINITY}});
  const auto read = parse_chakra(file_of({odd}));
  REQUIRE(read);
  CHECK(read->trace.timeline == read->trace.timeline);
  CHECK(read->trace.timeline.spans[0].bytes == Bytes());
}

TEST_CASE("nodes with impossible times are counted, not kept") {
  Node late = node(1, NodeType::compute, 1, {});
  late.start_us = UINT64_MAX / 2;
  Node sound = node(2, NodeType::compute, 1, {});
  sound.start_us = 5;
  const auto read = parse_chakra(file_of({late, sound}));
  REQUIRE(read);
  CHECK(read->trace.timeline.spans.size() == 1);
  CHECK(read->trace.skipped.events == 1);
}

TEST_CASE("the feeder sample has all its nodes, durations and collectives") {
  const Path sample = Path(TPT_SHARED_DIR) / "data/traces/chakra_feeder_trace.tar.gz";
  if (!std::filesystem::exists(sample)) {
    MESSAGE("skipped: no such file: " << sample.string());
    return;
  }
  const auto trace = read_trace(sample);
  REQUIRE_MESSAGE(trace, trace.error().what);
  CHECK(trace->format == "chakra");
  CHECK(trace->skipped == Skipped{});
  CHECK(trace->timeline.spans.size() == 3664);
  int64_t total = 0, gradients = 0;
  double bytes = 0;
  for (const run::Span& span : trace->timeline.spans) {
    const run::SpanType& type = trace->timeline.types[static_cast<size_t>(span.type)];
    const int64_t length = span.end.nanoseconds() - span.begin.nanoseconds();
    total += length;
    if (type.collective != spec::Collective::all_reduce) continue;
    gradients += length;
    bytes += span.bytes / unit::B;
  }
  CHECK(total == 381'795'000);  // sum of duration_micros
  CHECK(gradients == (5572 + 9093 + 8512 + 8178 + 5327) * 1000);
  CHECK(bytes == 8196000 + 31502336 + 26255360 + 26550272 + 9724160);
}

TEST_CASE("a few bytes that could begin a header are no trace") {
  for (const std::string text : {"\n\n", "\x12\x0a", "z\n12"})
    CHECK_FALSE(looks_like_chakra(text));
}

}  // namespace triplepoint::trace
