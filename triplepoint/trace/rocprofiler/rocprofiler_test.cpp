// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::trace {

namespace {

std::string record(int kind, int operation, int id, int64_t begin, int64_t end,
                   const std::string& more) {
  return fmt::format(
      R"({{"size":100,"kind":{},"operation":{},"correlation_id":{{"internal":{},"external":0}},)"
      R"("start_timestamp":{},"end_timestamp":{},"thread_id":77{}}})",
      kind, operation, id, begin, end, more);
}

std::string kernel(int id, int64_t begin, int64_t end, int symbol, int queue) {
  return record(
      2, 0, id, begin, end,
      fmt::format(R"(,"dispatch_info":{{"agent_id":{{"handle":900}},"queue_id":{{"handle":{}}},)"
                  R"("kernel_id":{},"workgroup_size":{{"x":256,"y":1,"z":1}},)"
                  R"("grid_size":{{"x":1000,"y":2,"z":1}}}})",
                  queue, symbol));
}

/// One process that launches a product and a collective, copies, and marks what it does.
std::string process(int pid) {
  return fmt::format(
      R"({{"metadata":{{"pid":{},"init_time":1}},"agents":[{{"id":{{"handle":800}},"type":1,"name":"EPYC"}},)"
      R"({{"id":{{"handle":900}},"type":2,"name":"gfx942","product_name":"AMD Instinct MI300X"}}],)"
      R"("strings":{{"buffer_records":[{{"kind":"NONE","operations":[]}},{{"kind":"HIP","operations":["hipMalloc",)"
      R"("hipLaunchKernel"]}},{{"kind":"KERNEL","operations":[""]}},{{"kind":"MEMORY_COPY","operations":["none",)"
      R"("MEMORY_COPY_HOST_TO_DEVICE"]}},{{"kind":"MARKER","operations":["roctxRangePushA"]}}],)"
      R"("marker_api":[{{"key":9,"value":"forward"}}]}},"kernel_symbols":[{{"kernel_id":1,)"
      R"("formatted_kernel_name":"Cijk_Ailk_Bljk"}},{{"kernel_id":2,"kernel_name":"ncclDevKernel_Generic"}}],)"
      R"("callback_records":{{"counter_collection":[{{"a":1}}]}},"buffer_records":{{"kernel_dispatch":[{},{}],)"
      R"("hip_api":[{},{}],"memory_copy":[{}],"marker_api":[{}],"pc_sample_host_trap":[{{"record":1}}]}}}})",
      pid, kernel(5, 2000, 3000, 1, 1), kernel(6, 3000, 9000, 2, 2),
      record(1, 1, 5, 1000, 1100, ""), record(1, 1, 6, 1200, 1250, ""),
      record(3, 1, 4, 100, 400,
             R"(,"dst_agent_id":{"handle":900},"src_agent_id":{"handle":800},"bytes":4096)"),
      record(4, 0, 9, 50, 9500, ""));
}

std::string file(int processes) {
  std::string text = R"({"rocprofiler-sdk-tool":[)";
  for (int i = 0; i < processes; ++i)
    text += (i > 0 ? "," : "") + process(100 + i);
  return text + "]}";
}

Trace read(std::string text, const ReadOptions& options = {}) {
  Input input = Input::of_text(std::move(text), "results.json");
  auto trace = read_rocprofiler(input, options);
  REQUIRE_MESSAGE(trace, trace.error().what);
  CHECK_FALSE(run::find_fault(trace->timeline));
  return *trace;
}

}  // namespace

TEST_CASE("rocprofiler's JSON gives kernels, copies, calls and markers of every process") {
  CHECK(looks_like_rocprofiler(file(1)));
  for (const int processes : {1, 3}) {
    const Trace trace = read(file(processes));
    const auto& t = trace.timeline;
    CHECK(trace.skipped == Skipped{});
    CHECK(t.num_ranks == processes);
    REQUIRE(t.spans.size() == as_size(6 * processes));
    CHECK(trace.facts.at("device") == "AMD Instinct MI300X");
    for (size_t i = 0; i < t.spans.size(); ++i) {
      const run::SpanType& type = t.types[as_size(t.spans[i].type)];
      const run::SpanDetail& detail = t.details[i];
      if (type.name == "Cijk_Ailk_Bljk") {
        CHECK(type.kind == run::SpanKind::compute);
        CHECK(detail.blocks == 4 * 2);  // 1000 work items in groups of 256, twice
        CHECK(detail.threads_per_block == 256);
        CHECK(detail.correlation == 5);
      }
      if (type.kind == run::SpanKind::communication) CHECK(type.name == "ncclDevKernel_Generic");
      if (type.kind == run::SpanKind::copy) CHECK(t.spans[i].bytes == 4096. * unit::B);
      if (detail.correlation < 0) CHECK(type.name == "forward");
    }
  }
}

TEST_CASE("the host's side of a rocprofiler trace can be left out") {
  CHECK(read(file(1), {.host = HostSpans::launches}).timeline.spans.size() == 5);
  CHECK(read(file(1), {.host = HostSpans::none}).timeline.spans.size() == 3);
}

TEST_CASE("a rocprofiler trace cut anywhere gives what was there") {
  const std::string text = file(2);
  for (size_t size = 30; size < text.size(); size += 11)
    CHECK(read(text.substr(0, size)).skipped.truncated);
}

TEST_CASE("the processes of one rocpd database are ranks, each with its names, marks and host") {
  auto made = must(run::Database::create());
  for (int i = 0; i < 2; ++i) {
    const std::string id = fmt::format("0000000{}_1111_2222_3333_444444444444", i);
    const std::string sql = fmt::format(
        "CREATE TABLE rocpd_string_{0} (id, string);INSERT INTO rocpd_string_{0} VALUES (1,"
        "'hipLaunchKernel'),(2,'roctxThreadRangeA');CREATE TABLE rocpd_info_kernel_symbol_{0} (id, "
        "display_name);INSERT INTO rocpd_info_kernel_symbol_{0} VALUES (1,'{1}');CREATE TABLE "
        "rocpd_event_{0} (id, stack_id, extdata);INSERT INTO rocpd_event_{0} VALUES (1,7,'{{}}'),"
        "(2,8,'{{\"message\": \"iteration 3\"}}');CREATE TABLE rocpd_region_{0} (start, \"end\", "
        "pid, tid, name_id, event_id);INSERT INTO rocpd_region_{0} VALUES (10,20,1,1,1,1),(5,900,1,"
        "1,2,2);CREATE TABLE rocpd_kernel_dispatch_{0} (start, \"end\", pid, agent_id, kernel_id, "
        "event_id);INSERT INTO rocpd_kernel_dispatch_{0} VALUES (100,200,1,4,1,1);",
        id, i == 0 ? "Cijk_Alik" : "ncclDevKernel_AllReduce");
    REQUIRE(made.execute(sql.c_str()));
  }
  for (const HostSpans host : {HostSpans::none, HostSpans::launches}) {
    auto copy = must(run::Database::from_bytes(*made.bytes(), "results.db"));
    const auto trace = must(read_rocpd(std::move(copy), "results.db", {.host = host}));
    const auto& t = trace.timeline;
    CHECK(t.num_ranks == 2);
    CHECK(t.spans.size() == (host == HostSpans::none ? 4 : 6));
    for (const run::Span& span : t.spans) {
      const run::SpanType& type = t.types[as_size(span.type)];
      if (type.kind == run::SpanKind::step) CHECK(type.name == "iteration 3");
      if (type.kind == run::SpanKind::communication) CHECK(span.rank == 1);
      if (type.kind == run::SpanKind::compute) CHECK(span.rank == 0);
    }
  }
}

TEST_CASE("tables of kernels of rocprofv3 and rocprof are read to the nanosecond") {
  const char* tables[] = {
      "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\","
      "\"End_Timestamp\"\n"
      "\"KERNEL_DISPATCH\",\"Agent 4\",1,\"Cijk_Ailk\",7,1700000000000000001,1700000000000000004\n"
      "\"KERNEL_DISPATCH\",\"Agent 4\",1,\"cut",
      "Index,KernelName,gpu-id,queue-id,BeginNs,EndNs\n"
      "0,\"Cijk_Ailk\",4,1,1700000000000000001,1700000000000000004\n1,x,4,1,,\n"};
  for (const char* text : tables) {
    CHECK(looks_like_rocprof_csv(text));
    Input input = Input::of_text(text, "x.csv");
    const auto trace = must(read_rocprof_csv(input, {}));
    REQUIRE(timed_spans(trace.timeline).size() == 1);
    CHECK(timed_spans(trace.timeline)[0].end.nanoseconds() == 3);
    CHECK(trace.timeline.lanes[0].name == "device 4 stream 1");
    CHECK(trace.skipped.events == 1);
  }
}

}  // namespace triplepoint::trace
