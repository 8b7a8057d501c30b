// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/table_kind.h"

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/files.h"

namespace triplepoint::calibrate {
namespace {

CsvTable table_of(std::string text) {
  Result<CsvTable> table = CsvTable::parse(std::move(text), "rows.csv");
  REQUIRE_MESSAGE(table, table.error().what);
  return *std::move(table);
}

// The headers as the tables are published, with columns that nobody asks for in between.
struct Header {
  const char *kind, *columns;
};
const Header headers[] = {
    {"jobs",
     "row_id,family,sweep,source,model,cluster,cluster.num_nodes,stack,plan.micro_batch_size,"
     "plan.global_batch_size,step_time_s,tokens_per_s_per_gpu,mem_gib,mem_kind,assumptions"},
    {"kernels",
     "row_id,family,kind,source_title,source_loc,gpu,dtype,op,m,n,k,batch,heads,kv_heads,head_dim,"
     "seq,causal,pass,n_gpus,n_nodes,interconnect,msg_bytes,latency_us,tflops,gbps,busbw_gbps,"
     "tflops_derived,busbw_derived,power_w,power_limit_w,notes"},
    {"gemm",
     "system,device,framework,version,kernel_source,dtype,m,n,k,latency_ms,tflops,power_w,"
     "power_limit_w"},
    {"attention",
     "system,device,framework,version,kernel_source,dtype,kv_dtype,batch,seq,heads,kv_heads,"
     "head_dim,latency_ms,tflops_causal,power_w,power_limit_w"},
    {"collectives",
     "system,device,nccl_version,op,dtype,num_gpus,message_size_elements,latency_ms"},
    {"dvfs",
     "row_id,family,source_title,gpu,form,gpu_index,workload,precision,lock_sm_mhz,power_cap_w,"
     "sm_clock_avg_mhz,power_avg_w,temp_avg_c,perf,perf_unit,notes"},
    {"node-power-runs",
     "run_id,family,source_title,source_loc,date,gpu,cooling,measured_at,benchmark,workload,"
     "n_nodes,n_gpus,run_s,sample_dt_s,node_mean_w,node_p50_w,max_w"},
    {"node-power-nodes",
     "run_id,source_loc,gpu,node,mean_w,p5_w,p50_w,p95_w,max_w,min_w,pre_run_w,post_run_w,"
     "energy_kwh,dt_s,n_samples"},
    {"node-power-traces", "trace_id,t_s,power_w,n_nodes"},
    {"inference-power",
     "family,source_loc,gpu,n_gpus,task,model,params_b,precision,tp,batch,throughput,"
     "throughput_unit,power_mean_total_w,power_mean_per_gpu_w"},
    {"facts",
     "row_id,gpu_or_system,category,quantity,value,unit,condition,source_title,source_loc,trust,"
     "notes"},
    {"thermal-snapshots",
     "snapshot_id,gpu,gpu_index,temp_c,temp_sensor,power_w,power_cap_w,sm_mhz,load,cooling,"
     "source_loc,trust,notes"},
    {"thermal-transients", "trace_id,gpu,t_s,power_w,temp_core_c,temp_edge_c,sm_mhz,util_pct"},
    {"hardware", "gpu,form,bf16_dense_tflops,fp8_dense_tflops,hbm_gb,memory_mib,hbm_tb_s,tdp_w"},
};

TEST_CASE("every published table is known by its header") {
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
    std::reverse(columns.begin(), columns.end());
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

TEST_CASE("every row of a table is scored or skipped with a reason") {
  const spec::Library library = spec::default_library();
  const CsvTable table = table_of(
      "gpu,task,throughput,power_mean_per_gpu_w\nH100,inference,3,400\nB200,inference,4,500\n");
  const Result<TableScores> scores = score_table(table, {.library = library});
  REQUIRE_MESSAGE(scores, scores.error().what);
  CHECK(scores->rows == 2);
  REQUIRE(scores->skipped.size() == 2);
  CHECK(!scores->skipped[0].reason.empty());
  CHECK(scores->skipped[0].row_id != scores->skipped[1].row_id);
}

TEST_CASE("rows of one family are the rows which name it") {
  const CsvTable table = table_of("row_id,family\na,x\nb,y\nc,x\n\"d,1\",x\n");
  const Result<CsvTable> only = rows_of_family(table, "x");
  REQUIRE(only);
  REQUIRE(only->rows() == 3);
  CHECK(only->at(2, 0) == "d,1");
  CHECK(rows_of_family(table, "z")->rows() == 0);
}

TEST_CASE("every table of the shared measurements is recognized") {
  if (!std::filesystem::is_directory(TPT_SHARED_DIR "/data")) {
    MESSAGE("skipped: no shared data beside the tree");
    return;
  }
  const Result<std::vector<Path>> files = list_files(TPT_SHARED_DIR "/data", ".csv");
  REQUIRE(files);
  for (const Path& file : *files) {
    const std::string name = file.filename().string();
    // Tables of trainings are read by validation/normalise.py.
    if (name.starts_with("train_perf") || name.starts_with("hf_")) continue;
    if (file.string().find("/traces/") != std::string::npos) continue;
    CAPTURE(file.string());
    Result<std::string> text = read_file(file);
    REQUIRE(text);
    const Result<const TableKind*> kind = recognize_table(table_of(*std::move(text)));
    CHECK_MESSAGE(kind, (kind ? "" : kind.error().what));
  }
}

}  // namespace
}  // namespace triplepoint::calibrate
