// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/tables/table_kind.h"

#include <algorithm>

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

CsvTable table_of(std::string text) {
  Result<CsvTable> table = CsvTable::parse(std::move(text), "rows.csv");
  REQUIRE_MESSAGE(table, table.error().what);
  return *std::move(table);
}

// Headers as normalise.py writes them, with columns that no kind needs in between.
struct Header {
  const char *kind, *columns;
};
const Header headers[] = {
    {"jobs",
     "row_id,family,sweep,source,model,cluster,cluster.num_nodes,stack,plan.micro_batch_size,"
     "plan.global_batch_size,step_time_s,tokens_per_s_per_gpu,mem_gib,mem_kind,assumptions"},
    {"kernels",
     "row_id,family,cluster,batch,causal,dtype,gpu,k,kernel_source,latency_us,m,n,operand_bytes,"
     "precision,kind,assumptions,skip"},
    {"steady-power",
     "row_id,family,cap_w,clock_mhz,gpu,kernel,lock_mhz,power_w,precision,rate,assumptions,skip"},
    {"node-power",
     "row_id,family,model,cluster,plan.global_batch_size,benchmark,measured_at,node_mean_w,run_s"},
    {"inference",
     "row_id,family,model,cluster,plan.global_batch_size,answer_tokens,power_w,prompt_tokens,"
     "sequences,assumptions,skip"},
    {"facts", "row_id,family,gpu,key,unit,value,assumptions,skip"},
    {"thermal-snapshots", "row_id,cluster,gpu_index,power_w,snapshot_id,temperature_c,skip"},
    {"thermal-traces", "cluster,node,power_w,t_s,temperature_c,trace_id,assumptions,skip"},
};

TEST_CASE("every kind of table is recognized by its header") {
  for (const Header& header : headers) {
    CAPTURE(header.kind);
    const CsvTable table = table_of(std::string(header.columns) + "\n");
    const Result<const TableKind*> kind = recognize_table(table);
    REQUIRE_MESSAGE(kind, kind.error().what);
    CHECK((*kind)->name == header.kind);
  }
}

TEST_CASE("the order of columns does not matter") {
  for (const Header& header : headers) {
    CAPTURE(header.kind);
    std::vector<std::string> columns = table_of(std::string(header.columns) + "\n").header();
    std::ranges::reverse(columns);
    const CsvTable table = table_of(fmt::format("{}\n", fmt::join(columns, ",")));
    const Result<const TableKind*> kind = recognize_table(table);
    REQUIRE_MESSAGE(kind, kind.error().what);
    CHECK((*kind)->name == header.kind);
  }
}

TEST_CASE("a table without rows is scored, and says nothing") {
  const spec::Library library = spec::default_library();
  for (const Header& header : headers) {
    CAPTURE(header.kind);
    const Result<TableScores> scores =
        score_table(table_of(std::string(header.columns) + "\n"), {.library = library});
    REQUIRE_MESSAGE(scores, scores.error().what);
    CHECK(scores->table == header.kind);
    CHECK(scores->rows == 0);
    CHECK(scores->scored.empty());
    CHECK(scores->skipped.empty());
  }
}

TEST_CASE("an unknown header is told which table is nearest and what it lacks") {
  const auto kind = recognize_table(table_of("row_id,family,cluster,gbs\na,b,c,8\n"));
  REQUIRE(!kind);
  CHECK(kind.error().what.find("\"jobs\"") != std::string::npos);
  CHECK(kind.error().what.find("plan.global_batch_size") != std::string::npos);
  CHECK(kind.error().what.find("normalise.py") != std::string::npos);
  CHECK(!recognize_table(table_of("a,b\n1,2\n")));
}

TEST_CASE("own rows need neither a name nor a family") {
  const auto kind = recognize_table(table_of("model,cluster,plan.global_batch_size,step_time_s\n"));
  REQUIRE(kind);
  CHECK((*kind)->name == std::string("jobs"));
  const CsvTable table = CsvTable::parse("cluster\na\n", "runs/own.csv").value();
  CHECK(Cells(table, 0).family() == "own");
  CHECK(Cells(table, 0).id() == "line 2");
}

TEST_CASE("a table as it is published is refused with the command that turns it into rows") {
  const auto kind = recognize_table(
      table_of("row_id,family,kind,gpu,dtype,op,m,n,k,heads,msg_bytes,latency_us,notes\n"));
  REQUIRE(!kind);
  CHECK(kind.error().what.find("normalise.py") != std::string::npos);
}

}  // namespace
}  // namespace triplepoint::calibrate
