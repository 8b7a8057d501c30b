// SPDX-License-Identifier: Apache-2.0
// How long a run of a measured job may take, and what is said of it.
#include "triplepoint/app/time_limits.h"

#include <cmath>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/measuring.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::app {
namespace {

spec::Job fsdp_job(int64_t global_batch, const std::string& name = "fsdp") {
  const auto job = spec::parse_job(
      spec::default_library(),
      fmt::format(
          "name = \"{}\"\nmodel = \"gpt3-175b\"\ncluster = \"hgx-h200\"\nnodes = 4\n"
          "stack = \"nemo-profiled\"\n[plan]\ntensor_parallel_size = 8\nsharding = \"parameters\"\n"
          "recompute = \"full\"\nglobal_batch_size = {}\n",
          name, global_batch),
      "job.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  return *job;
}

/// Without room: nothing is sharded.
spec::Job large_job(const std::string& name) {
  spec::Job job = fsdp_job(128, name);
  job.plan.sharding = spec::Sharding::none;
  return job;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a run's time limit is its start-up and its simulated steps with a margin") {
  const spec::Job job = fsdp_job(128);
  const run::Run simulated = sim::simulate(job, {});
  REQUIRE(simulated.steps.size() >= 1);
  const Seconds step = simulated.steps.back().end - simulated.steps.back().begin;
  const RunTime time = run_time(job, {.steps = 8, .warmup = 2});
  REQUIRE(time.steps);
  CHECK(time.fits_memory);
  CHECK(*time.steps / step == doctest::Approx(8).epsilon(0.02));
  const double minutes = time.limit / unit::min;
  CHECK(minutes >= (RunTime::start_up + RunTime::margin * *time.steps) / unit::min);
  CHECK(minutes - (RunTime::start_up + RunTime::margin * *time.steps) / unit::min < 1);
  CHECK(minutes == std::round(minutes));
  // Longer steps and more of them need longer; what the user gives stands.
  CHECK(run_time(fsdp_job(256), {.steps = 8}).limit > 1.5 * time.limit - RunTime::start_up);
  CHECK(run_time(job, {.steps = 16}).limit > time.limit + 7 * RunTime::margin * step);
  CHECK(run_time(job, {.steps = 8, .timeout = 90 * unit::s}).limit == 90 * unit::s);
  // No limit is above a year.
  CHECK(run_time(job, {.steps = 100'000'000}).limit == RunTime::most);
  // What no simulation can tell has a limit too.
  spec::Job unknown = job;
  unknown.cluster.gpu.hbm_bandwidth.reset();
  CHECK_FALSE(run_time(unknown, {}).steps);
  CHECK(run_time(unknown, {}).limit == RunTime::least_if_unsure);
}

TEST_CASE("a job that does not fit in memory in the simulation has an hour, or what steps take") {
  const RunTime few = run_time(large_job("large"), {.steps = 1});
  CHECK_FALSE(few.fits_memory);
  REQUIRE(few.steps);
  CHECK(few.limit == RunTime::least_if_unsure);
  const RunTime many = run_time(large_job("large"), {.steps = 1000});
  CHECK(many.limit >= RunTime::start_up + 1000 * RunTime::margin * *few.steps);
  CHECK(many.limit > RunTime::least_if_unsure);
}

TEST_CASE("times are told in a unit that fits them") {
  CHECK(limit_text(59.9 * unit::s) == "59.9 s");
  CHECK(limit_text(1.5 * unit::s) == "1.5 s");
  CHECK(limit_text(150 * unit::s) == "2.5 min");
  CHECK(limit_text(60 * unit::min) == "60 min");
  CHECK(limit_text(12 * unit::h) == "12 h");
  CHECK(limit_text(RunTime::most) == "365 days");
  CHECK(limit_text(98'331'240 * unit::min) == "68286 days");
}

TEST_CASE("limits that are too short are one sentence with the job that needs longest") {
  const spec::Job short_one = fsdp_job(128, "short"), long_one = fsdp_job(256, "long"),
                  other = fsdp_job(128, "other");
  formats::MeasurePlan plan{.steps = 8};
  CHECK(limit_remarks({&short_one, &long_one}, plan).empty());
  plan.timeout = 1 * unit::s;
  const auto said = limit_remarks({&short_one, &long_one, &other}, plan);
  REQUIRE(said.size() == 1);
  const Seconds steps = *run_time(long_one, plan).steps;
  CHECK(said[0] ==
        fmt::format("--timeout 1 s is shorter than the 8 steps of long ({} in the simulation) and "
                    "those of 2 more jobs; leave --timeout out, or give {} or more (with "
                    "10 min for the start)",
                    limit_text(steps), limit_text(std::ceil(10 + steps / unit::min) * unit::min)));
  plan.steps = 1;
  const auto alone = limit_remarks({&short_one}, plan);
  REQUIRE(alone.size() == 1);
  CHECK(has(alone[0], "shorter than the 1 step of short ("));
  CHECK_FALSE(has(alone[0], "more job"));
  plan.timeout = 10 * unit::h;
  CHECK(limit_remarks({&short_one}, plan).empty());
  const auto years = limit_remarks({&short_one}, {.steps = 100'000'000});
  REQUIRE(years.size() == 1);
  CHECK(has(years[0], "the longest time limit, 365 days, is shorter than the 100000000 steps"));
  CHECK(has(years[0], "give fewer --steps"));
}

TEST_CASE("jobs that do not fit in memory are named in one sentence") {
  const spec::Job fits = fsdp_job(128, "fits"), large = large_job("large"),
                  larger = large_job("larger");
  const auto both = limit_remarks({&fits, &large, &larger}, {.steps = 8});
  REQUIRE(both.size() == 1);
  CHECK(both[0] ==
        "large and 1 more job do not fit in memory in the simulation; they are run all the same, "
        "with a time limit of 60 min or more");
  const auto one = limit_remarks({&large}, {.steps = 8, .timeout = 10 * unit::h});
  REQUIRE(one.size() == 1);
  CHECK(one[0] == "large does not fit in memory in the simulation; it is run all the same");
}

TEST_CASE("scripts ask Slurm for the time limit, and nothing is said of what is recorded") {
  const ScratchFolder scratch;
  const spec::Job job = fsdp_job(128);
  const auto measurer_of = [&](const formats::MeasurePlan& plan) {
    auto measurer = JobMeasurer::make(scratch.folder(), plan, "tpt", {});
    REQUIRE(measurer);
    return *measurer;
  };
  const auto script_of = [&](const formats::MeasurePlan& plan) {
    REQUIRE(measurer_of(plan)(job, "job"));
    const auto scripts = list_files(scratch.folder() / "scripts", ".sh");
    REQUIRE(scripts);
    REQUIRE(scripts->size() == 1);
    return scripts->front();
  };
  const auto time_of_script = [&](const formats::MeasurePlan& plan) {
    const std::string text = *read_file(script_of(plan));
    const size_t at = text.find("#SBATCH --time=");
    return text.substr(at, text.find('\n', at) - at);
  };
  formats::MeasurePlan plan{.launcher = "slurm", .steps = 8, .scripts_only = true};
  CHECK(time_of_script(plan) ==
        fmt::format("#SBATCH --time={:.0f}", run_time(job, plan).limit / unit::min));
  plan.timeout = 150 * unit::s;
  CHECK(time_of_script(plan) == "#SBATCH --time=3");
  const std::vector<MeasuredJob> jobs = {{&job, "job"}};
  CHECK(measurer_of(plan).remarks_before(jobs).size() == 1);
  const formats::JobFiles files{scratch.folder(), script_of(plan).stem().string()};
  REQUIRE(write_file_atomically(files.done(1), ""));
  CHECK(measurer_of(plan).remarks_before(jobs).empty());
  plan.repeats = 2;  // the second is still to be run
  CHECK(measurer_of(plan).remarks_before(jobs).size() == 1);
}

}  // namespace
}  // namespace triplepoint::app
