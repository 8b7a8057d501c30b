// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/training_tables.h"

#include <algorithm>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/calibrate/table_kind.h"
#include "triplepoint/calibrate/training_row.h"

namespace triplepoint::calibrate {
namespace {

const spec::Library library = spec::default_library();

const char* const training_header =
    "row_id,family,gpu,gpu_note,n_gpus,model,layers,hidden,heads,ffn,vocab,seq,precision,gbs,mbs,"
    "tp,pp,vp,cp,ep,dp,dp_sharding,recompute,framework,workload,extra,step_time_s,"
    "tokens_per_s_per_gpu,tokens_per_s_total,seqs_per_s_total,tflops_per_gpu,mfu_pct,mem_gib,"
    "conv\n";

/// One row of eight H100 that train an 8B Llama at so many sequences a microbatch.
std::string llama_row(const std::string& id, const std::string& micro,
                      const std::string& measurements) {
  return fmt::format(
      "{},ours,H100-SXM-80GB,,8,Llama3-8B,,,,,,8192,BF16,64,{},2,1,,1,,4,,full,"
      "Megatron-Core,pretrain,,{}\n",
      id, micro, measurements);
}

CsvTable table_of(std::string text) {
  Result<CsvTable> table = CsvTable::parse(std::move(text), "rows.csv");
  REQUIRE_MESSAGE(table, table.error().what);
  return *std::move(table);
}

TableScores scores_of(const std::string& text, int threads = 1) {
  Result<TableScores> scores =
      score_table(table_of(text), {.library = library, .threads = threads});
  REQUIRE_MESSAGE(scores, scores.error().what);
  return *std::move(scores);
}

TEST_CASE("every quantity of a row follows from one predicted step") {
  const TableScores scores =
      scores_of(training_header + llama_row("time", "1", "2,,,,,,,") +
                llama_row("each", "1", ",9000,,,,,,") + llama_row("all", "1", ",,70000,,,,,") +
                llama_row("sequences", "1", ",,,9,,,,") + llama_row("flops", "1", ",,,,400,,,N6"));
  REQUIRE(scores.scored.size() == 5);
  CHECK(scores.skipped.empty());
  const double seconds = scores.scored[0].predicted, tokens = 64.0 * 8192;
  CHECK(scores.scored[0].quantity == "step_time_s");
  CHECK(scores.scored[1].predicted == doctest::Approx(tokens / seconds / 8));
  CHECK(scores.scored[2].predicted == doctest::Approx(tokens / seconds));
  CHECK(scores.scored[3].predicted == doctest::Approx(64 / seconds));
  CHECK(scores.scored[4].quantity == "tflops_per_gpu");
  // 6 N tokens over the step, shared by 8.
  CHECK(scores.scored[4].predicted ==
        doctest::Approx(6 * 8.03e9 * tokens / seconds / 8 / 1e12).epsilon(0.001));
}

TEST_CASE("the first quantity that a row has is scored, and only that") {
  const TableScores scores =
      scores_of(training_header + llama_row("a", "1", "2,9000,70000,9,400,,,N6"));
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].quantity == "step_time_s");
}

TEST_CASE("memory is scored beside speed") {
  const TableScores scores = scores_of(training_header + llama_row("a", "1", "2,,,,,,50,"));
  REQUIRE(scores.scored.size() == 2);
  CHECK(scores.scored[1].quantity == "mem_gib");
  CHECK(scores.scored[1].predicted > 5);
  CHECK(scores.scored[1].predicted < 80);
}

TEST_CASE("a row that ran and does not fit by our estimate is wholly wrong, not left out") {
  const std::string too_much =
      "big,ours,H100-SXM-80GB,,8,Llama3-70B,,,,,,8192,BF16,64,8,1,1,,1,,8,,none,Megatron-Core,"
      "pretrain,,9,,,,,,,\n";
  const TableScores scores = scores_of(training_header + too_much);
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].error_pct() == doctest::Approx(-100));
  CHECK(scores.fit.false_oom == std::vector<std::string>{"big"});
}

TEST_CASE("rows that cannot be expressed are skipped with their reason, and the rest goes on") {
  const std::string header = training_header;
  const TableScores scores = scores_of(
      header +
      "t5,ours,H100,,8,T5 3B,,,,,,512,BF16,64,1,1,1,,,,8,,,Megatron-LM,pretrain,,2,,,,,,,\n" +
      "who,ours,H100,,8,Frobnicator 9B,,,,,,512,BF16,64,1,1,1,,,,8,,,X,pretrain,,2,,,,,,,\n" +
      "tpu,ours,TPU v5p,,8,Llama3-8B,,,,,,8192,BF16,64,1,1,1,,,,8,,,X,pretrain,,2,,,,,,,\n" +
      llama_row("nothing", "1", ",,,,,,,") + llama_row("good", "1", "2,,,,,,,"));
  CHECK(scores.rows == 5);
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].row_id == "good");
  REQUIRE(scores.skipped.size() == 4);
  for (const SkippedRow& row : scores.skipped)
    CHECK(row.reason.size() > 20);
  CHECK(scores.skipped[0].reason.find("encoder") != std::string::npos);
  CHECK(scores.skipped[2].reason.find("TPU") != std::string::npos);
}

TEST_CASE("a row whose framework nobody names is read with the general rule") {
  const std::string row =
      "a,ours,H100-SXM-80GB,,8,Llama3-8B,,,,,,8192,BF16,64,1,2,1,,1,,4,,full,,pretrain,,2,,,,,,,\n";
  const TableScores scores = scores_of(training_header + row);
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].predicted > 0);
}

TEST_CASE("a cell that is no number costs its row, not the table") {
  const TableScores scores = scores_of(training_header + llama_row("bad", "two", "2,,,,,,,") +
                                       llama_row("good", "1", "2,,,,,,,"));
  REQUIRE(scores.skipped.size() == 1);
  CHECK(scores.skipped[0].reason.find("mbs") != std::string::npos);
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].row_id == "good");
}

TEST_CASE("any number of threads says the same") {
  std::string text = training_header;
  for (const char* micro : {"1", "2", "4", "8"})
    text += llama_row(std::string("m") + micro, micro, "2,,,,,,50,");
  const TableScores alone = scores_of(text, 1), together = scores_of(text, 3);
  CHECK(alone.scored == together.scored);
  CHECK(alone.skipped == together.skipped);
  CHECK(alone.fit == together.fit);
}

TEST_CASE("vTrain's rows are GPTs on a part of a node, ranked among those of one batch") {
  const std::string header =
      "row_id,family,gpu,n_gpus,gbs,mbs,hidden,heads,layers,seq,tp,dp,pp,"
      "step_time_s\n";
  const TableScores scores = scores_of(header +
                                       "a,vtrain,A100-SXM,2,16,8,1024,16,24,1024,1,1,2,0.4\n"
                                       "b,vtrain,A100-SXM,2,16,4,1024,16,24,1024,2,1,1,0.4\n"
                                       "c,vtrain,A100-SXM,8,32,4,1024,16,24,1024,2,2,2,0.2\n");
  REQUIRE(scores.scored.size() == 3);
  CHECK(scores.scored[0].sweep == scores.scored[1].sweep);
  CHECK(scores.scored[0].sweep != scores.scored[2].sweep);
  for (const ScoredRow& row : scores.scored)
    CHECK(row.predicted > 0);
}

TEST_CASE("FLOPs over tokens say whether further tokens were predicted") {
  const auto depths = [](const char* model, int tflops_per_gpu) {
    // 4000 tokens a second and GPU.
    const CsvTable table =
        table_of(training_header + fmt::format("row,ours,GB300,,256,{},,,,,,4096,BF16,4096,1,1,2,4,"
                                               "1,32,,,,Megatron-Bridge,pretrain,,,4000,,,{},,,"
                                               "NEMO_MODEL\n",
                                               model, tflops_per_gpu));
    const auto rows = read_training_rows(table);
    REQUIRE(rows);
    const auto resolved = resolve(rows->front(), library);
    REQUIRE_MESSAGE(resolved, resolved.error().what);
    return resolved->job.model.prediction_depths();
  };
  CHECK(depths("DeepSeekV3", 999) == 0);   // 249.7 GFLOP a token
  CHECK(depths("DeepSeekV3", 1041) == 1);  // 260.2
  CHECK(depths("DeepSeekV3", 1500) == 0);  // counted by nobody's formula: says nothing
  CHECK(depths("Qwen3_235B_a22B", 1041) == 0);
}

TEST_CASE("twice the layers take longer") {
  const std::string header = "hidden,heads,layers,seq,gbs,mbs,tp,dp,pp,step_time_s\n";
  const TableScores scores =
      scores_of(header + "1024,16,12,1024,16,4,1,1,1,1\n1024,16,24,1024,16,4,1,1,1,1\n");
  REQUIRE(scores.scored.size() == 2);
  CHECK(scores.scored[1].predicted > 1.5 * scores.scored[0].predicted);
  CHECK(scores.scored[1].predicted < 2.5 * scores.scored[0].predicted);
}

const std::string sweep_header =
    "name,nodes,seq_len,mbs,batch_accum,dp,pp,tp,zero_stage,hidden_size,num_layers,num_heads,"
    "interm_dim,vocab_size,num_params,status,tok/s/gpu,Mem Alloc (GB),Mem Res (GB)\n";

TEST_CASE("runs of a sweep that failed have a verdict and no number") {
  const TableScores scores = scores_of(
      sweep_header +
      "small_tpmodeRED,1.0,4096,1,4.0,8,1,1,1,2048,16,32,8192,131072,1.34,Success,30000,20,30\n"
      "huge_tpmodeRED,1.0,4096,256,4.0,8,1,1,0,4096,32,32,14336,131072,8.86,OOM,,,\n"
      "fits_tpmodeRED,1.0,4096,1,4.0,8,1,1,1,2048,16,32,8192,131072,1.34,OOM,,,\n");
  CHECK(scores.fit.ran_and_fits == 1);
  CHECK(scores.fit.failed_and_does_not_fit == 1);
  REQUIRE(scores.fit.false_fit.size() == 1);
  CHECK(scores.fit.false_fit[0].find("fits_") == 0);
  REQUIRE(scores.scored.size() == 3);  // one speed, two memories
  for (const ScoredRow& row : scores.scored)
    CHECK(row.row_id.find("small_") == 0);
}

TEST_CASE("nanotron deals layers out front to back and the head behind them") {
  const auto stages = [](int64_t count) {
    TrainingRow row;
    row.gpu = "H100-SXM-80GB";
    row.model = "nanotron 8.86B";
    row.framework = "nanotron";
    row.precision = "BF16";
    row.gpus = row.global_batch = row.pipeline = count;
    row.micro_batch = row.tensor = row.data = 1;
    const auto resolved = resolve(row, library);
    REQUIRE_MESSAGE(resolved, resolved.error().what);
    return resolved->job.plan.layers_per_stage;
  };
  CHECK(stages(4) == std::vector<int64_t>{9, 9, 8, 6});  // the head is worth 2.2 layers
  const std::vector<int64_t> each = stages(32);          // 32 layers
  CHECK(each.front() == 2);
  CHECK(each.back() == 0);
  CHECK(std::count(each.begin(), each.end(), 1) == 30);
}

TEST_CASE("hostile cells are errors or reasons, never a crash") {
  const std::string header = "hidden,heads,layers,seq,gbs,mbs,tp,dp,pp,step_time_s\n";
  for (const char* row :
       {"0,16,24,1024,16,8,1,1,2,1\n", "-1024,16,24,1024,16,8,1,1,2,1\n",
        "1e300,16,24,1024,16,8,1,1,2,1\n", "nan,16,24,1024,16,8,1,1,2,1\n",
        "1024,,24,1024,16,8,1,1,2,1\n", "1024,16,24.5,1024,16,8,1,1,2,1\n",
        "x,16,24,1024,16,8,1,1,2,1\n", "1024,16,24,1024,16,8,9999999,9999999,9999999,1\n"}) {
    CAPTURE(row);
    const auto scores = score_table(table_of(header + row), {.library = library});
    if (scores) CHECK(scores->skipped.size() == 1);
    if (!scores) CHECK(scores.error().what.find("rows.csv") != std::string::npos);
  }
  for (const char* cells : {"1e18,1,2,,,,,,,", "-3,1,2,,,,,,,"}) {
    CAPTURE(cells);
    const std::string row = fmt::format(
        "h,ours,H100,,{},Llama3-8B,,,,,,8192,BF16,64,1,2,1,,1,,4,,full,Megatron-Core,"
        "pretrain,,2,,,,,,,\n",
        std::string(cells).substr(0, std::string(cells).find(',')));
    const auto scores = score_table(table_of(training_header + row), {.library = library});
    if (scores) CHECK(scores->scored.empty());
  }
}

}  // namespace
}  // namespace triplepoint::calibrate
