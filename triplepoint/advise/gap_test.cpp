// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/gap.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/advise/gap_testing.h"

namespace triplepoint::advise {
namespace {

using doctest::Approx;

TEST_CASE("what is missing is said") {
  run::Run run = recorded(dense_job(), 1, {.recording = false, .traces = false});
  const Gap alone = gap_of(run, nullptr);
  CHECK(alone.untold.size() == 3);
  CHECK(!alone.predicted);
  run.steps.resize(5);
  CHECK(gap_of(run, nullptr).untold.size() == 4);
  CHECK(gap_of(recorded(dense_job(), 1, {}), &prediction_of(dense_job())).untold.empty());
}

TEST_CASE("a room or a limit that the prediction does not have is told") {
  const run::Run cool = prediction_of(dense_job());
  run::Run warm = cool;
  CHECK(set_up_apart(warm, cool).empty());
  warm.manifest.job->environment.ambient = Celsius(45);
  warm.manifest.job->environment.power_limit = 450 * unit::W;
  const std::vector<std::string> apart = set_up_apart(warm, cool);
  REQUIRE(apart.size() == 2);
  CHECK(apart[0].starts_with("inlet 45"));
  CHECK(apart[1].starts_with("power_limit 450"));
  run::Run other_layout = cool;
  other_layout.manifest.job->plan.micro_batch_size = 2;
  CHECK(set_up_apart(other_layout, cool).size() == 2);  // and half the microbatches
}

TEST_CASE("a setting that is known to differ is a part, and what it costs is no other's") {
  spec::Job slow = dense_job();
  slow.plan.recompute = spec::Recompute::full;
  const run::Run measured = sim::simulate(slow, {});
  const Gap gap = gap_of(measured, &prediction_of(dense_job()));
  REQUIRE(gap.parts.size() == 1);
  CHECK(gap.parts[0].cause == "settings");
  CHECK(gap.parts[0].what.find("recompute full, predicted") != std::string::npos);
  CHECK(gap.parts[0].cost / (gap.measured - gap.base) == Approx(1).epsilon(0.01));
}

TEST_CASE("of two measured runs settings cost no more than their prediction may be off by") {
  const Sources steps_only = {.recording = false, .traces = false};
  spec::Job slow = dense_job();
  slow.plan.recompute = spec::Recompute::full;
  run::Run fair = recorded(dense_job(), 1, steps_only), measured = recorded(slow, 2, steps_only);
  fair.manifest.job = dense_job();
  measured.manifest.job = slow;
  const auto settings_part = [&](double longer) {
    const Seconds length = measured.steps.front().end - measured.steps.front().begin;
    lengthen(measured, [&](size_t) { return (longer - 1) * length; });
    Gap gap = gap_of(measured, &fair);
    REQUIRE(gap.parts.size() == 1);
    CHECK(gap.parts[0].cause == "settings");
    return std::pair(gap.parts[0], gap.unexplained / gap.measured);
  };
  const auto [near, none] = settings_part(1.06);
  CHECK(near.at_most);
  CHECK(near.what.find("(simulated, ") != std::string::npos);
  CHECK(std::abs(none) < 0.01);
  const auto [far, rest] = settings_part(1.5);
  CHECK(!far.at_most);
  CHECK(rest > 0.2);
}

TEST_CASE("a fault that comes midway costs the mean step what it adds to it") {
  const std::pair<const char*, const char*> faults[] = {
      {"node=1,fan=0.2@100s", "heat"},     {"gpu=3,heat_path=8@60s", "heat"},
      {"gpu=3,heat_path=12@150s", "heat"}, {"gpu=2,power=0.5@200s", "power_limit"},
      {"node=1,link=0.05@150s", "links"},  {"gpu=5,link=0.2@20s", "links"},
  };
  for (const auto& [text, cause] : faults) {
    const std::string fault = text;
    CAPTURE(fault);
    spec::Job job = dense_job();
    job.environment.faults = {*spec::parse_fault(fault)};
    const run::Run measured = sim::simulate(job, {.duration = 300 * unit::s});
    const Gap gap = gap_of(measured, &prediction_of(dense_job()));
    REQUIRE(gap.parts.size() == 1);
    CHECK(gap.parts[0].cause == cause);
    CHECK(abs(gap.unexplained) < 0.15 * (gap.measured - gap.base));
  }
}

TEST_CASE("a fault that has ended is told of its time, and one network has one part") {
  const auto gap_with = [](std::initializer_list<const char*> faults) {
    spec::Job job = dense_job();
    for (const char* fault : faults)
      job.environment.faults.push_back(*spec::parse_fault(fault));
    return gap_of(sim::simulate(job, {.duration = 300 * unit::s}), &prediction_of(dense_job()));
  };
  const char* const limit = "gpu=3,power=0.5@100s..200s";
  for (const auto& faults :
       {std::initializer_list<const char*>{limit}, {limit, "node=1,link=0.1"}}) {
    const Gap gap = gap_with(faults);
    REQUIRE(gap.parts.size() == faults.size());
    const auto of_limit = std::ranges::find_if(
        gap.parts, [](const GapPart& part) { return contains(part.what, "GPU 3 "); });
    REQUIRE(of_limit != gap.parts.end());
    CHECK(contains(of_limit->what, "from 10"));
    CHECK(abs(gap.unexplained) < 0.15 * (gap.measured - gap.base));
  }
  const Gap flapping = gap_with({"node=0,link=0.05,every=2s"});
  CHECK(std::ranges::count(flapping.parts, "links", &GapPart::cause) <= 1);
  CHECK(flapping.unexplained > -0.05 * (flapping.measured - flapping.base));
}

TEST_CASE("a slower clock is no cause of steps that are longer than it can make them") {
  spec::Job job = dense_job();
  job.cluster = must(spec::load_cluster(spec::default_library(), "hgx-h100"));
  job.cluster.num_nodes = 2;
  const run::Run predicted = sim::simulate(job, {});
  for (const char* fault : {"node=1,link=0.2@30s..90s", "gpu=3,power=0.7@30s..90s"})
    job.environment.faults.push_back(*spec::parse_fault(fault));
  const Gap gap = gap_of(sim::simulate(job, {.duration = 120 * unit::s}), &predicted);
  REQUIRE(gap.parts.size() == 1);
  CHECK(gap.parts[0].cause == "spell");
}

TEST_CASE("two GPUs of one node with power limits only they have are no slow node") {
  spec::Job job = dense_job();
  job.environment.faults = {*spec::parse_fault("gpu=3,power=0.6"),
                            *spec::parse_fault("gpu=5,power=0.5")};
  const Gap gap = gap_of(sim::simulate(job, {}), &prediction_of(dense_job()));
  std::string all;
  for (const GapPart& part : gap.parts)
    all += part.what;
  CHECK(contains(all, "5"));
  CHECK(contains(all, "3 "));
  CHECK(!contains(all, "Node 0"));
}

TEST_CASE("a fault that comes midway costs the same beside settings that differ") {
  spec::Job job = dense_job();
  job.plan.recompute = spec::Recompute::full;
  job.environment.faults = {*spec::parse_fault("gpu=2,power=0.5@200s")};
  const sim::Horizon horizon{.duration = 300 * unit::s};
  const run::Run predicted = sim::simulate(dense_job(), horizon);
  const Gap gap = gap_of(sim::simulate(job, horizon), &predicted);
  REQUIRE(gap.parts.size() == 2);
  CHECK(abs(gap.unexplained) < 0.05 * (gap.measured - gap.base));
}

TEST_CASE("what the other run loses as well is no part of the difference") {
  const auto with = [](const char* first, const char* second) {
    spec::Job job = dense_job();
    for (const char* text : {first, second})
      if (text != nullptr) job.environment.faults.push_back(*spec::parse_fault(text));
    return job;
  };
  const char *usual = "gpu=3,power=0.8", *further = "gpu=9,power=0.5@100s";
  const auto transient = [&](const spec::Job& job) {
    return sim::simulate(job, {.duration = 300 * unit::s});
  };
  const run::Run before = transient(with(usual, nullptr)), now = transient(with(usual, further));
  for (const run::Run* run : {&before, &now}) {
    const Gap none = gap_of(*run, run);
    CHECK(none.parts.empty());
    CHECK(abs(none.unexplained) < 1e-3 * none.measured);
  }
  const Gap gap = gap_of(now, &before);
  REQUIRE(gap.parts.size() == 1);
  CAPTURE(gap.parts[0].what);
  CHECK(gap.parts[0].what.starts_with("GPU 9 "));
  CHECK(gap.parts[0].cost / (gap.measured - gap.base) == Approx(1).epsilon(0.15));

  const Sources recording = {.recording = true, .traces = false};
  const run::Run fair = recorded(with(usual, nullptr), 1, recording);
  CHECK(gap_of(recorded(with(usual, nullptr), 2, recording), &fair).parts.empty());
  const Gap both = gap_of(recorded(with(usual, "gpu=9,power=0.5"), 2, recording), &fair);
  REQUIRE(both.parts.size() == 1);
  CAPTURE(both.parts[0].what);
  CHECK(both.parts[0].what.starts_with("GPU 1 of node 1 "));
  CHECK(both.parts[0].cost / (both.measured - both.base) == Approx(1).epsilon(0.15));
}

TEST_CASE("a prediction of another training is refused in the first sentence") {
  run::Run run = recorded(dense_job(), 1, {.recording = true, .traces = false});
  const auto refused_for = [&](const char* why) {
    const Gap gap = gap_of(run, &prediction_of(dense_job()));
    CHECK(!gap.predicted);
    CHECK(gap.parts.empty());
    const std::string first = gap_sentences(gap).front();
    CAPTURE(first);
    CHECK(first.find("not the training") != std::string::npos);
    CHECK(first.find(why) != std::string::npos);
  };
  run.steps.back().samples = 16;
  refused_for("(16 samples a step, predicted 32)");
  run.steps.back().samples = 32;
  CHECK(gap_of(run, &prediction_of(dense_job())).unlike.empty());
  run.numbers.world_size = 64;
  refused_for("(64 GPUs, predicted 16)");
  run.numbers.world_size.reset();
  run.devices.front().name = "NVIDIA H100 80GB HBM3";
  refused_for("(GPU h100, predicted h200)");
  run.devices.front().name = "NVIDIA H200";
  run.manifest.job = expert_job();
  refused_for("parameters, predicted 8,0");
}

TEST_CASE("the answer's table adds up, and its verdict is short") {
  run::Run run = recorded(dense_job(), 1, {});
  lengthen(run, [](size_t i) { return i % 6 == 0 ? 2 * unit::s : Seconds(); });
  const Gap gap = gap_of(run, &prediction_of(dense_job()));
  const answers::Document answer = why_answer(gap, run, "run");
  const DataTable& table = answer.sections.front().tables.front();
  double sum = sum_of(table.rows, [&](const auto& row) { return *number_in(row[1]); });
  CHECK(sum == Approx(gap.measured / unit::s));
  CHECK(answer.verdict.find("every 6 steps") != std::string::npos);
  run.shutdown = {.device = 3, .die_c = 92, .time = 285 * unit::s};
  CHECK(why_answer(gap, run, "run")
            .verdict.ends_with("GPU 3 reaches 92.0 °C after 285 s and shuts "
                               "down; the job ends there."));
}

TEST_CASE("what takes longer in one proportion has one part") {
  const auto has = [](const GapPart& part, const char* words) {
    return part.what.find(words) != std::string::npos;
  };
  for (const bool knows_clocks : {false, true}) {
    const Sources sources{.recording = knows_clocks, .traces = true};
    const run::Run fair = recorded(dense_job(), 1, sources);
    run::Run slow = recorded(dense_job(), 1, sources);
    for (run::Span& span : slow.timeline.spans) {
      span.begin = Instant() + 1.2 * (span.begin - Instant());
      span.end = Instant() + 1.2 * (span.end - Instant());
    }
    const Seconds more = 0.2 * (slow.steps[0].end - slow.steps[0].begin);
    lengthen(slow, [&](size_t) { return more; });
    for (const run::Run* against : {&fair, &prediction_of(dense_job())}) {
      const Gap gap = gap_of(slow, against);
      REQUIRE(gap.parts.size() == 1);
      CHECK(gap.parts[0].cause == "everything");
      CHECK(has(gap.parts[0], "takes 20 % longer"));
      CHECK(has(gap.parts[0], "lower clock") != knows_clocks);
      CHECK(has(gap.parts[0], "prediction") == (against != &fair));
      CHECK(gap.parts[0].cost / (gap.measured - gap.base) == Approx(1).epsilon(0.05));
    }
  }
}

TEST_CASE("two slow GPUs in lockstep are both named, and cost what they are slower than the next") {
  spec::Job job = dense_job();
  job.environment.faults = {spec::parse_fault("gpu=3,power=0.5").value(),
                            spec::parse_fault("gpu=12,heat_path=4").value()};
  const run::Run run = sim::simulate(job, {});
  const Gap gap = gap_of(run, &prediction_of(dense_job()));
  std::set<std::string> causes;
  for (const GapPart& part : gap.parts)
    causes.insert(part.cause);
  CHECK(causes.contains("heat"));
  CHECK(causes.contains("power_limit"));
  CHECK(abs(gap.unexplained) < 0.03 * gap.measured);
}

}  // namespace
}  // namespace triplepoint::advise
