// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/execution_trace/execution_trace.h"

#include <map>
#include <set>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/trace/json_walk.h"
#include "triplepoint/trace/read.h"

namespace triplepoint::trace {

namespace {

/// A step of two products and one all-reduce, as the two generations of the observer write it.
std::string flat_trace() {
  const auto node = [](int id, const char* name, const char* inputs, const char* shapes) {
    return fmt::format(
        R"({{"name":"{}","id":{},"rf_id":{},"parent":1,"fw_parent":0,"seq_id":-1,"scope":0,"tid":1,)"
        R"("fw_tid":0,"op_schema":"","inputs":{},"input_shapes":{},"input_types":[],)"
        R"("outputs":[],"output_shapes":[],"output_types":[]}})",
        name, id, id, inputs, shapes);
  };
  return fmt::format(
      R"({{"schema":"1.0.1","pid":7,"time":"x","start_ts":1,"nodes":[{},{},{}],"finish_ts":2}})",
      node(3, "aten::mm", "[]", "[[4,8],[8,16]]"), node(4, "aten::mm", "[]", "[[2,8],[8,16]]"),
      node(5, "record_param_comms", R"([[9,9,0,6144,4,"cuda:0"],147,0,0,"all_to_allv",[],[]])",
           "[[6144]]"));
}
std::string attribute_trace() {
  const auto node = [](int id, const char* name, const char* shapes, const char* more) {
    return fmt::format(
        R"({{"id":{},"name":"{}","ctrl_deps":1,"inputs":{{"values":[],"shapes":{},"types":[]}},)"
        R"("outputs":{{"values":[],"shapes":[],"types":[]}},"attrs":[{{"name":"rf_id","type":"uint64",)"
        R"("value":{}}},{{"name":"tid","type":"uint64","value":1}}{}]}})",
        id, name, shapes, id, more);
  };
  const char* comms = R"(,{"name":"collective_name","type":"string","value":"all_to_allv"},)"
                      R"({"name":"dtype","type":"string","value":"Float"},)"
                      R"({"name":"in_msg_nelems","type":"uint64","value":6144},)"
                      R"({"name":"out_msg_nelems","type":"uint64","value":6144},)"
                      R"({"name":"pg_name","type":"string","value":"0"},)"
                      R"({"name":"pg_size","type":"uint64","value":8})";
  return fmt::format(
      R"({{"schema":"1.1.0-chakra.0.0.4","pid":7,"nodes":[{},{},{}],"finish_ts":2}})",
      node(3, "aten::mm", "[[4,8],[8,16]]", ""), node(4, "aten::mm", "[[2,8],[8,16]]", ""),
      node(5, "record_param_comms", "[[6144]]", comms));
}

/// What a profiler saw of that step: three operators, each with its launch and kernel.
run::Timeline profiled_step() {
  using namespace run;
  Timeline t;
  t.num_ranks = 1;
  t.types = {{.name = "aten::mm", .kind = SpanKind::host, .stream = Stream::host},
             {.name = "record_param_comms", .kind = SpanKind::host, .stream = Stream::host},
             {.name = "cudaLaunchKernel", .kind = SpanKind::host, .stream = Stream::host},
             {.name = "gemm", .kind = SpanKind::compute, .op_class = spec::OpClass::gemm},
             {.name = "ncclKernel_SendRecv",
              .kind = SpanKind::communication,
              .stream = Stream::communication,
              .op_class = spec::OpClass::communication}};
  t.lanes = {{0, Stream::host, 11, "thread 11"},
             {0, Stream::compute, 7, "stream 7"},
             {0, Stream::communication, 9, "stream 9"}};
  const auto add = [&](int64_t begin, int64_t end, int32_t type, int32_t lane, int64_t launch) {
    t.spans.push_back({Instant(begin), Instant(end), type, 0});
    t.details.push_back({.lane = lane, .correlation = launch});
  };
  for (int64_t i = 0; i < 3; ++i) {
    const bool talks = i == 2;
    add(100 * i, 100 * i + 90, talks ? 1 : 0, 0, -1);
    add(100 * i + 10, 100 * i + 20, 2, 0, 50 + i);
    add(100 * i + 30, 100 * i + 99, talks ? 4 : 3, talks ? 2 : 1, 50 + i);
  }
  sort(t);
  return t;
}

ExecutionTrace parsed(std::string text) {
  Input input = Input::of_text(std::move(text), "et.json");
  auto trace = parse_execution_trace(input);
  REQUIRE_MESSAGE(trace, trace.error().what);
  return *trace;
}

}  // namespace

TEST_CASE("both generations of execution traces say the same of a step") {
  for (const std::string& text : {flat_trace(), attribute_trace()}) {
    CHECK(looks_like_execution_trace(text));
    const ExecutionTrace trace = parsed(text);
    REQUIRE(trace.nodes.size() == 3);
    CHECK(trace.process == 7);
    CHECK(trace.nodes[0].flops == 2. * 4 * 8 * 16 * unit::FLOP);
    CHECK(trace.nodes[2].collective == "all_to_allv");
    CHECK(trace.nodes[2].in_elements == 6144);
    CHECK(trace.nodes[2].element_bytes == 4);
    CHECK(trace.nodes[2].record_function_id == 5);
    CHECK(trace.skipped == Skipped{});
  }
}

TEST_CASE("joining gives kernels the work and collectives the size that the operators knew") {
  for (const std::string& text : {flat_trace(), attribute_trace()}) {
    run::Timeline timeline = profiled_step();
    const JoinCounts joined = join(parsed(text), 0, timeline);
    CHECK(joined.nodes == 3);
    CHECK(joined.without == 0);
    CHECK(joined.collectives == 1);
    CHECK_FALSE(run::find_fault(timeline));
    double flops = 0;
    for (size_t i = 0; i < timeline.spans.size(); ++i) {
      const run::Span& span = timeline.spans[i];
      flops += span.flops / unit::FLOP;
      const run::SpanType& type = timeline.types[static_cast<size_t>(span.type)];
      if (type.kind != run::SpanKind::communication) continue;
      CHECK(type.collective == spec::Collective::all_to_all);
      CHECK(span.bytes == 6144. * 4 * unit::B);
      CHECK(timeline.details[i].sequence == 0);
      CHECK(timeline.details[i].communicator == 0);
    }
    CHECK(flops == 2. * 4 * 8 * 16 + 2. * 2 * 8 * 16);
  }
}

TEST_CASE("operators that one of the traces has more of are left alone, and counted") {
  run::Timeline timeline = profiled_step();
  ExecutionTrace trace = parsed(attribute_trace());
  trace.nodes.push_back(trace.nodes[1]);
  trace.nodes.back().record_function_id = 9;
  const JoinCounts joined = join(trace, 0, timeline);
  CHECK(joined.nodes == 1);
  CHECK(joined.without == 3);
}

TEST_CASE(
    "an execution trace cut anywhere behind its schema gives the whole nodes before the cut") {
  const std::string text = attribute_trace();
  for (size_t size = text.find("nodes") + 9; size < text.size(); size += 7) {
    const ExecutionTrace trace = parsed(text.substr(0, size));
    CHECK(trace.nodes.size() <= 3);
    CHECK(trace.skipped.truncated);
  }
  Input other = Input::of_text(R"({"traceEvents":[]})", "other.json");
  CHECK_FALSE(parse_execution_trace(other));
}

TEST_CASE("the walk through JSON gives each value once, and steps over what is none") {
  Input input = Input::of_text(
      R"({"a": [1, {"b": "]}\"{"}, [2]], "c": {"d": true, "e": null}, "f": -1.5e3})", "x");
  JsonWalk walk(input, {"", ".a", ".c"});
  std::vector<std::string> seen;
  JsonItem item;
  while (*walk.next(item))
    seen.push_back(item.path + "=" + std::string(item.text));
  CHECK(seen == std::vector<std::string>{".a[]=1", R"(.a[]={"b": "]}\"{"})", ".a[]=[2]",
                                         ".c.d=true", ".c.e=null", ".f=-1.5e3"});
  CHECK_FALSE(walk.is_truncated());

  for (const char* broken : {"", "x", "{]}", "[[[[", "{\"a\" 1}", "{1:2}", "[,,}", "{\"a\":}"}) {
    Input text = Input::of_text(broken, "x");
    JsonWalk over(text, {"", ".a"});
    for (int i = 0; i < 100; ++i) {
      const auto more = over.next(item);
      if (!more || !*more) break;
      CHECK(i < 50);
    }
  }
}

TEST_CASE("the execution traces of two public samples have all their nodes and collectives") {
  const Path folder = Path(TPT_SHARED_DIR) / "data/traces";
  if (!std::filesystem::exists(folder / "resnet_2gpu_et.json.gz")) {
    MESSAGE("skipped: no such folder: " << folder.string());
    return;
  }
  auto input = Input::open(folder / "resnet_2gpu_et.json.gz");
  REQUIRE(input);
  const auto trace = parse_execution_trace(*input);
  REQUIRE_MESSAGE(trace, trace.error().what);
  CHECK(trace->schema == "1.1.0-chakra.0.0.4");
  CHECK(trace->nodes.size() == 14392);
  CHECK(std::count_if(trace->nodes.begin(), trace->nodes.end(),
                      [](const ExecutionNode& node) { return !node.collective.empty(); }) == 27);
  REQUIRE(trace->groups.size() == 1);
  CHECK(trace->groups[0].name == "0");
  CHECK(trace->groups[0].size == 2);
  CHECK(trace->skipped == Skipped{});
}

TEST_CASE(
    "execution traces beside the profiler's files give the DLRM set's collectives their size") {
  const Path folder = Path(TPT_SHARED_DIR) / "data/traces";
  if (!std::filesystem::exists(folder / "dlrm_8rank_pytorch_et.tar.gz")) {
    MESSAGE("skipped: no such folder: " << folder.string());
    return;
  }
  const auto trace =
      read_traces({folder / "dlrm_8rank_kineto.tar.gz", folder / "dlrm_8rank_pytorch_et.tar.gz"});
  REQUIRE_MESSAGE(trace, trace.error().what);
  CHECK_FALSE(run::find_fault(trace->timeline));
  CHECK(trace->facts.at("joined_collectives") == "64");  // eight of each of eight ranks
  CHECK(std::stoi(trace->facts.at("joined_operators")) > 8 * 1600);
  // The gradients of the dense layers: all ranks reduce the same number of floats.
  std::map<int64_t, std::set<double>> bytes;  // sequence -> sizes
  for (size_t i = 0; i < trace->timeline.spans.size(); ++i) {
    const run::Span& span = trace->timeline.spans[i];
    const run::SpanType& type = trace->timeline.types[static_cast<size_t>(span.type)];
    if (type.collective == spec::Collective::all_reduce)
      bytes[trace->timeline.details[i].sequence].insert(span.bytes / unit::B);
  }
  CHECK(bytes.size() == 3);
  for (const auto& [sequence, sizes] : bytes)
    CHECK(sizes.size() == 1);

  const auto alone = read_trace(folder / "dlrm_8rank_pytorch_et.tar.gz");
  REQUIRE_FALSE(alone);
  CHECK(alone.error().what.find("together with the Kineto trace") != std::string::npos);
}

}  // namespace triplepoint::trace
