// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/inference_scores.h"

#include <doctest/doctest.h>

namespace triplepoint::calibrate {
namespace {

TableScores scores_of(const std::string& rows) {
  const auto table = CsvTable::parse(
      "row_id,family,sweep,task,model,model.sequence_length,stack,cluster,cluster.num_nodes,"
      "cluster.gpus_per_node,cluster.scale_up.domain_size,plan.precision,plan.micro_batch_size,"
      "plan.global_batch_size,prompt_tokens,answer_tokens,sequences,power_w,output_tokens_per_s\n" +
          rows,
      "rows.csv");
  REQUIRE_MESSAGE(table, table.error().what);
  const auto scores = score_inference(*table, {.library = spec::default_library()});
  REQUIRE_MESSAGE(scores, scores.error().what);
  return *scores;
}

/// One H100 that decodes `sequences` sequences.
std::string row(const char* model, int prompt, int sequences, const char* measured) {
  return fmt::format(
      "{0} {2},x,s,decode,{0},1024,vllm,dgx-h100,1,1,1,bf16,{2},{2},{1},1024,{2},{3}\n", model,
      prompt, sequences, measured);
}

TEST_CASE("a row is decoded with the sequences it says, and scored for power and for output") {
  const TableScores scores =
      scores_of(row("llama3-8b", 512, 8, "450,900") + row("llama3-8b", 512, 64, "600,4000"));
  CHECK(scores.skipped.empty());
  REQUIRE(scores.scored.size() == 4);
  CHECK(scores.scored[0].quantity == "power_w");
  CHECK(scores.scored[1].quantity == "output_tokens_per_s");
  CHECK(scores.scored[0].sweep == scores.scored[2].sweep);
  CHECK(scores.scored[0].sweep != scores.scored[1].sweep);
  for (const size_t power : {0, 2}) {  // above a GPU that waits, below its limit
    CHECK(scores.scored[power].predicted > 150);
    CHECK(scores.scored[power].predicted < 700);
  }
  CHECK(scores.scored[3].predicted > 4 * scores.scored[1].predicted);
}

TEST_CASE("a quantity that was not measured is not scored") {
  const TableScores scores = scores_of(row("llama3-8b", 512, 8, "450,"));
  REQUIRE(scores.scored.size() == 1);
  CHECK(scores.scored[0].quantity == "power_w");
}

TEST_CASE("the longer the prompts beside the answers, the fewer tokens come out") {
  const auto speed = [](int prompt) {
    return scores_of(row("llama3-8b", prompt, 64, "600,3000")).scored.at(1).predicted;
  };
  CHECK(speed(6000) < speed(512));
}

TEST_CASE("what does not fit in memory says so") {
  const TableScores scores = scores_of(row("llama3-70b", 512, 8, "600,90"));
  CHECK(scores.scored.empty());
  REQUIRE(scores.skipped.size() == 1);
  CHECK(scores.skipped[0].reason.find("do not fit") != std::string::npos);
}

using doctest::Approx;

const Serving engine{.prefill_tokens = 8192, .sequence_time = 20 * unit::us, .busy_share = 0.5};
const Requests chat{500, 1000};
const PowerInterval decode{10 * unit::ms, 400 * unit::W};
const PowerInterval prompt_token{30 * unit::us, 700 * unit::W};
const Watts rest = 100 * unit::W;

PowerInterval round_of(const Serving& serving, const Requests& task, double sequences,
                       double replicas = 1) {
  return serving_round(serving, task, {sequences, replicas, decode, prompt_token, rest});
}

TEST_CASE("without prompts and without work for each sequence a round is a pass") {
  Serving idle = engine;
  idle.sequence_time = {};
  const PowerInterval round = round_of(idle, {0, 1000}, 64);
  CHECK(round.time / decode.time == Approx(1));
  CHECK(round.power / decode.power == Approx(1));
}

TEST_CASE("time of a round grows in proportion to its sequences, and its energy with it") {
  const auto more = [&](double sequences) { return round_of(engine, chat, sequences); };
  const auto energy = [](const PowerInterval& spell) { return spell.time * spell.power / unit::J; };
  const PowerInterval one = more(100), two = more(200), three = more(300);
  CHECK((two.time - one.time) / (three.time - two.time) == Approx(1));
  CHECK(energy(two) - energy(one) == Approx(energy(three) - energy(two)));
  CHECK(two.power > decode.power);  // prompts draw more than decoding
}

TEST_CASE("replicas share the work for each sequence, not the reading of prompts") {
  const Requests no_prompt{0, 1000};
  const auto time = [&](const Requests& task, double replicas) {
    return round_of(engine, task, 128, replicas).time - decode.time;
  };
  CHECK(time(no_prompt, 1) / time(no_prompt, 4) == Approx(4));
  const Seconds reading = time(chat, 1) - time(no_prompt, 1);
  CHECK(reading / (time(chat, 4) - time(no_prompt, 4)) == Approx(1));
}

TEST_CASE("the shipped engine reads prompts and costs time for each sequence") {
  const auto serving = load_serving(spec::default_library());
  REQUIRE_MESSAGE(serving, serving.error().what);
  CHECK(serving->prefill_tokens > 0);
  CHECK(serving->sequence_time > Seconds());
}

}  // namespace

}  // namespace triplepoint::calibrate
