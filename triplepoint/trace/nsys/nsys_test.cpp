// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/store/store_database.h"
#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::trace {

namespace {

constexpr int64_t global_id(int64_t process, int64_t thread = 0) {
  return (int64_t{1} << 56) + process * 0x1000000 + thread;
}

void must(run::Database& database, const std::string& sql) {
  const auto done = database.execute(sql.c_str());
  REQUIRE_MESSAGE(done, done.error().what);
}

/// What is in every export, and what each version adds.
enum class Parts { kernels_only, all };

/// An export of two processes on two devices, which use the same correlation ids.
std::string exported(Parts parts) {
  auto made = must(run::Database::create());
  run::Database& db = made;
  must(db, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  must(db,
       "INSERT INTO StringIds VALUES "
       "(1,'ampere_gemm'),(2,'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'),"
       "(3,'cudaLaunchKernel_v7000'),(4,'iteration 7'),(5,'python')");
  must(db,
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, contextId INT, "
       "streamId INT, correlationId INT, globalPid INT, demangledName INT, shortName INT, gridX "
       "INT, gridY INT, gridZ INT, blockX INT, blockY INT, blockZ INT)");
  for (int64_t i = 0; i < 2; ++i)
    must(db,
         fmt::format(
             "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({},{},{},1,7,50,{},1,1,4,2,1,256,1,1),"
             "({},{},{},1,9,51,{},2,2,24,1,1,512,1,1)",
             1000 + i, 3000, 1 - i, global_id(100 + i), 4000 + i, 9000, 1 - i, global_id(100 + i)));
  if (parts == Parts::kernels_only) return *db.bytes();
  must(db,
       "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INT, end INT, deviceId INT, streamId INT, "
       "correlationId INT, globalPid INT, bytes INT, copyKind INT)");
  must(db, fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (100,200,0,7,40,{},4096,1)",
                       global_id(101)));
  must(db,
       "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, eventClass INT, globalTid "
       "INT, correlationId INT, nameId INT, returnValue INT)");
  for (int64_t i = 0; i < 2; ++i)
    must(db, fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES "
                         "(500,600,0,{},50,3,0),(700,650,0,{},51,3,0)",
                         global_id(100 + i, 11), global_id(100 + i, 11)));
  must(db,
       "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, textId INT, "
       "globalTid INT)");
  must(db, fmt::format(
               "INSERT INTO NVTX_EVENTS VALUES (0,9500,59,NULL,4,{0}),(10,NULL,34,'mark',NULL,{0}),"
               "(20,30,60,'load',NULL,{0})",
               global_id(100, 11)));
  must(db, "CREATE TABLE ThreadNames (nameId INT, priority INT, globalTid INT)");
  must(db, fmt::format("INSERT INTO ThreadNames VALUES (5,0,{})", global_id(100, 11)));
  must(db, "CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INT)");
  must(db, "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000)");
  must(db, "CREATE TABLE TARGET_INFO_GPU (id INT, name TEXT)");
  must(db, "INSERT INTO TARGET_INFO_GPU VALUES (0,'NVIDIA H100 80GB HBM3')");
  return *db.bytes();
}

Trace read(std::string bytes, const ReadOptions& options = {}) {
  Input input = Input::of_text(std::move(bytes), "report.sqlite");
  auto trace = read_nsys(input, options);
  REQUIRE_MESSAGE(trace, trace.error().what);
  CHECK_FALSE(run::find_fault(trace->timeline));
  return *trace;
}

}  // namespace

TEST_CASE("an export of Nsight Systems gives kernels by process, even if it has nothing else") {
  const Trace trace = read(exported(Parts::kernels_only));
  const auto& t = trace.timeline;
  REQUIRE(t.spans.size() == 4);
  CHECK(t.num_ranks == 2);
  CHECK_FALSE(trace.epoch_unix_ns);
  for (size_t i = 0; i < t.spans.size(); ++i) {
    const run::SpanType& type = t.types[as_size(t.spans[i].type)];
    const bool talks = type.kind == run::SpanKind::communication;
    CHECK(type.collective == (talks ? std::optional(spec::Collective::all_reduce) : std::nullopt));
    CHECK(t.details[i].blocks == (talks ? 24 : 8));
    CHECK(t.details[i].threads_per_block == (talks ? 512 : 256));
    CHECK(t.lanes[as_size(t.details[i].lane)].number == (talks ? 9 : 7));
    // The process on device 0 is rank 0; its number is the higher one here.
    CHECK(t.lanes[as_size(t.details[i].lane)].name.starts_with(
        fmt::format("device {}", t.spans[i].rank)));
  }
}

TEST_CASE("runtime calls, copies, ranges and the wall clock come in where the export has them") {
  const Trace trace = read(exported(Parts::all));
  const auto& t = trace.timeline;
  CHECK(trace.epoch_unix_ns == 1'700'000'000'000'000'000);
  CHECK(trace.facts.at("device") == "NVIDIA H100 80GB HBM3");
  CHECK(trace.skipped.events == 2);  // two calls end before they begin
  int steps = 0, launches = 0;
  for (size_t i = 0; i < t.spans.size(); ++i) {
    const run::SpanType& type = t.types[as_size(t.spans[i].type)];
    if (type.kind == run::SpanKind::step) ++steps;
    if (type.name == "cudaLaunchKernel") ++launches;
    if (type.kind != run::SpanKind::copy) continue;
    CHECK(type.name == "Memcpy HtoD");
    CHECK(t.spans[i].bytes == 4096. * unit::B);
  }
  CHECK(steps == 1);
  CHECK(launches == 2);
  CHECK(t.spans.size() == 4 + 1 + 2 + 2);
  // Steps are kept, whatever is left out of the host.
  CHECK(read(exported(Parts::all), {.host = HostSpans::launches}).timeline.spans.size() == 8);
  CHECK(read(exported(Parts::all), {.host = HostSpans::none}).timeline.spans.size() == 6);
}

/// An export of one process, from the statements that make it.
std::string export_of(std::initializer_list<std::string> statements) {
  auto made = must(run::Database::create());
  must(made, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  must(made, "INSERT INTO StringIds VALUES (1,'ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)')");
  for (const std::string& statement : statements)
    must(made, statement);
  return *made.bytes();
}
std::string kernel_table(const char* name, const std::string& rows) {
  return fmt::format(
      "CREATE TABLE {0} (start INT, end INT, deviceId INT, streamId INT, correlationId INT, "
      "globalPid INT, demangledName INT); INSERT INTO {0} VALUES {1}",
      name, rows);
}

TEST_CASE("NCCL's ranges tell kind, size and communicator of the kernels launched in them") {
  const int64_t process = global_id(100), thread = global_id(100, 11);
  const Trace trace = read(
      export_of(
          {kernel_table("CUPTI_ACTIVITY_KIND_KERNEL",
                        fmt::format("(1000,2000,0,7,50,{},1)", process)),
           "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, "
           "correlationId INT)",
           fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (500,600,{},50)", thread),
           "CREATE TABLE NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, "
           "jsonText TEXT)",
           fmt::format(
               R"(INSERT INTO NVTX_EVENTS VALUES (400,700,59,'nccl:all_to_all',{0},NULL),)"
               R"((450,650,59,'ncclGroupEnd',{0},'{{"NCCL unique ID":255,"Message size [bytes]":4096,)"
               R"("No. of ranks":8}}'))",
               thread)}),
      {.host = HostSpans::none});
  const auto& t = trace.timeline;
  REQUIRE(t.spans.size() == 1);
  CHECK(t.types[as_size(t.spans[0].type)].collective == spec::Collective::all_to_all);
  CHECK(t.spans[0].bytes == 4096. * unit::B);
  CHECK(t.communicators[as_size(t.details[0].communicator)] == run::Communicator{"ff", {}, 8});
}

TEST_CASE("graphs that are traced as a whole are of unknown kind and told, and not counted twice") {
  const int64_t process = global_id(100);
  const std::string graph = fmt::format(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, deviceId INT, streamId "
      "INT, correlationId INT, globalPid INT, graphId INT); INSERT INTO "
      "CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1000,9000,0,7,50,{},3)",
      process);
  const Trace whole = read(export_of({graph}));
  REQUIRE(whole.timeline.spans.size() == 1);
  CHECK(whole.timeline.types[0].kind == run::SpanKind::other);
  CHECK(whole.skipped.notes.size() == 1);
  const Trace nodes = read(export_of(
      {graph, kernel_table("CUPTI_ACTIVITY_KIND_KERNEL_V2",
                           fmt::format("(1000,2000,0,7,50,{0},1),(0,0,0,7,51,{0},1)", process))}));
  REQUIRE(timed_spans(nodes.timeline).size() ==
          1);  // of a table of a later version; one has no time
  CHECK(nodes.timeline.types[0].kind == run::SpanKind::communication);
  CHECK(nodes.skipped.events == 1);
}

TEST_CASE(
    "rocprofv3's database gives kernels with their launches, copies and calls of each process") {
  const std::string id = "_00006462_73b0_7e1f_9f3a_8f36d3a2a1b0";
  std::vector<std::string> statements;
  const auto table = [&](const char* name, const char* columns, const char* rows) {
    statements.push_back(fmt::format("CREATE TABLE {0}{1} ({2}); INSERT INTO {0}{1} VALUES {3}",
                                     name, id, columns, rows));
  };
  table("rocpd_string", "id INT, string TEXT",
        "(1,'hipLaunchKernel'),(2,'MEMORY_COPY_HOST_TO_DEVICE')");
  table("rocpd_info_kernel_symbol", "id INT, display_name TEXT", "(5,'Cijk_Ailk_Bljk')");
  table("rocpd_info_agent", "id INT, type_index INT", "(8,2)");
  table("rocpd_event", "id INT, stack_id INT", "(30,77),(31,77)");
  table("rocpd_kernel_dispatch",
        "start INT, end INT, pid INT, agent_id INT, kernel_id INT, stream_id INT, event_id INT, "
        "workgroup_size_x INT, workgroup_size_y INT, workgroup_size_z INT, grid_size_x INT, "
        "grid_size_y INT, grid_size_z INT",
        "(2000,5000,1,8,5,4,30,256,1,1,1000,2,1),(2000,6000,2,8,5,4,30,256,1,1,1000,2,1)");
  table("rocpd_memory_copy", "start INT, end INT, pid INT, dst_agent_id INT, name_id INT, size INT",
        "(100,200,1,8,2,64)");
  table("rocpd_region", "start INT, end INT, pid INT, tid INT, name_id INT, event_id INT",
        "(1000,1500,1,9,1,31),(1000,1500,3,9,1,31)");
  auto made = must(run::Database::create());
  for (const std::string& statement : statements)
    must(made, statement);
  const Trace trace = read(*made.bytes());
  const auto& t = trace.timeline;
  CHECK(trace.format == "rocpd");
  CHECK(t.num_ranks == 2);
  REQUIRE(t.spans.size() == 4);  // the third process has nothing on a device
  CHECK(t.types[as_size(t.spans[0].type)].name == "MEMORY_COPY_HOST_TO_DEVICE");
  CHECK(t.types[as_size(t.spans[1].type)].name == "hipLaunchKernel");
  CHECK(t.details[1].correlation == 77);
  CHECK(t.details[2].correlation == 77);
  CHECK(t.details[2].blocks == 4 * 2);
  CHECK(t.lanes[as_size(t.details[2].lane)].name == "device 2 stream 4");
  auto empty = run::Database::create();
  must(*empty, "CREATE TABLE rocpd_string (id INT, string TEXT)");
  Input input = Input::of_text(*empty->bytes(), "results.db");
  const auto none = read_nsys(input, {});
  REQUIRE(!none);
  CHECK(none.error().what.find("rocpd") != std::string::npos);
}

TEST_CASE("other databases and damaged exports are errors in a sentence") {
  auto other = must(run::Database::create());
  must(other, "CREATE TABLE t (a INT)");
  std::string bytes = exported(Parts::all);
  std::string broken = bytes;
  for (size_t i = 100; i < broken.size(); i += 3)
    broken[i] = static_cast<char>(broken[i] ^ 0x5a);
  for (const std::string& text : {*other.bytes(), std::string("SQLite format 3\0 and no more", 28),
                                  broken, bytes.substr(0, 300)}) {
    Input input = Input::of_text(text, "x.sqlite");
    const auto trace = read_nsys(input, {});
    if (!trace) CHECK(trace.error().what.size() > 20);
    CHECK_FALSE((trace && trace->timeline.spans.size() > 9));
  }
  Input input = Input::of_text(*other.bytes(), "x.sqlite");
  CHECK_FALSE(read_nsys(input, {}));
}

TEST_CASE("an export without ids of processes is of one, and columns may be written in capitals") {
  auto made = must(run::Database::create());
  run::Database& db = made;
  must(db, "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
  must(db, "INSERT INTO StringIds VALUES (1,'ampere_gemm')");
  must(db,
       "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (Start INT, END INT, DEVICEID INT, streamId INT, "
       "correlationId INT, shortName INT)");
  must(db, "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (100,200,0,7,1,1),(300,400,0,7,2,1)");
  Input input = Input::of_text(*db.bytes(), "x.sqlite");
  const Trace trace = read_nsys(input, {}).value();
  CHECK(trace.timeline.spans.size() == 2);
  CHECK(trace.timeline.num_ranks == 1);
}

}  // namespace triplepoint::trace
