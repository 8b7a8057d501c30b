// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/random.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_testing.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::Outcome;

/// Steps of two seconds that scatter by 0.3 %, and more where `more` says so.
std::string log_of(const std::function<std::string(int step, double seconds, double end)>& line,
                   const std::function<double(int)>& more, int steps = 300) {
  std::string text;
  double end = 0;
  for (int step = 1; step <= steps; ++step) {
    const double seconds =
        2 * (1 + 0.003 * random_normal({5, 1}, static_cast<uint64_t>(step))) + more(step);
    end += seconds;
    text += line(step, seconds, end);
  }
  return text;
}

std::string megatron_line(int step, double seconds, double) {
  return fmt::format(
      " iteration {:8}/   50000 | consumed samples: {:12} | elapsed time per iteration (ms): "
      "{:.1f} | global batch size:   256 | lm loss: 2.5E+00 |\n",
      step, 256 * step, 1000 * seconds);
}

std::string nemo_line(int step, double seconds, double) {
  return fmt::format(
      "Training epoch 0, iteration {}/999 | lr: 1e-4 | global_batch_size: 256 | global_step: {} | "
      "reduced_train_loss: 2.5 | train_step_timing in s: {:.4f}\n",
      step, step, seconds);
}

std::string titan_line(int step, double, double end) {
  const int64_t ms = std::llround(1000 * end);
  return fmt::format(
      "[titan] 2025-03-01 {:02}:{:02}:{:02},{:03} - root - INFO - step: {:3}  loss:  2.5  memory: "
      "40.1GiB(50%)  tps: 4,000  mfu: 40%\n",
      10 + ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60, ms % 1000, step);
}

std::string mlperf_line(int step, double seconds, double end) {
  return fmt::format(
      ":::MLLOG {{\"namespace\": \"\", \"time_ms\": {}, \"event_type\": \"POINT_IN_TIME\", "
      "\"key\": \"tracked_stats\", \"value\": {{\"train_step_time\": {:.5f}}}, \"metadata\": "
      "{{\"step\": {}}}}}\n",
      1'700'000'000'000 + std::llround(1000 * end), seconds, step);
}

std::string tensorboard_line(int step, double, double end) {
  return fmt::format("{}{:.3f},{},2.5\n", step == 1 ? "Wall time,Step,Value\n" : "", 1.7e9 + end,
                     step);
}

TEST_CASE("why reads garbage collection out of logs of every kind") {
  const ScratchFolder logs;
  for (const auto& line : {megatron_line, nemo_line, titan_line, mlperf_line, tensorboard_line}) {
    const std::string file =
        logs.file("train.log", log_of(line, [](int step) { return step % 10 == 0 ? 0.5 : 0; }));
    const Outcome outcome = call({"why", file, "--format", "json"});
    const Json json = testing::json_of(outcome);
    CHECK(json["schema"] == 1);
    CAPTURE(outcome.out);
    REQUIRE(json["parts"].size() == 3);
    const Json& part = json["parts"][1];
    CHECK(part["cause"] == "garbage_collection");
    CHECK(part["cost_s"].get<double>() == doctest::Approx(0.05).epsilon(0.05));
    CHECK(contains(part["evidence"].get<std::string>(), "every 10 steps"));
  }
}

TEST_CASE("why names the phases of a hot GPU, and what would confirm them") {
  const ScratchFolder logs;
  const std::string file = logs.file("train.log", log_of(megatron_line, [](int step) {
                                       return step < 60 ? 0.0 : step < 90 ? 2.5 : 8.0;
                                     }));
  const Outcome outcome = call({"why", file, "-o", logs.path("why.html")});
  REQUIRE(outcome.code == exit_ok);
  CHECK(contains(outcome.out, "a GPU that gets too hot does that, and so does a network"));
  CHECK(contains(outcome.out, "not known: which GPU"));
  const std::string page = read_file(logs.path("why.html")).value();
  CHECK(contains(page, "A step, and what it loses"));
  CHECK(contains(page, "thermal slowdown"));
}

TEST_CASE("why of a fair log blames nothing") {
  const ScratchFolder logs;
  const std::string file = logs.file("train.log", log_of(megatron_line, [](int) { return 0; }));
  const Outcome outcome = call({"why", file});
  REQUIRE(outcome.code == exit_ok);
  CHECK(contains(outcome.out, "nothing in what was given"));
  const auto csv = CsvTable::parse(call({"why", file, "--format", "csv"}).out, "csv");
  REQUIRE(csv.has_value());
  CHECK(csv->rows() == 2);
}

TEST_CASE("why compares a run with a job and with another run") {
  const ScratchFolder logs;
  const std::string slow = logs.path("slow.run"), fast = logs.path("fast.run");
  const std::vector<std::string> job = {"simulate", "--model", "llama3.2-1b", "--cluster",
                                        "hgx-h200", "--gbs",   "16"};
  const auto simulated = [&](std::vector<std::string> more) {
    std::vector<std::string> words = job;
    words.insert(words.end(), more.begin(), more.end());
    REQUIRE(call(words).code == exit_ok);
  };
  simulated({"-o", fast});
  simulated({"-o", slow, "--fault", "gpu=3,power=0.5"});
  for (const Outcome& outcome : {call({"why", slow}), call({"why", slow, "--against", fast})}) {
    REQUIRE(outcome.code == exit_ok);
    CHECK(contains(outcome.out, "more than predicted"));
    CHECK(contains(outcome.out, "GPU 3 slows the others"));
    CHECK(contains(outcome.out, "power_limit"));
  }
}

TEST_CASE("why joins a log with a table of readings by their clocks") {
  const ScratchFolder logs;
  const std::string log = logs.file("train.log", log_of(titan_line, [](int) { return 0; }));
  const auto table = [&](const char* day, int hour) {
    std::string text = "timestamp,index,temperature.gpu,clocks.sm [MHz]\n";
    for (int i = 0; i < 700; ++i)
      for (int gpu = 0; gpu < 4; ++gpu)
        text += fmt::format("{} {:02}:{:02}:{:02},{},{},{}\n", day, hour + i / 3600, i / 60 % 60,
                            i % 60, gpu, gpu == 2 ? 88 : 60, gpu == 2 ? 1200 : 1755);
    return logs.file(fmt::format("gpus{}.csv", hour), text);
  };
  const std::string here = table("2025-03-01", 10), zone = table("2025-03-01", 4);
  for (const std::string& readings : {here, zone}) {
    const Outcome outcome = call({"why", log, readings});
    REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
    CHECK(contains(outcome.out, "GPU 2 slows the others"));
    CHECK(contains(outcome.out, "time zones 6 h apart") == (readings == zone));
  }
  CHECK(contains(call({"why", log, here, zone}).err, "2 recordings were named"));
  CHECK(contains(call({"why", log, table("2025-03-05", 11)}).err, "h before the readings"));
  const std::string undated =
      logs.file("undated.log", log_of(megatron_line, [](int) { return 0; }));
  CHECK(contains(call({"why", undated, here}).err, "tells no date"));
}

TEST_CASE("why takes steps from traces, and says what a trace does not tell") {
  const ScratchFolder logs;
  const std::string file = logs.file("rank0.pt.trace.json", testing::KinetoFixture(0).text());
  const Outcome outcome = call({"why", file});
  REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
  CHECK(contains(outcome.out, "mean of 2 steps"));
  CHECK(contains(outcome.out, "there is no recording"));
  // Two steps, so nothing of both is said to be of one: alone, merged, or as what is compared with.
  const std::string merged = logs.path("merged.run");
  REQUIRE(call({"trace", "merge", file, "-o", merged}).code == exit_ok);
  CHECK(contains(call({"compare", file, merged, "--all"}).out, "step time (s)"));
  CHECK(contains(call({"why", file, "--against", merged}).out, "step of the other recording"));
}

TEST_CASE("why refuses what has no steps, and --with without a job") {
  const ScratchFolder logs;
  const std::string file = logs.file("train.log", log_of(
                                                      megatron_line, [](int) { return 0; }, 30));
  CHECK(contains(call({"why", file, "--with", logs.path("mine")}).err, "--against JOB"));
  const std::string job = logs.file(
      "job.toml",
      "model = \"llama3.2-1b\"\ncluster = \"hgx-h200\"\n[plan]\nglobal_batch_size = 16\n");
  CHECK(contains(call({"why", file, "--against", job}).out, "256 samples a step, predicted 16"));
  const Outcome other = call({"why", file, "--against", job, "--cluster", "hgx-h100"});
  CHECK_MESSAGE(other.code == exit_ok, other.err);
  CHECK(contains(call({"why", file, "--cluster", "hgx-h100"}).err, "add --against JOB"));
  CHECK(call({"why", logs.path("nothing.log")}).code == exit_failed);
}

}  // namespace
}  // namespace triplepoint::cli
