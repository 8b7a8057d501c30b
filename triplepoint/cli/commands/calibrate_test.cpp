// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/cli/command_testing.h"
#include "triplepoint/flags/request.h"
#include "triplepoint/store/store.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::json_of;

/// Rows of LLaMA-2 7B on one node: TP, microbatch and the measured step time, in seconds.
std::string row(int tensor, int micro, double seconds) {
  return fmt::format("tp{0}-mbs{1},mine,llama2-7b,hgx-h100,1,megatron-core,{0},{1},128,{2}\n",
                     tensor, micro, seconds);
}

std::string table(const std::string& rows) {
  return "row_id,family,model,cluster,cluster.num_nodes,stack,plan.tensor_parallel_size,"
         "plan.micro_batch_size,plan.global_batch_size,step_time_s\n" +
         rows;
}

double predicted(const Json& validation) {
  return validation.at("per_row").at(0).at("predicted").get<double>();
}

TEST_CASE("own runs move what validate and simulate predict of another job") {
  const ScratchFolder folder;
  const std::string rest = folder.file("rest.csv", table(row(2, 2, 8)));
  const double shipped = predicted(json_of(call({"validate", rest, "--format", "json"})));
  // A place that takes 1.3 times as long as is shipped.
  const auto shipped_of = [&](int tensor, int micro) {
    const std::string one = folder.file("one.csv", table(row(tensor, micro, 8)));
    return predicted(json_of(call({"validate", one, "--format", "json"})));
  };
  const std::string given = folder.file(
      "given.csv", table(row(2, 1, 1.3 * shipped_of(2, 1)) + row(4, 1, 1.3 * shipped_of(4, 1))));
  const std::string mine = folder.path("mine");
  const Json learned = json_of(call({"calibrate", given, "-o", mine, "--format", "json"}));
  CHECK(learned.at("runs").size() == 2);
  const Json own = json_of(call({"validate", rest, "--with", mine, "--format", "json"}));
  CHECK(predicted(own) / shipped > 1.15);
  CHECK(predicted(own) / shipped < 1.4);
  const Json& first = own.at("per_row").at(0);
  CHECK(first.at("interval_low").get<double>() < predicted(own));
  CHECK(first.at("interval_high").get<double>() > predicted(own));
  const auto simulated =
      call({"simulate", "--model", "llama2-7b", "--cluster", "hgx-h100", "--tp", "2", "--mbs", "2",
            "--gbs", "128", "--with", mine, "--format", "json"});
  const Json told = json_of(simulated);
  CHECK(contains(json_text(told), "2 of your runs taught"));
  // The same where Python or the explorer asks.
  const auto job = must(flags::make_job({.flags = {{"--model", "llama2-7b"},
                                                   {"--cluster", "hgx-h100"},
                                                   {"--tp", "2"},
                                                   {"--mbs", "2"},
                                                   {"--gbs", "128"},
                                                   {"--with", mine}}}));
  const auto results = must(flags::simulate(job, {}));
  const Json asked = flags::results_json(results);
  for (const char* key : {"step_time_s", "step_time_low_s", "step_time_high_s"})
    CHECK(asked.at(key) == told.at(key));
}

TEST_CASE("calibrate says what it learned and what is still unknown") {
  const ScratchFolder folder;
  const std::string given = folder.file("given.csv", table(row(2, 1, 12)));
  const auto outcome = call({"calibrate", given, "-o", folder.path("mine")});
  REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
  for (const char* part : {"Learned from 1 run", "unexplained", "still unknown", "tp2-mbs1",
                           "Runs that narrow forecasts most", "--with"})
    CHECK_MESSAGE(contains(outcome.out, part), part);
  const Json json =
      json_of(call({"calibrate", given, "-o", folder.path("mine"), "--format", "json"}));
  CHECK(json.at("runs").at(0).at("left_out_s").is_null());  // there are no others
}

TEST_CASE("a recording of a busy machine teaches, with its note first") {
  const ScratchFolder folder;
  const std::string file = folder.path("a.run");
  REQUIRE(call({"simulate", "--model", "llama2-7b", "--cluster", "hgx-h100", "--tp", "2", "--gbs",
                "64", "-o", file})
              .code == exit_ok);
  run::Run run = run::load(file).value();
  run.manifest.origin = run::Origin::measured;
  run.numbers.others_cpu_share = 0.87;
  run.numbers.idle_cpu_share = 0.03;
  REQUIRE(run::save(run, file));
  const Outcome said = call({"calibrate", file, "-o", folder.path("mine")});
  REQUIRE_MESSAGE(said.code == exit_ok, said.err);
  CHECK(contains(said.out, "other programs used 87 % of the processors' time"));
  const std::string job = folder.file("job.toml", "model = \"llama2-7b\"\n");
  CHECK(contains(call({"calibrate", job, file, "-o", folder.path("mine")}).err, "--job " + job));
}

TEST_CASE("rows that teach nothing are told, and alone they are an error") {
  const ScratchFolder folder;
  const std::string broken = "bad,mine,no-such-model,hgx-h100,1,megatron-core,2,1,128,8\n";
  const std::string mixed = folder.file("mixed.csv", table(row(2, 1, 8) + broken));
  const auto told = call({"calibrate", mixed, "-o", folder.path("mine")});
  CHECK(told.code == exit_ok);
  CHECK(contains(told.out, "bad is left out"));
  const std::string only = folder.file("only.csv", table(broken));
  const auto refused = call({"calibrate", only, "-o", folder.path("mine")});
  CHECK(refused.code != exit_ok);
  CHECK(contains(refused.err, "nothing teaches anything"));
}

/// Three iterations of Megatron-LM; the first one warms up.
std::string log_of(double seconds) {
  std::string text;
  for (int i = 1; i <= 3; ++i)
    text += fmt::format(
        " iteration {:8d}/     100 | consumed samples: {:12d} | elapsed time per iteration (ms): "
        "{:.1f} | learning rate: 1.0E-04 | global batch size:   128 |\n",
        i, 128 * i, (i == 1 ? 4000 : 1000) * seconds);
  return text;
}

TEST_CASE("a training's log teaches what the job before it ran, at its median step") {
  const ScratchFolder folder;
  const auto job_with = [&](int tensor) {
    return folder.file(
        fmt::format("tp{}.toml", tensor),
        fmt::format(
            "model = \"llama2-7b\"\ncluster = \"hgx-h100\"\nstack = \"megatron-core\"\n[plan]"
            "\ntensor_parallel_size = {}\nglobal_batch_size = 128\n",
            tensor));
  };
  const std::string slow = folder.file("slow.log", log_of(12)),
                    fast = folder.file("fast.log", log_of(9));
  const Json learned = json_of(call({"calibrate", "--job", job_with(2), slow, "--job", job_with(4),
                                     fast, "-o", folder.path("mine"), "--format", "json"}));
  REQUIRE(learned.at("runs").size() == 2);
  const auto number = [&](int run, const char* key) {
    return learned.at("runs").at(run).at(key).get<double>();
  };
  CHECK(number(0, "measured_s") == doctest::Approx(12));
  CHECK(number(1, "measured_s") == doctest::Approx(9));
  CHECK(number(0, "shipped_s") != number(1, "shipped_s"));
  const auto jobless = call({"calibrate", slow, "-o", folder.path("none")});
  CHECK(jobless.code != exit_ok);
  CHECK(contains(jobless.err, "name the job before it"));
}

TEST_CASE("traces of kernels teach the step that they show, if they are of their job") {
  const ScratchFolder folder;
  const auto calibrated_on = [&](int gpus) {
    const std::string job = folder.file(
        "job.toml", fmt::format("model = \"tiny-gpt\"\nstack = \"megatron-core\"\n[cluster]\n"
                                "base = \"hgx-h100\"\ngpus_per_node = {}\n[plan]\n"
                                "tensor_parallel_size = 2\nglobal_batch_size = 8\n",
                                gpus));
    return call({"calibrate", "--job", job, folder.path("traces"), "-o", folder.path("mine"),
                 "--format", "json"});
  };
  for (const int rank : {0, 1})
    folder.file(fmt::format("traces/rank{}.json", rank), testing::KinetoFixture(rank).text());
  const Json learned = json_of(calibrated_on(2));
  REQUIRE(learned.at("runs").size() == 1);
  // Two steps, of 4.9 ms as both ranks mark them.
  CHECK(learned.at("runs").at(0).at("measured_s").get<double>() == doctest::Approx(0.0049));
  // Made up, they are no kernels of this model.
  REQUIRE(learned.at("left_out").size() == 1);
  CHECK(contains(learned.at("left_out").at(0).at("run").get<std::string>(), "compute kernels of"));
  const Outcome refused = calibrated_on(8);
  CHECK(refused.code == exit_failed);
  CHECK(contains(refused.err, "it is not of its job (2 GPUs, predicted 8)"));
}

TEST_CASE("a simulation teaches nothing") {
  const ScratchFolder folder;
  const std::string file = folder.path("a.run");
  REQUIRE(call({"simulate", "--model", "llama2-7b", "--cluster", "hgx-h100", "--tp", "2", "--gbs",
                "64", "-o", file})
              .code == exit_ok);
  const auto refused = call({"calibrate", file, "-o", folder.path("mine")});
  CHECK(refused.code != exit_ok);
  CHECK(contains(refused.err, "it is a simulation"));
}

TEST_CASE("nothing to learn from, or nothing learned, is a sentence") {
  const ScratchFolder folder;
  CHECK(contains(call({"calibrate"}).err, "nothing to learn from"));
  const std::string rest = folder.file("rest.csv", table(row(2, 2, 8)));
  const auto missing = call({"validate", rest, "--with", folder.path("nowhere")});
  CHECK(missing.code != exit_ok);
  CHECK(contains(missing.err, "nowhere"));
  const std::string other = folder.file("calibration.json", "{\"schema\": 1}");
  const auto foreign = call({"validate", rest, "--with", other});
  CHECK(foreign.code != exit_ok);
  CHECK(contains(foreign.err, "run triplepoint calibrate again"));
}

TEST_CASE("temperatures alone teach the room, and simulate, plans and studies speak of it") {
  const ScratchFolder folder;
  const std::string job = folder.file("job.toml",
                                      "model = \"llama2-7b\"\ncluster = \"hgx-h200\"\n"
                                      "[plan]\ntensor_parallel_size = 2\nglobal_batch_size = 64\n");
  const auto temperatures = [&](std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"simulate", job, "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(call(words)).at("temperature_c").at("per_gpu").get<std::vector<double>>();
  };
  const std::vector<double> shipped = temperatures();
  REQUIRE(shipped.size() == 8);
  std::string rows = "config,gpu0,gpu1,gpu2,gpu3,gpu4,gpu5,gpu6,gpu7\nnode";
  for (std::size_t d = 0; d < 8; ++d)
    rows += fmt::format(",{:.1f}", shipped[d] + (d == 2 ? 9 : 3));
  const std::string table = folder.file("smi.csv", rows + "\n"), mine = folder.path("mine");
  const auto learned = call({"calibrate", "--job", job, table, "-o", mine});
  REQUIRE_MESSAGE(learned.code == exit_ok, learned.err);
  CHECK(contains(learned.out, "heat of 8 GPUs"));
  CHECK(path_exists(folder.path("mine/report.html")));
  const std::vector<double> own = temperatures({"--with", mine});
  CHECK(own[2] - shipped[2] > 7);
  CHECK(own[2] - shipped[2] < 10);
  const auto jobless = call({"calibrate", table, "-o", mine});
  CHECK(jobless.code != exit_ok);
  CHECK(contains(jobless.err, "name the job before it"));
  const std::string study =
      folder.file("study.toml",
                  "[study]\ntitle = \"t\"\n[[job]]\nname = \"a\"\nmodel = \"llama2-7b\"\n"
                  "cluster = \"hgx-h200\"\n[job.plan]\ntensor_parallel_size = 2\n"
                  "global_batch_size = 64\n");
  const auto peak_of = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "characterize", study,  "--pages", "none",
        "--format",     "json", "-o",      folder.path("study" + std::to_string(more.size()))};
    words.insert(words.end(), more.begin(), more.end());
    return json_of(call(words)).at("jobs").at(0).at("temperature_c").at("peak").get<double>();
  };
  CHECK(peak_of({"--with", mine}) > peak_of({}) + 1);
}

}  // namespace
}  // namespace triplepoint::cli
