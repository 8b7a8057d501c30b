// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/chakra/chakra.h"

#include <bit>
#include <cmath>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/random.h"

#include "triplepoint/run/protobuf_writer.h"

#include "triplepoint/trace/read.h"

namespace triplepoint::trace {

namespace {

using run::ProtobufWriter;

constexpr uint64_t compute = 4, collective = 7;  // NodeType

struct Node {
  uint64_t id = 0, type = compute, duration_us = 0;
  std::vector<uint64_t> needs;
  uint64_t start_us = 0;
  std::vector<ProtobufWriter> attributes = {};
};

std::string framed(const ProtobufWriter& message) {
  return ProtobufWriter().message(1, message).bytes().substr(1);  // without the tag
}

const std::string header = framed(ProtobufWriter().text(1, "0.0.4"));

std::string bytes_of(const Node& node) {
  ProtobufWriter writer;
  writer.integer(1, node.id).text(2, fmt::format("node {}", node.id)).integer(3, node.type);
  for (const uint64_t id : node.needs)
    writer.integer(5, id);
  if (node.start_us > 0) writer.integer(6, node.start_us);
  writer.integer(7, node.duration_us);
  for (const ProtobufWriter& attribute : node.attributes)
    writer.message(10, attribute);
  return framed(writer);
}

std::string file_of(const std::vector<Node>& nodes) {
  std::string file = header;
  for (const Node& each : nodes)
    file += bytes_of(each);
  return file;
}

ProtobufWriter attribute(const char* name) {
  return ProtobufWriter().text(1, name);
}

}  // namespace

TEST_CASE("an amount is read in whatever form its attribute has") {
  std::vector<ProtobufWriter> forms;
  for (const uint32_t varint : {7, 9, 11, 13})
    forms.push_back(attribute("comm_size").integer(varint, 1'000'003));
  for (const uint32_t zigzag : {15, 17})
    forms.push_back(attribute("comm_size").integer(zigzag, 2'000'006));
  for (const uint32_t eight : {21, 25})
    forms.push_back(attribute("comm_size").fixed64(eight, 1'000'003));
  for (const uint32_t four : {19, 23})
    forms.push_back(attribute("comm_size").fixed32(four, 1'000'003));
  forms.push_back(attribute("comm_size").real(3, 1'000'003));
  forms.push_back(attribute("comm_size").fixed32(5, std::bit_cast<uint32_t>(1'000'003.0F)));
  for (const ProtobufWriter& form : forms) {
    Node node{.id = 1, .type = collective, .duration_us = 5};
    node.attributes = {attribute("list").message(10, ProtobufWriter().integer(1, 7)), form,
                       attribute("pg_name").text(29, "dp"), attribute("comm_type").integer(9, 2)};
    const auto read = must(parse_chakra(file_of({node})));
    CHECK(read.skipped == Skipped{});
    const run::Timeline& timeline = read.timeline;
    CHECK(timeline.spans.at(0).bytes == 1'000'003 * unit::B);
    CHECK(timeline.types.at(0).collective == spec::Collective::all_gather);
    CHECK(timeline.communicators.at(0).name == "dp");
  }
}

TEST_CASE("nodes without times begin when what they need has ended and their queue is free") {
  const auto read =
      must(parse_chakra(file_of({Node{1, compute, 10, {}}, Node{2, compute, 5, {1}},
                                 Node{3, collective, 20, {1}}, Node{4, compute, 1, {2, 3}}})));
  CHECK(read.facts.at("times") == "laid_out");
  std::map<std::string, int64_t> begins;
  for (const run::Span& span : read.timeline.spans)
    begins[read.timeline.types[as_size(span.type)].name] = span.begin.nanoseconds() / 1000;
  CHECK(begins == std::map<std::string, int64_t>{
                      {"node 1", 0}, {"node 2", 10}, {"node 3", 10}, {"node 4", 30}});
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
      CHECK(begins[as_size(after)] >=
            begins[as_size(before)] + graph.durations_ns[as_size(before)]);
    for (size_t a = 0; a < 60; ++a)
      for (size_t b = 0; b < 60; ++b)
        if (a != b && graph.queues[a] == graph.queues[b] && begins[a] <= begins[b])
          CHECK(begins[a] + graph.durations_ns[a] <= begins[b]);
  }
}

TEST_CASE("nodes that need themselves are skipped, and so is what needs them") {
  const auto read =
      must(parse_chakra(file_of({Node{1, compute, 10, {}}, Node{2, compute, 5, {3}},
                                 Node{3, compute, 5, {2}}, Node{4, compute, 5, {3}}})));
  CHECK(read.timeline.spans.size() == 1);
  CHECK(read.skipped.events == 3);
}

TEST_CASE("a Chakra file cut anywhere gives the whole nodes before the cut, and says so") {
  const std::string file = file_of({Node{1, compute, 10, {}}, Node{2, compute, 5, {1}}});
  const size_t first = header.size() + bytes_of(Node{1, compute, 10, {}}).size();
  for (size_t size = header.size(); size < file.size(); ++size) {
    const auto read = must(parse_chakra(std::string_view(file).substr(0, size)));
    CHECK(read.timeline.spans.size() == (size < first ? 0 : 1));
    CHECK(read.skipped.truncated == (size != header.size() && size != first));
  }
  CHECK_FALSE(parse_chakra("no such thing"));
  CHECK_FALSE(parse_chakra(""));
}

TEST_CASE("attributes that are no number do not get into the timeline") {
  Node odd{.id = 1, .type = collective, .duration_us = 5};
  odd.attributes = {attribute("comm_size").real(3, std::nan("")),
                    attribute("num_ops").real(3, INFINITY)};
  const auto read = must(parse_chakra(file_of({odd})));
  CHECK(read.timeline.spans[0].bytes == Bytes());
  CHECK(read.timeline.spans[0].flops == Flops());
}

TEST_CASE("nodes with impossible times are counted, not kept") {
  Node late{1, compute, 1, {}};
  late.start_us = UINT64_MAX / 2;
  Node sound{2, compute, 1, {}};
  sound.start_us = 5;
  const auto read = must(parse_chakra(file_of({late, sound})));
  CHECK(read.timeline.spans.size() == 1);
  CHECK(read.skipped.events == 1);
}

TEST_CASE("the feeder sample has all its nodes, durations and collectives") {
  const Path sample = Path(TPT_SHARED_DIR) / "data/traces/chakra_feeder_trace.tar.gz";
  if (!std::filesystem::exists(sample)) {
    MESSAGE("skipped: no such file: " << sample.string());
    return;
  }
  const auto trace = must(read_trace(sample));
  CHECK(trace.format == "chakra");
  CHECK(trace.skipped == Skipped{});
  CHECK(trace.timeline.spans.size() == 3664);
  int64_t total = 0, gradients = 0;
  double bytes = 0;
  for (const run::Span& span : trace.timeline.spans) {
    const run::SpanType& type = trace.timeline.types[as_size(span.type)];
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
