// SPDX-License-Identifier: Apache-2.0
// What a simulated run says of itself, on the command line, on its page and in a comparison.

#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/cli/command_testing.h"
#include "triplepoint/report/study_testing.h"
#include "triplepoint/store/store.h"

namespace triplepoint::cli {
namespace {

using testing::call;
using testing::Outcome;
using testing::plus;
using testing::Words;

const Words plain_job = {"simulate", "--model", "llama3-8b", "--cluster", "hgx-h200", "--nodes",
                         "1",        "--tp",    "8",         "--gbs",     "32"};

/// A run of the plain job under these flags.
std::string simulated(const ScratchFolder& scratch, const std::string& name, const Words& flags) {
  const std::string path = scratch.path(name + ".run");
  const Outcome outcome = call(plus(plus(plain_job, flags), {"-o", path}));
  REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
  return path;
}

std::string page_of(const ScratchFolder& scratch, const std::string& run) {
  const std::string path = scratch.path("page.html");
  const Outcome outcome = call({"report", run, "-o", path});
  REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
  const auto page = must(read_file(path));
  return report::with_plain_blanks(page);
}

Json json_of(const Words& words) {
  return testing::json_of(call(plus(words, {"--format", "json"})));
}

const Words small_job = {"simulate", "--model", "llama3-8b", "--cluster", "hgx-h200",
                         "--tp",     "4",       "--gbs",     "16"};

TEST_CASE("memory that one of ten measured jobs would exceed is told as tight") {
  const auto said = [](const char* nodes) {
    return testing::call({"simulate", "--model", "llama3-70b", "--cluster", "hgx-h200", "--nodes",
                          nodes, "--tp", "8", "--pp", "1", "--gbs", "16", "--optimizer",
                          "distributed_fused_adam_bf16"})
        .out;
  };
  CHECK(contains(said("2"), "note: memory is tight: nine of ten measured jobs needed at most "));
  CHECK(!contains(said("8"), "tight"));
}

TEST_CASE("an output that cannot be made is refused before the work, and names are told apart") {
  const ScratchFolder scratch;
  for (const char* verb : {"simulate", "plan"}) {
    const std::string place = verb[0] == 's' ? scratch.path("none/x.run") : "/proc/none/p";
    Words words = plus(small_job, {"-o", place});
    words.front() = verb;
    const Outcome outcome = call(words);
    CHECK(outcome.code == exit_failed);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, "cannot write " + place));
  }
  const std::string run = simulated(scratch, "a", {});
  CHECK(contains(call({"compare", run, run, "--names", "a,a"}).err, "gives one name twice"));
}

TEST_CASE("simulate prints one object with the promised keys") {
  const Json json = testing::json_of(call(plus(small_job, {"--format", "json"})));
  for (const char* key :
       {"verdict", "memory_gib", "step_time_s", "tokens_per_s", "tokens_per_s_per_gpu",
        "model_tflops_per_gpu", "mfu", "hfu", "bubble_fraction", "kernel_time_s", "stages",
        "exposed_communication_s", "power_w", "energy_j", "joules_per_token", "samples_per_s_mj",
        "temperature_c", "sm_clock_mhz", "throttle"}) {
    CAPTURE(key);
    CHECK(json.contains(key));
  }
  CHECK(json["verdict"] == "ok");
  CHECK(json["step_time_s"].get<double>() > 0);
}

TEST_CASE("a flag and its Megatron name mean the same") {
  const auto base =
      Words{"simulate", "--model", "llama3-8b", "--cluster", "hgx-h200", "--format", "json"};
  const Json ours = testing::json_of(
      call(plus(base, {"--tp", "2", "--pp", "2", "--mbs", "2", "--gbs", "32", "--seq", "4096",
                       "--recompute", "full", "--sharding", "optimizer"})));
  const Json theirs = json_of(
      call(plus(base, {"--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "2",
                       "--micro-batch-size", "2", "--global-batch-size", "32", "--seq-length",
                       "4096", "--recompute-granularity", "full", "--sharding", "optimizer"})));
  CHECK(ours == theirs);
}

TEST_CASE("data parallelism shards the optimizer unless told otherwise") {
  const Json json = testing::json_of(call(plus(small_job, {"--format", "json"})));
  CHECK(json["configuration"]["data_parallel_size"] == 2);
  CHECK(json["configuration"]["sharding"] == "optimizer");
  CHECK(testing::json_of(call(plus(small_job, {"--sharding", "none", "--format",
                                               "json"})))["configuration"]["sharding"] == "none");
}

/// 405B on 512 H100 as NVIDIA's recipe lays it out, which keeps gradients in 16 bits, unlike the
/// stack.
const Words llama_405b = split(
    "simulate --model llama3-405b --cluster dgx-h100 --nodes 64 --tp 8 --pp 8 --cp 2 --vpp 8 "
    "--sequence-parallel --gbs 256 --sharding optimizer --stack megatron-core --format json "
    "--layers-per-stage 1,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,"
    "2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,1",
    ' ');

TEST_CASE("a job takes its stack's optimizer, and --optimizer another") {
  CHECK(testing::json_of(call(llama_405b))["verdict"] == "oom");
  const Json halves =
      testing::json_of(call(plus(llama_405b, {"--optimizer", "distributed_fused_adam_bf16"})));
  CHECK(halves["verdict"] == "ok");
  const Outcome wrong = call(plus(llama_405b, {"--optimizer", "adamw_8bits"}));
  CHECK(wrong.code != exit_ok);
  CHECK(contains(wrong.err, "adamw_8bit"));
  CHECK(contains(call({"show", "adamw_8bit"}).out, "bytes per parameter"));
  CHECK(contains(call({"list", "optimizers", "--names"}).out, "muon\n"));
}

TEST_CASE("a job without room is a result: exit code 0, its memory, no speed") {
  const Outcome outcome = call({"simulate", "--model", "gpt3-175b", "--cluster", "hgx-h200", "--tp",
                                "8", "--gbs", "128", "--format", "json"});
  const Json json = testing::json_of(outcome);
  CHECK(json["verdict"] == "oom");
  CHECK(json["memory_gib"]["total"].get<double>() > json["memory_gib"]["limit"].get<double>());
  CHECK(!json.contains("step_time_s"));
}

TEST_CASE("a model that the library does not have is described, one that it has is not") {
  const Words job = {"simulate", "--model", "llama3-8b", "--cluster", "hgx-h200", "--seq", "4096"};
  CHECK(contains(call(plus(job, {"--num-layers", "16"})).out,
                 "model llama3-8b-custom: 4.54 B parameters, 16 layers, sequence 4096; "));
  CHECK(!contains(call(job).out, "B parameters"));
  const Outcome uneven = call({"simulate", "--model", "llama3-8b", "--num-layers", "16",
                               "--cluster", "hgx-h200", "--pp", "2", "--layers-per-stage", "8,9"});
  CHECK(uneven.code != exit_ok);
  CHECK(contains(uneven.err, "layers_per_stage adds up to 17 (num_layers is 16)"));
}

TEST_CASE("inlet, power limit and faults of a simulated run are on its page and in comparisons") {
  const ScratchFolder scratch;
  const std::string base = simulated(scratch, "base", {}),
                    hot = simulated(scratch, "hot", {"--ambient", "38 C"}),
                    cap = simulated(scratch, "cap", {"--power-limit", "500 W", "--pue", "1.1"}),
                    fault = simulated(scratch, "fault", {"--fault", "gpu=3,power=0.5"}),
                    minute = simulated(scratch, "minute", {"--duration", "1min"});
  CHECK(contains(page_of(scratch, base), "in 25.0 °C"));
  const std::string hot_page = page_of(scratch, hot);
  CHECK(contains(hot_page, "in 38.0 °C"));
  CHECK(contains(hot_page, "Inlet 38 °C"));
  CHECK(!contains(hot_page, "25.0 °C"));
  CHECK(contains(page_of(scratch, cap), "power limit of a GPU 500 W"));
  CHECK(contains(page_of(scratch, fault), "faults: gpu=3,power=0.5"));
  const std::string words = call({"compare", base, hot, cap, fault, minute}).out;
  for (const char* part : {"inlet 38 °C instead of 25 °C", "power_limit 500 W instead of 700 W",
                           "pue 1.1 instead of 1.56", "faults gpu=3,power=0.5 instead of none",
                           "horizon 60 s from a cold start instead of steady state"})
    CHECK_MESSAGE(contains(words, part), part << " in " << words);
}

TEST_CASE("a GPU at half power is named by the page, the terminal and a comparison") {
  const ScratchFolder scratch;
  const std::string base = simulated(scratch, "base", {}),
                    fault = simulated(scratch, "fault", {"--fault", "gpu=3,power=0.5"});
  const char* named = "GPU 3 slows the others: ";
  const std::string page = page_of(scratch, fault);
  CHECK(contains(page, named));
  CHECK(contains(page, "(power limit, 350 W against 700 W); the step takes 4"));
  CHECK(contains(page, "bubble 0.0 %"));
  CHECK(contains(page, ", waiting for late peers "));
  CHECK(!contains(page, "The pipeline's bubble"));
  CHECK(!contains(page_of(scratch, base), "the others: "));
  CHECK(contains(call({"compare", base, fault}).out, std::string("In fault: ") + named));
  CHECK(contains(call(plus(plain_job, {"--fault", "gpu=3,power=0.5"})).out, named));
  CHECK(!contains(call(plain_job).out, "the others"));
}

TEST_CASE("the spread of equal utilizations is 0 on the page, not what rounding leaves") {
  const ScratchFolder scratch;
  const std::string page = page_of(scratch, simulated(scratch, "base", {}));
  CHECK(contains(page, "Standard deviation: 0 % within a node"));
}

TEST_CASE("several GPUs that slow the others get advice in the plural") {
  const Outcome two =
      call(plus(plain_job, {"--fault", "gpu=3,power=0.5", "--fault", "gpu=5,power=0.5"}));
  CHECK(contains(two.out, "GPUs 3 and 5 slow the others: "));
  CHECK(contains(report::with_plain_blanks(two.out), "Give them"));
}

TEST_CASE("a fault after the end of the simulation has no phase") {
  const Outcome late =
      call(plus(plain_job, {"--duration", "10s", "--fault", "gpu=3,power=0.5@20s"}));
  CHECK(contains(late.out, "It begins after the end of the simulation."));
  for (const char* when : {"before gpu=3", "during gpu=3"})
    CHECK(!contains(late.out, when));
}

TEST_CASE("a job that heat ends says so first, in the terminal, of its fault and in a comparison") {
  const ScratchFolder folder;
  const std::string well = folder.path("well.run"), ended = folder.path("ended.run");
  const std::vector<std::string> job = {
      "simulate", "--model", "llama3-8b", "--cluster", "hgx-h100", "--nodes",    "2",   "--tp",
      "4",        "--pp",    "4",         "--gbs",     "64",       "--duration", "6min"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return call(more);
  };
  REQUIRE(with({"-o", well}).code == 0);
  const Outcome outcome = with({"--fault", "inlet=+60@2min..5min", "--tokens", "1T", "-o", ended});
  CHECK(contains(outcome.out, "and shuts down; the job ends there\n\n"));
  CHECK(!contains(outcome.out, "fits in memory"));
  CHECK(!contains(outcome.out, "no rank waits"));
  CHECK(!contains(outcome.out, "Bill: "));
  const std::string compared = call({"compare", well, ended}).out;
  CHECK(contains(compared, "ended: GPU "));
  CHECK(!contains(compared, "faster"));
  const Outcome hot = call({"simulate", "--model", "llama3-8b", "--cluster", "hgx-h100", "--tp",
                            "8", "--gbs", "64", "--ambient", "90 C", "-o", ended});
  CHECK(contains(hot.out, "at its lowest clock and shut down; the job does not run\n"));
  CHECK(contains(call({"place", ended}).err, "at its lowest clock and shut down"));
  CHECK(contains(call({"plan", "--clocks", ended}).err, "at its lowest clock and shut down"));
  for (const char* verb : {"place", "plan"}) {
    std::vector<std::string> timed = {verb, well};
    if (timed[0] == "plan") timed.push_back("--clocks");
    REQUIRE(with({"--fault", "inlet=+5@2min..3min", "-o", well}).code == 0);
    CHECK(contains(call(timed).err, "inlet=+5@120s..180s has a time"));
  }
}

TEST_CASE("a limit that the lowest clock cannot keep is said, and one that is kept is not") {
  const ScratchFolder scratch;
  const char* above = "GPU 3 draws ";
  const std::vector<std::string> lost = {"--fault", "gpu=3,power=0.1"};
  CHECK(contains(call(plus(plain_job, lost)).out, above));
  CHECK(contains(page_of(scratch, simulated(scratch, "lost", lost)), above));
  CHECK(!contains(call(plus(plain_job, {"--fault", "gpu=3,power=0.5"})).out, above));
}

TEST_CASE(
    "what stands out is one list in terminal and JSON, the faults of a steady state included") {
  const Words faulty = plus(plain_job, {"--fault", "gpu=3,power=0.5"});
  std::string out = call(faulty).out;
  for (size_t at = out.find("\n  "); at != out.npos; at = out.find("\n  "))
    out.replace(at, 3, " ");
  const Json findings = json_of(faulty)["findings"];
  REQUIRE(findings.size() > 3);
  for (const Json& finding : findings)
    CHECK(contains(out, "- " + finding.get<std::string>() + "\n"));
  CHECK(contains(json_text(findings), "Fault gpu=3,power=0.5: Steps take "));
}

TEST_CASE("a peak above the limit is explained, and only such a peak") {
  const char* words = "(limit 500 W on average)";
  CHECK(contains(call(plus(plain_job, {"--power-limit", "500 W"})).out, words));
  CHECK(!contains(
      call({"simulate", "--model", "llama3-8b", "--cluster", "dgx-a100", "--tp", "8", "--gbs", "8"})
          .out,
      " on average)"));
}

TEST_CASE("flags with which a job fits are named where it does not") {
  const std::vector<std::string> job = {"simulate", "--model", "llama3-70b", "--cluster",
                                        "hgx-h200", "--gbs",   "8"};
  const Outcome outcome = call(plus(job, {"--format", "json"}));
  const auto json = must(parse_json(outcome.out, "out"));
  REQUIRE(json["verdict"] == "oom");
  std::istringstream words(json["fits_with"].get<std::string>());
  std::vector<std::string> flags;
  for (std::string word; words >> word;)
    flags.push_back(word);
  CHECK(contains(call(plus(job, flags)).out, "fits in memory"));
  CHECK(contains(call(job).out, "It fits with " + json["fits_with"].get<std::string>()));
}

TEST_CASE("an option without effect is named once on standard error, and in JSON") {
  const std::string what = "record_layout packed without records";
  const auto says_once = [&](const Words& words) {
    const Outcome outcome = call(words);
    const auto at = outcome.err.find(what);
    CHECK_MESSAGE(outcome.code == exit_ok, words.front() << ": " << outcome.err);
    CHECK_MESSAGE(at != std::string::npos, words.front());
    CHECK(outcome.err.find(what, at + 1) == std::string::npos);
    CHECK(!contains(outcome.out, what));
  };
  const Words inert = plus(plain_job, {"--record-layout", "packed"});
  says_once(inert);
  const Words job(inert.begin() + 1, inert.end());
  says_once(plus({"place", "--judge", "1"}, job));
  says_once({"plan", "--model", "llama3-8b", "--cluster", "hgx-h200", "--record-layout", "packed"});
  CHECK(call(plain_job).err.empty());
  CHECK(json_of(plain_job)["diagnoses"].empty());
  const Json diagnoses = json_of(inert)["diagnoses"];
  REQUIRE(diagnoses.size() == 1);
  CHECK(diagnoses[0]["code"] == "inert_option");
  CHECK(diagnoses[0]["severity"] == "warning");
}

TEST_CASE("a flag for the model puts no other key right that is called type, as a tokenizer's") {
  const ScratchFolder scratch;
  const std::string file =
      scratch.file("ds.json", R"({"bf16": {"enabled": true}, "zero_optimization": {"stage": 1},
                     "optimizer": {"type": "OneBitAdam"}})");
  const Outcome refused = call({"simulate", file, "--model", "llama3-8b", "--cluster", "hgx-h200"});
  CHECK(refused.code != exit_ok);
  CHECK(contains(refused.err, "optimizer.type is 'OneBitAdam', which is not read"));
}

TEST_CASE("what a launch file sets without effect is a note with its line, and no warning") {
  const ScratchFolder scratch;
  const std::string file =
      scratch.file("job.sh",
                   "torchrun pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
                   "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 "
                   "--micro-batch-size 1 --global-batch-size 32 --tensor-model-parallel-size 1 "
                   "--sequence-parallel --overlap-grad-reduce --bf16\n");
  const Outcome outcome = call({"simulate", file, "--cluster", "hgx-h200"});
  REQUIRE_MESSAGE(outcome.code == exit_ok, outcome.err);
  CHECK(contains(outcome.out, "sequence_parallel with tensor_parallel_size 1"));
  CHECK(!contains(outcome.err, "sequence_parallel"));
}

TEST_CASE("what a step does is disjoint and adds up, with and without a pipeline") {
  const Words one_stage = plus(plain_job, {"--fault", "gpu=3,power=0.5"});
  const Words stages = {"simulate", "--model", "llama3-8b", "--cluster", "hgx-h200",
                        "--nodes",  "2",       "--tp",      "2",         "--pp",
                        "4",        "--gbs",   "64",        "--fault",   "gpu=3,power=0.5"};
  for (const Words& words : {plain_job, one_stage, stages}) {
    const Json json = json_of(words);
    double sum = 0;
    for (const auto& [name, part] : json["step_parts_s"].items()) {
      CHECK(part.get<double>() >= 0);
      sum += part.get<double>();
    }
    const double step = json["step_time_s"];
    CHECK(sum == doctest::Approx(step).epsilon(1e-6));
    CHECK(json["step_parts_s"]["bubble"].get<double>() ==
          doctest::Approx(json["bubble_fraction"].get<double>() * step));
    CHECK((json["bubble_fraction"].get<double>() > 0) == (words == stages));
  }
  CHECK(json_of(one_stage)["step_parts_s"]["waiting"].get<double>() > 1.5);
  CHECK(json_of(plain_job)["bottlenecks"].empty());
}

TEST_CASE("a planted fault is named with its cause") {
  const auto first = [&](const char* fault) {
    const Json found = json_of(plus(plain_job, {"--fault", fault}))["bottlenecks"];
    REQUIRE_MESSAGE(!found.empty(), fault);
    return found[0];
  };
  const Json power = first("gpu=3,power=0.5");
  CHECK(power["who"] == Json::array({3}));
  CHECK(power["cause"] == "power_limit");
  CHECK(power["cost_s"].get<double>() > 0);
  const auto limit = std::ranges::find(power["evidence"], "power_limit", [](const Json& item) {
    return item["kind"].get<std::string>();
  });
  REQUIRE(limit != power["evidence"].end());
  CHECK((*limit)["value"] == 350);
  CHECK((*limit)["peers"] == 700);
  CHECK(first("gpu=3,heat_path=4")["cause"] == "heat");
  CHECK(first("gpu=3,link=0.1")["cause"] == "links");
  CHECK(first("node=0,host=8")["cause"] == "host");
}

TEST_CASE("a steady state and a long transient of the same job agree") {
  const Words job = {"simulate", "--model",        "llama3-8b", "--cluster", "hgx-h200", "--nodes",
                     "2",        "--tp",           "4",         "--pp",      "2",        "--gbs",
                     "64",       "--power-profile"};
  const Json steady = json_of(job), transient = json_of(plus(job, {"--duration", "20min"}));
  const auto same = [&](const char* pointer, double tolerance) {
    const Json::json_pointer at{pointer};
    CAPTURE(pointer);
    CHECK(transient.at(at).get<double>() ==
          doctest::Approx(steady.at(at).get<double>()).epsilon(tolerance));
  };
  same("/step_time_s", 0.01);
  same("/energy_j", 0.01);
  same("/node_energy_j", 0.01);
  same("/power_w/mean", 0.01);
  same("/power_w/peak", 0.02);
  same("/power_w/kernel_peak", 0.01);
  same("/temperature_c/mean", 0.01);
  same("/temperature_c/peak", 0.02);
  same("/sm_clock_mhz/mean", 0.01);
  same("/throttle/software_power_cap", 0.05);
  CHECK(transient["power_profile"]["scope"] == "nodes");
  for (const char* of : {"mean_w", "peak_w", "swing_w"})
    for (const char* level : {"0", "1", "2"})
      same((std::string("/power_profile/levels/") + level + "/" + of).c_str(), 0.05);
  same("/power_profile/smoothing/storage_j", 0.1);
}

TEST_CASE("a swing within the allowed one asks for no floor") {
  const std::string text = call(plus(plain_job, {"--task", "prefill", "--power-profile"})).out;
  CHECK(contains(text, "no floor and no stagger are needed"));
  CHECK(!contains(text, "burns 0 kJ"));
}

TEST_CASE("energy counts at the site's meter, or in the scope that is asked for") {
  const auto answer = [](std::vector<std::string> words) {
    words.insert(words.end(), {"--format", "json"});
    return testing::json_of(call(plus(plain_job, words)));
  };
  const Json json = answer({"--pue", "1.25"});
  CHECK(json["energy_scope"] == "site");
  CHECK(json["site_energy_j"] == 1.25 * json["node_energy_j"].get<double>());
  const Json usual = answer({}), of_nodes = answer({"--scope", "node"}),
             of_gpus = answer({"--scope", "gpu"});
  const auto tokens = [](const Json& of, const char* energy) {
    return of[energy].get<double>() / of["joules_per_token"].get<double>();
  };
  CHECK(tokens(usual, "site_energy_j") == doctest::Approx(tokens(of_gpus, "energy_j")));
  CHECK(tokens(of_nodes, "node_energy_j") == doctest::Approx(tokens(of_gpus, "energy_j")));
  CHECK(of_gpus["site_energy_j"].is_null());
  // Of a machine that is not as usual, too: its fans turn faster.
  for (const char* scope : {"gpu", "node", "site"}) {
    const Json hot = answer({"--fault", "node=0,heat_path=2", "--tokens", "1T", "--scope", scope});
    const Json& bill = hot["bill"];
    const double share = bill["total_s"].get<double>() / bill["productive_s"].get<double>();
    CHECK(bill["energy_mwh"].get<double>() * 3.6e9 ==
          doctest::Approx(hot["joules_per_token"].get<double>() * bill["steps"].get<double>() *
                          (hot["tokens_per_s"].get<double>() * hot["step_time_s"].get<double>()) *
                          share));
  }
  CHECK(of_gpus["energy_j"] == usual["energy_j"]);
  CHECK(contains(call(plain_job).out, "energy at the site"));
  CHECK(contains(call(plain_job).out, "note: energy is the site's, with a PUE of"));
  CHECK(contains(call(plus(plain_job, {"--pue", "0.5"})).err, "--pue 0.5 is below 1"));
  CHECK(contains(call(plus(plain_job, {"--grid", "300"})).err, "--tokens"));
}

}  // namespace

TEST_CASE("of a run without a timeline trace says why, and what gives one") {
  const ScratchFolder scratch;
  const std::string file = scratch.path("a.run"), other = scratch.path("other.run");
  REQUIRE(call(plus(plain_job, {"-o", file})).code == exit_ok);
  run::Run run = run::load(file).value();
  run.timeline = {};
  REQUIRE(run::save(run, file));
  const std::string remedy = "triplepoint simulate " + file + " -o OTHER.run";
  CHECK(contains(call({"trace", "breakdown", file}).err, remedy));
  CHECK(call({"simulate", file, "-o", other}).code == exit_ok);
  CHECK(call({"trace", "breakdown", other}).code == exit_ok);
  run.manifest.origin = run::Origin::measured;
  REQUIRE(run::save(run, file));
  CHECK(contains(call({"trace", "breakdown", file}).err, "give the profiler's traces"));
}

}  // namespace triplepoint::cli
