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
    {"training",
     "row_id,family,source_title,source_loc,date,gpu,gpu_note,n_gpus,model,params_b,layers,hidden,"
     "heads,ffn,vocab,seq,precision,gbs,mbs,tp,pp,vp,cp,ep,dp,dp_sharding,recompute,framework,"
     "workload,extra,step_time_s,tokens_per_s_per_gpu,tokens_per_s_total,seqs_per_s_total,"
     "tflops_per_gpu,mfu_pct,hfu_pct,mem_gib,conv,notes"},
    {"vtrain",
     "row_id,family,source_loc,gpu,precision,n_gpus,gbs,mbs,hidden,heads,layers,seq,tp,dp,pp,"
     "step_time_s,split"},
    {"hf-sweep",
     "job_id,name,nodes,seq_len,mbs,batch_accum,dp,pp,tp,zero_stage,hidden_size,num_layers,"
     "num_heads,num_kv_heads,interm_dim,vocab_size,num_params,status,tok/s/gpu,mTFLOPs,mfu,"
     "Mem Alloc (GB),Mem Res (GB),after_pp_fix"},
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
  const auto kind = recognize_table(table_of("row_id,model,n_gpus,framework,seconds\na,b,8,c,1\n"));
  REQUIRE(!kind);
  CHECK(kind.error().what.find("\"training\"") != std::string::npos);
  CHECK(kind.error().what.find("step_time_s") != std::string::npos);
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
