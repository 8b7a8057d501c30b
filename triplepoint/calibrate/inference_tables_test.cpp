// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/inference_tables.h"

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

constexpr const char* header =
    "family,gpu,n_gpus,task,model,precision,tp,batch,throughput,throughput_unit,"
    "power_mean_per_gpu_w,power_mean_total_w,p95_total_w,notes\n";

TableScores scores_of(const std::string& rows) {
  const spec::Library library = spec::default_library();
  const auto table = CsvTable::parse(header + rows, "rows.csv");
  REQUIRE_MESSAGE(table, table.error().what);
  const auto scores = score_inference_table(*table, {.library = library});
  REQUIRE_MESSAGE(scores, scores.error().what);
  return *scores;
}

TEST_CASE("a row is decoded with the sequences it says, and scored for power and for output") {
  const TableScores scores = scores_of(
      "x,H100,1,inference lm-arena-chat,meta-llama/Llama-3.1-8B-Instruct,bfloat16,1,8,900,"
      "output tokens/s,450,450,,ep 1 dp 1 avg_batch 8.0\n"
      "x,H100,1,inference lm-arena-chat,meta-llama/Llama-3.1-8B-Instruct,bfloat16,1,64,4000,"
      "output tokens/s,600,600,,ep 1 dp 1 avg_batch 63.6\n");
  REQUIRE(scores.scored.size() == 4);
  CHECK(scores.skipped.empty());
  CHECK(scores.scored[0].quantity == "power_w");
  CHECK(scores.scored[1].quantity == "output_tokens_per_s");
  CHECK(scores.scored[0].sweep == scores.scored[2].sweep);
  CHECK(scores.scored[0].sweep != scores.scored[1].sweep);
  for (const size_t power : {0, 2}) {  // above a GPU that waits, below its limit
    CHECK(scores.scored[power].predicted > 150);
    CHECK(scores.scored[power].predicted < 700);
  }
  CHECK(scores.scored[3].predicted > 4 * scores.scored[1].predicted);
  CHECK(scores.scored[0].notes.size() == 1);
}

TEST_CASE("tokens that count the prompt too are no speed of decoding") {
  const TableScores scores = scores_of(
      "x,H100,1,inference "
      "exp2,meta-llama/Llama-3.1-8B-Instruct,float16/none,1,8,2000,tokens/s,430,430,440,"
      "ctx 256.0; 1-s samples\n");
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].quantity == "power_w");
  CHECK(scores.scored[0].notes.empty());
}

TEST_CASE("a task that nobody knows is served like a chat, and says so") {
  const TableScores scores = scores_of(
      "x,H100,1,inference other,meta-llama/Llama-3.1-8B-Instruct,fp16,1,8,90,tokens/s,450,,,\n");
  REQUIRE(scores.scored.size() == 1);
  REQUIRE(scores.scored[0].notes.size() == 1);
  CHECK(scores.scored[0].notes[0].find("as usual") != std::string::npos);
}

TEST_CASE("the longer the prompts beside the answers, the fewer tokens come out") {
  const auto speed = [](const std::string& task) {
    const TableScores scores = scores_of("x,H100,1,inference " + task +
                                         ",meta-llama/Llama-3.1-8B-Instruct,bfloat16,1,64,3000,"
                                         "output tokens/s,600,,,avg_batch 64\n");
    REQUIRE(scores.scored.size() == 2);
    return scores.scored[1].predicted;
  };
  CHECK(speed("sourcegraph-fim") < speed("lm-arena-chat"));
}

TEST_CASE("a model that sees answers with the language model of its name") {
  const TableScores scores = scores_of(
      "x,H100,1,inference image-chat,Qwen/Qwen3-VL-8B-Instruct,bfloat16,1,8,900,"
      "output tokens/s,450,450,,avg_batch 8.0\n"
      "x,H100,1,inference image-chat,Qwen/Qwen3-8B,bfloat16,1,8,900,"
      "output tokens/s,450,450,,avg_batch 8.0\n");
  REQUIRE(scores.scored.size() == 4);
  CHECK(scores.scored[0].predicted == scores.scored[2].predicted);
  CHECK(scores.scored[0].notes[0].find("pictures") != std::string::npos);
}

TEST_CASE("what cannot be decoded says why") {
  const TableScores scores = scores_of(
      "x,H100,1,inference text-to-image,some/Picture,bfloat16,1,8,2,images/s,600,,,\n"
      "x,H100,1,inference llama_sweep,meta-llama/Llama-3.1-8B-Instruct,fp16,1,,,tokens/s,130,,,\n"
      "x,H100,1,inference gpqa,openai/gpt-oss-20b,mxfp4,1,8,900,output tokens/s,300,,,\n"
      "x,H100,1,inference lm-arena-chat,meta-llama/Llama-3.1-70B-Instruct,bfloat16,1,8,90,"
      "output tokens/s,600,,,\n"
      "x,H100,1,inference exp7,meta-llama/Llama-3.1-8B-Instruct,fp16,1,8,90,tokens/s,882,,,\n"
      "x,H100,1,inference exp2,meta-llama/Llama-3.1-8B-Instruct,fp16,1,8,90,tokens/s,130,130,400,"
      "ctx 256.0\n");
  CHECK(scores.scored.empty());
  REQUIRE(scores.skipped.size() == 6);
  const char* reasons[] = {"draws images", "number of sequences",   "4 bits",
                           "do not fit",   "above the GPU's limit", "far below"};
  for (size_t i = 0; i < 6; ++i)
    CHECK_MESSAGE(scores.skipped[i].reason.find(reasons[i]) != std::string::npos,
                  scores.skipped[i].reason);
}

}  // namespace
}  // namespace triplepoint::calibrate
