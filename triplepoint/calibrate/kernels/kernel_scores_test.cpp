// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernels/kernel_scores.h"

#include <doctest/doctest.h>

#include "triplepoint/perf/kernel_time.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

Result<KernelRow> first_row(const std::string& header, const std::string& row) {
  const CsvTable table = parsed(header + "\n" + row + "\n");
  return read_kernel_row(Cells(table, 0));
}

constexpr const char* gemm_columns =
    "gpu,kernel_source,precision,operand_bytes,m,n,k,latency_us,power_w,power_limit_w";

KernelRow gemm(const std::string& row) {
  return first_row(gemm_columns, row).value();
}

KernelRow attention(const std::string& causal_and_pass) {
  return first_row("kind,gpu,precision,batch,seq,heads,kv_heads,head_dim,latency_us,causal,pass",
                   "attention,h100,bf16,1,4096,16,4,128,1000," + causal_and_pass)
      .value();
}

spec::Gpu gpu(const char* name) {
  return spec::load_gpu(spec::default_library(), name).value();
}

TableScores scores_of(const std::string& rows) {
  return score_kernel_table(parsed("row_id,family,kind," + std::string(gemm_columns) + "\n" + rows),
                            {.library = spec::default_library()})
      .value();
}

TEST_CASE("a row of products becomes an op with its flops and bytes") {
  const KernelRow row = gemm("h100,torch_flow,bf16,2,512,1024,2048,100,,");
  CHECK(row.op.flops / unit::FLOP == 2.0 * 512 * 1024 * 2048);
  CHECK(row.op.hbm_bytes / unit::B == 2.0 * (512 * 2048 + 2048 * 1024 + 512 * 1024));
  CHECK(row.measured / unit::us == Approx(100));
  CHECK(row.repetition == Repetition::burst);
}

TEST_CASE("a row with a power reading was looped") {
  const KernelRow row = gemm("h200,vllm_default,bf16,2,512,1024,2048,100,350,700");
  CHECK(row.repetition == Repetition::looped);
  CHECK(row.power_share == Approx(0.5));
}

TEST_CASE("rows that say too little are errors") {
  CHECK(!first_row(gemm_columns, "h100,,bf16,2,512,,2048,100,,"));
  CHECK(!first_row(gemm_columns, "h100,,posit8,2,512,512,512,100,,"));
  CHECK(!first_row(gemm_columns, "h100,,bf16,2,512,512,512,,,"));
}

TEST_CASE("backward attention has two and a half times the flops of forward") {
  const Flops forward = attention("true,forward").op.flops;
  CHECK(attention("true,backward").op.flops / forward == Approx(2.5));
  CHECK(attention("false,forward").op.flops / forward == Approx(2));
  CHECK(attention("true,forward").op.attention.query_groups == 4);
}

TEST_CASE("a large looped product runs at the clock of the power limit, a burst at the highest") {
  const KernelRow looped = gemm("h200,other,bf16,2,8192,8192,8192,1500,700,700");
  const KernelRow burst = gemm("h200,other,bf16,2,8192,8192,8192,1500,,");
  const spec::Gpu h200 = gpu("h200");
  CHECK(sustained_clock_ratio(h200, looped.op) < 1);
  CHECK(predicted_time(h200, looped, {}) > predicted_time(h200, burst, {.launches = 1}));
  CHECK(predicted_time(h200, burst, {.launches = 1}) == perf::kernel_time(h200, burst.op).at(1));
}

TEST_CASE("a long burst is as slow as a loop") {
  const KernelRow looped = gemm("h200,other,bf16,2,8192,8192,8192,1500,700,700");
  const KernelRow burst = gemm("h200,other,bf16,2,8192,8192,8192,1500,,");
  const spec::Gpu h200 = gpu("h200");
  Seconds before;
  for (const double launches : {1.0, 30.0, 100.0, 1e3, 1e6}) {
    const Seconds time = predicted_time(h200, burst, {.launches = launches});
    CHECK(time >= before);
    before = time;
  }
  CHECK(before / predicted_time(h200, looped, {}) == Approx(1).epsilon(1e-4));
}

TEST_CASE("what a benchmark times besides the product is added, and its host sets a floor") {
  const KernelRow row = gemm("h100,other,fp8,1,4096,4096,4096,100,,");
  const spec::Gpu h100 = gpu("h100");
  const Seconds bare = predicted_time(h100, row, {.launches = 1});
  const Seconds cast =
      predicted_time(h100, row, {.cast_start = 5 * unit::us, .launches = 1}) - bare;
  CHECK(cast / unit::us == Approx(5));
  CHECK(predicted_time(h100, row, {.host_time = 1 * unit::s, .launches = 1}) == 1 * unit::s);
}

TEST_CASE("the shipped benchmarks are read, and the most particular one counts") {
  const auto known = load_benchmarks(spec::default_library());
  REQUIRE_MESSAGE(known, known.error().what);
  KernelRow row;
  row.gpu = "b200";
  row.source = "vllm_default";
  row.dtype = "fp8_block";
  CHECK(benchmark_of(row, *known).host_time > 100 * unit::us);
  row.dtype = "bfloat16";
  CHECK(benchmark_of(row, *known).host_time == Seconds());
  row.gpu = "mi300x";
  row.source = "something new";
  CHECK(benchmark_of(row, *known) == KernelBenchmark{});
}

TEST_CASE("a large product over and over sits just under the board's limit") {
  const TableScores scores =
      scores_of("a,f,gemm,h200,vllm_default,bf16,2,8192,8192,8192,1600,691,700\n");
  REQUIRE(scores.scored.size() == 2);
  const ScoredRow& power = scores.scored[1];
  CHECK(power.quantity == "power_w");
  CHECK(power.family == "power f/large");
  CHECK(power.measured == Approx(691));
  CHECK(power.predicted <= 700);
  CHECK(power.predicted > 670);
}

TEST_CASE("the measured latency of a long kernel does not enter its predicted power") {
  const auto with_latency = [](const char* us) {
    return scores_of(
               fmt::format("a,f,gemm,h200,vllm_default,bf16,2,8192,8192,8192,{},691,700\n", us))
        .scored[1]
        .predicted;
  };
  CHECK(with_latency("1600") == with_latency("3200"));
}

TEST_CASE("a row that its table marks as skipped keeps the reason, a GPU without numbers has one") {
  const TableScores scores =
      score_kernel_table(parsed("row_id,family,kind,gpu,precision,m,n,k,latency_us,skip\n"
                                "a,f,gemm,,,,,,,no GPU\n"
                                "b,f,gemm,abacus,bf16,512,512,512,100,\n"),
                         {.library = spec::default_library()})
          .value();
  CHECK(scores.scored.empty());
  REQUIRE(scores.skipped.size() == 2);
  CHECK(scores.skipped[0].reason == "no GPU");
  CHECK(!scores.skipped[1].reason.empty());
}

TableScores collective_scores_of(const std::string& rows) {
  const auto table = CsvTable::parse(
      "row_id,family,kind,cluster,nic_bandwidth,nvls,op,n_gpus,n_nodes,msg_bytes,latency_us,"
      "busbw_gb_per_s\n" +
          rows,
      "test.csv");
  TableScores scores;
  score_collective_rows(table.value(), spec::default_library(), scores);
  return scores;
}

TEST_CASE("bandwidths and latencies of one prediction agree") {
  const TableScores scores = collective_scores_of(
      "a,f,collective,dgx-h100,,,all_gather,8,1,1073741824,2000,\n"
      "b,f,collective,dgx-h100,,,all_gather,8,1,1073741824,,400\n");
  REQUIRE(scores.scored.size() == 2);
  CHECK(scores.scored[0].quantity == "latency_us");
  CHECK(scores.scored[1].quantity == "busbw_gb_per_s");
  CHECK(scores.scored[0].family == "f/large");
  const double bytes = 1073741824;
  CHECK(scores.scored[1].predicted == Approx(bytes * 7 / 8 / scores.scored[0].predicted / 1000));
}

TEST_CASE("a row's own NICs and switches count") {
  const TableScores scores = collective_scores_of(
      "slow,f,collective,dgx-h100,100 Gb/s,,all_gather,16,2,1073741824,2000,\n"
      "fast,f,collective,dgx-h100,400 Gb/s,,all_gather,16,2,1073741824,2000,\n"
      "off,f,collective,dgx-h100,,false,all_reduce,8,1,1073741824,2000,\n"
      "on,f,collective,dgx-h100,,true,all_reduce,8,1,1073741824,2000,\n");
  REQUIRE(scores.scored.size() == 4);
  CHECK(scores.scored[0].predicted > 2 * scores.scored[1].predicted);
  CHECK(scores.scored[0].notes.size() == 1);
  CHECK(scores.scored[2].predicted > scores.scored[3].predicted);
}

TEST_CASE("collectives that say too little are skipped with a reason") {
  const TableScores scores = collective_scores_of(
      "a,f,collective,dgx-h100,,,gossip,8,1,1024,1,\n"
      "b,f,collective,dgx-h100,,,all_reduce,1,1,1024,1,\n"
      "c,f,collective,dgx-h100,,,all_reduce,8,1,1024,,\n"
      "d,f,collective,abacus,,,all_reduce,8,1,1024,1,\n");
  CHECK(scores.scored.empty());
  REQUIRE(scores.skipped.size() == 4);
  CHECK(scores.skipped[0].reason == "no collective is called 'gossip'");
  CHECK(scores.skipped[1].reason == "fewer than two GPUs are stated");
  CHECK(scores.skipped[2].reason == "no latency or rate is stated");
}

}  // namespace

}  // namespace triplepoint::calibrate
