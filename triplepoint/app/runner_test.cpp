// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/runner.h"

#include <array>
#include <atomic>
#include <filesystem>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/app/sources.h"
#include "triplepoint/report/findings/findings.h"
#include "triplepoint/report/findings/study_document.h"
#include "triplepoint/report/pages/study_page.h"
#include "triplepoint/report/study_testing.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/store/store.h"

namespace triplepoint::app {
namespace {

/// Six small jobs: four that run, one without room, one invalid.
spec::StudyPlan small_study(const char* stack = "megatron-core") {
  const spec::Library library = spec::default_library();
  spec::StudyPlan plan{"small", "A small study", "For tests.", {}};
  const auto add = [&](const char* model, const char* name, int64_t tp, int64_t pp) {
    spec::StudyJob entry;
    entry.job.name = name;
    entry.job.model = *spec::load_model(library, model);
    entry.job.cluster = *spec::load_cluster(library, "hgx-h200");
    entry.job.cluster.num_nodes = 1;
    entry.job.stack = *spec::load_stack(library, stack);
    entry.job.plan.tensor_parallel_size = tp;
    entry.job.plan.pipeline_parallel_size = pp;
    entry.job.plan.global_batch_size = 16;
    entry.diagnoses = spec::diagnose(entry.job);
    plan.jobs.push_back(std::move(entry));
  };
  add("llama3-8b", "tp8", 8, 1);
  add("llama3-8b", "tp4", 4, 2);
  add("llama3-8b", "tp2", 2, 4);
  add("llama3-8b", "tp1/pp8", 1, 8);
  add("gpt3-175b", "too-large", 8, 1);
  add("llama3-8b", "invalid", 1, 5);
  return plan;
}

/// The real simulator, counted.
struct CountingWorld {
  std::atomic<int> simulated{0};
  int stop_after = 1000;
  StudyWorld world() {
    return {.simulate =
                [this](const spec::Job& job) {
                  ++simulated;
                  return sim::simulate(job, {});
                },
            .watch = {.stopped = [this] { return simulated >= stop_after; }},
            .program_digest = "test"};
  }
};

std::size_t runs_in(const Path& folder) {
  return list_files(folder / "runs", ".run")->size();
}

TEST_CASE("a study's results have a row per job, whatever came of it") {
  const ScratchFolder scratch;
  CountingWorld world;
  const auto results = must(run_study(small_study(), scratch.folder(), 2, world.world()));
  REQUIRE(results.study.rows.size() == 6);
  CHECK(results.study.rows[0].verdict == report::Verdict::ok);
  CHECK(results.study.rows[4].verdict == report::Verdict::oom);
  CHECK(!results.study.rows[4].memory.empty());
  CHECK(results.study.rows[5].verdict == report::Verdict::invalid);
  CHECK(!results.study.rows[5].diagnoses.empty());
  CHECK(world.simulated == 5);  // an invalid job is not simulated
}

TEST_CASE("one thread and two give the same bytes") {
  const ScratchFolder first, second;
  CountingWorld world;
  const auto one = run_study(small_study(), first.folder(), 1, world.world());
  const auto two = run_study(small_study(), second.folder(), 2, world.world());
  REQUIRE(one);
  REQUIRE(two);
  CHECK(one->json == two->json);
  CHECK(one->csv == two->csv);
}

TEST_CASE("a second call simulates nothing again and says the same") {
  const ScratchFolder scratch;
  CountingWorld world;
  const auto first = run_study(small_study(), scratch.folder(), 2, world.world());
  world.simulated = 0;
  const auto second = run_study(small_study(), scratch.folder(), 2, world.world());
  REQUIRE(first);
  REQUIRE(second);
  CHECK(world.simulated == 0);
  CHECK(second->reused == 5);
  CHECK(first->json == second->json);
}

TEST_CASE("an interrupted study keeps what is finished and goes on from there") {
  const ScratchFolder scratch;
  CountingWorld world;
  world.stop_after = 2;
  const auto stopped = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  CHECK(stopped.left == 4);
  CHECK(runs_in(scratch.folder()) == 2);
  world.stop_after = 1000;
  world.simulated = 0;
  const auto whole = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  CHECK(world.simulated == 3);
  const ScratchFolder other;
  CHECK(whole.json == run_study(small_study(), other.folder(), 1, world.world())->json);
}

TEST_CASE("a changed job is simulated again, the others are not") {
  const ScratchFolder scratch;
  CountingWorld world;
  spec::StudyPlan plan = small_study();
  REQUIRE(run_study(plan, scratch.folder(), 1, world.world()));
  world.simulated = 0;
  plan.jobs[0].job.plan.global_batch_size = 32;
  REQUIRE(run_study(plan, scratch.folder(), 1, world.world()));
  CHECK(world.simulated == 1);
}

TEST_CASE("a damaged run file is replaced") {
  const ScratchFolder scratch;
  CountingWorld world;
  REQUIRE(run_study(small_study(), scratch.folder(), 1, world.world()));
  REQUIRE(write_file_atomically(scratch.folder() / "runs/tp8.run", "not a run"));
  world.simulated = 0;
  REQUIRE(run_study(small_study(), scratch.folder(), 1, world.world()));
  CHECK(world.simulated == 1);
}

TEST_CASE("the folder alone is enough to make the report again") {
  const ScratchFolder scratch;
  CountingWorld world;
  const auto results = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  REQUIRE(write_results(results, scratch.folder()));
  const auto loaded = must(load_results(spec::default_library(), scratch.folder(), 1));
  CHECK(loaded.json == results.json);
  CHECK(loaded.csv == results.csv);
}

TEST_CASE("results are complete JSON and CSV with one line per job") {
  const ScratchFolder scratch;
  CountingWorld world;
  const auto results = must(run_study(small_study(), scratch.folder(), 2, world.world()));
  const auto json = must(parse_json(results.json, "results.json"));
  CHECK(json["jobs"].size() == 6);
  CHECK(json["jobs"][5]["verdict"] == "invalid");
}

TEST_CASE("a folder that cannot be made is an error, not a crash") {
  const ScratchFolder scratch;
  REQUIRE(write_file_atomically(scratch.folder() / "file", "x"));
  CountingWorld world;
  const auto results = run_study(small_study(), scratch.folder() / "file", 1, world.world());
  REQUIRE(!results);
  CHECK(contains(results.error().what, "file"));
  CHECK(world.simulated == 0);
}

TEST_CASE("every number in a sentence about a simulated study is the one in its results.json") {
  const ScratchFolder scratch;
  CountingWorld world;
  const auto results = must(run_study(small_study(), scratch.folder(), 2, world.world()));
  const Json json = *parse_json(results.json, "results.json");
  CHECK(json["schema"] == 3);
  CHECK(json["summary"]["jobs"] == 6);
  CHECK(json["summary"]["oom"] == 1);
  const std::vector<report::Finding> findings = report::find_findings(results.study);
  CHECK(findings.size() >= 3);
  CHECK(json["findings"].size() == findings.size());
  for (const report::Finding& finding : findings)
    for (const std::string& fault : report::faults_of(finding, json))
      FAIL_CHECK(finding.text() << ": " << fault);
  for (const report::Group& group : report::groups_of(results.study))
    for (const report::Recommendation& change : report::recommendations_for(group))
      for (const std::string& fault : report::faults_of(change.text, json))
        FAIL_CHECK(change.text.text() << ": " << fault);
}

TEST_CASE("the gain with the default stack is what simulating both jobs with it gives") {
  const ScratchFolder scratch;
  CountingWorld world;
  const auto results =
      must(run_study(small_study("nemo-profiled"), scratch.folder(), 2, world.world()));
  const auto step = [](spec::Job job) {
    job.stack = *spec::load_stack(spec::default_library(), spec::default_stack);
    const run::Run run = sim::simulate(job, {});
    return (run.steps.back().end - run.steps.back().begin) / unit::s;
  };
  int compared = 0;
  for (const report::Group& group : report::groups_of(results.study))
    for (const report::Recommendation& change : report::recommendations_for(group))
      for (const report::Evidence& evidence : change.text.evidence())
        if (evidence.above.front().key.starts_with("default_stack_speed.")) {
          const double gain = step(change.from->job) / step(change.to->job) - 1;
          CHECK(evidence.value == doctest::Approx(std::abs(gain)).epsilon(1e-6));
          CHECK((evidence.form == report::Evidence::Form::less) == (gain < 0));
          ++compared;
        }
  CHECK(compared > 0);
}

TEST_CASE(
    "the best runs get pages, the study links to them, and a run simulated again loses its page") {
  const ScratchFolder scratch;
  CountingWorld world;
  auto results = must(run_study(small_study(), scratch.folder(), 2, world.world()));
  const std::vector<std::size_t> best = best_rows(results.study);
  CHECK(!best.empty());
  REQUIRE(write_run_pages({}, results, scratch.folder(), RunPages::best, 2));
  for (std::size_t i = 0; i < results.study.rows.size(); ++i) {
    const bool is_best = holds(best, i);
    CHECK(results.study.rows[i].page.empty() == !is_best);
  }
  const auto again = must(load_results(spec::default_library(), scratch.folder(), 1));
  const std::string page = again.study.rows[best[0]].page;
  CHECK(page == results.study.rows[best[0]].page);
  CHECK(contains(report::study_page(again.study), "href=\"" + page + "\""));
  StudyWorld other = world.world();
  other.program_digest = "another program";
  REQUIRE(run_study(small_study(), scratch.folder(), 1, other));
  CHECK(!std::filesystem::exists(scratch.folder() / page));
}

TEST_CASE("a folder of recordings is a study: one row a file, of known and of unknown jobs") {
  const ScratchFolder scratch;
  const spec::StudyPlan plan = small_study();
  for (const char* name : {"monday", "tuesday"})  // the same job twice
    REQUIRE(run::save(sim::simulate(plan.jobs[0].job, {}),
                      (scratch.folder() / (std::string(name) + ".run")).string()));
  run::Run unknown;
  unknown.manifest.origin = run::Origin::measured;
  unknown.devices = {{.index = 0, .name = "gpu"}};
  unknown.summaries = {{.power_mean_w = 500.0, .die_mean_c = 60.0, .die_peak_c = 65.0}};
  REQUIRE(run::save(unknown, (scratch.folder() / "unknown.run").string()));
  const auto results = must(load_results(spec::default_library(), scratch.folder(), 1));
  REQUIRE(results.study.rows.size() == 3);
  const Json json = *parse_json(results.json, "results.json");
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string name = std::array{"monday", "tuesday", "unknown"}[i];
    CHECK(results.study.rows[i].name == name);
    CHECK(json["jobs"][i]["name"] == name);
  }
  CHECK(results.study.rows[0].has_job);
  CHECK(!results.study.rows[2].has_job);
  const std::string page = report::study_page(results.study);
  CHECK(contains(page, "tuesday"));
  CHECK(contains(page, "job not known"));
}

/// Measurements that succeed but for one job, counted.
struct MeasuredWorld {
  std::atomic<int> measured{0};
  bool breaks = true, retries = false;
  StudyWorld world() {
    return {.program_digest = "measured",
            .measure = [this](const spec::Job& job,
                              const std::string&) -> Result<std::optional<run::Run>> {
              ++measured;
              if (breaks && job.name == "tp4") return error("the training crashed (on purpose)");
              if (job.name == "tp2") return std::optional<run::Run>();  // stopped in the middle
              return std::optional(sim::simulate(job, {}));
            },
            .retry_failures = retries};
  }
};

TEST_CASE("a measurement that fails is a row with its sentence, and is not tried again unasked") {
  const ScratchFolder scratch;
  MeasuredWorld world;
  const auto first = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  CHECK(world.measured == 5);  // the invalid job was not begun
  CHECK(first.failed == 1);
  CHECK(first.left == 1);
  CHECK(contains(first.csv, "failed"));
  CHECK(contains(first.json, "the training crashed (on purpose)"));
  const auto second = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  CHECK(world.measured == 6);  // only what was stopped
  CHECK(second.json == first.json);
  world.breaks = false;
  world.retries = true;
  const auto third = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  CHECK(world.measured == 8);
  CHECK(third.failed == 0);
}

TEST_CASE("a folder with failed measurements is read back as it was written") {
  const ScratchFolder scratch;
  MeasuredWorld world;
  const auto finished = must(run_study(small_study(), scratch.folder(), 1, world.world()));
  const auto loaded = must(load_results(spec::default_library(), scratch.folder(), 1));
  CHECK(loaded.json == finished.json);
  CHECK(loaded.csv == finished.csv);
}

}  // namespace
}  // namespace triplepoint::app
