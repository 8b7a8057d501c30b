// SPDX-License-Identifier: Apache-2.0
// How a training is started, and what a recording learns from its job.
#include "triplepoint/app/measuring.h"

#include <cmath>
#include <map>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/recording.h"
#include "triplepoint/app/training.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::app {
namespace {

using Variables = std::map<std::string, std::string>;

ProcessEnvironment machine(const Variables& variables, const std::vector<std::string>& programs) {
  return {
      .variable = [variables](const char* name) { return value_at(variables, name); },
      .has_program = [programs](const std::string& program) { return holds(programs, program); }};
}

spec::Job job_of(const std::string& text) {
  const auto job = spec::parse_job(spec::default_library(), text, "job.toml");
  REQUIRE_MESSAGE(job, job.error().what);
  return *job;
}

TEST_CASE("the ranks are started by the available launcher, and only once") {
  const std::vector<std::string> all = {"mpirun", "srun"};
  const auto choice = [](const Variables& variables, const std::vector<std::string>& programs) {
    return *choose_launcher("auto", machine(variables, programs));
  };
  CHECK(choice({}, all) == Launcher::mpirun);
  CHECK(choice({}, {}) == Launcher::threads);
  CHECK(choice({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}}, all) == Launcher::srun);
  CHECK(choice({{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}}, all) == Launcher::mpirun);
  CHECK(choice({{"SLURM_JOB_ID", "7"}}, {"srun"}) == Launcher::srun);
  CHECK(choice({{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}}, all) ==
        Launcher::none);
  CHECK_FALSE(choose_launcher("mpirun", machine({}, {})));
  CHECK(*choose_launcher("threads", machine({}, all)) == Launcher::threads);
}

std::string line_of(const TrainRequest& request, Launcher launcher) {
  return joined(launch_command(request, launcher));
}

TEST_CASE("one recorder stands in front of mpirun, and one on every node behind srun") {
  TrainRequest request{.self = "tpt",
                       .trainer = "trainer",
                       .job_file = "j.toml",
                       .ranks = 8,
                       .nodes = 2,
                       .steps = 5,
                       .flags = {"--lr", "1e-3"}};
  CHECK(line_of(request, Launcher::mpirun) == "mpirun -n 8 trainer j.toml --steps 5 --lr 1e-3");
  CHECK(line_of(request, Launcher::none) == "trainer j.toml --steps 5 --lr 1e-3");
  CHECK(line_of(request, Launcher::threads) ==
        "trainer j.toml --steps 5 --transport threads --ranks 8 --lr 1e-3");
  request.recording = "a.run";
  request.warmup = 1;
  const std::string record = "tpt record -o a.run --job j.toml --warmup 1 --steps all -- ";
  CHECK(line_of(request, Launcher::mpirun) ==
        record + "mpirun -n 8 trainer j.toml --steps 5 --lr 1e-3");
  CHECK(line_of(request, Launcher::srun) ==
        "srun -n 8 -N 2 --overcommit " + record + "trainer j.toml --steps 5 --lr 1e-3");
}

TEST_CASE("what the user has set for Open MPI stays") {
  const auto set = launch_variables(machine({{"OMPI_MCA_mpi_yield_when_idle", "0"}}, {}));
  CHECK(set.count("OMPI_MCA_mpi_yield_when_idle") == 0);
  CHECK(set.at("OMPI_MCA_rmaps_base_oversubscribe") == "1");
  CHECK(set.at("PRTE_MCA_rmaps_default_mapping_policy") == ":oversubscribe");
  CHECK(set.count("OMPI_MCA_plm") == 0);
  const auto batch = launch_variables(machine({{"SLURM_JOB_ID", "7"}}, {}));
  CHECK(batch.at("OMPI_MCA_plm") == "isolated");
}

TEST_CASE("a machine that others use is told from the kernel's and the command's CPU seconds") {
  const double tick = as_real(sysconf(_SC_CLK_TCK));
  const auto of = [&](double user, double idle, double steal) {
    return *machine_seconds_of(fmt::format("cpu  {} 0 0 {} 0 0 0 {} 0 0\ncpu0 1 2\n", user * tick,
                                           idle * tick, steal * tick));
  };
  const MachineSeconds begin = of(1000, 500, 0);
  const auto said = [&](const MachineSeconds& end, double own) {
    return busy_machine_note(cpu_shares(begin, end, own));
  };
  // 20 s of two threads.
  CHECK_FALSE(said(of(1038, 502, 0), 36));  // its own load
  CHECK_FALSE(said(of(1030, 510, 0), 15));  // a quarter was free
  CHECK_FALSE(said(begin, 0));
  const auto note = must(said(of(1039, 501, 0), 15));
  CHECK(note.find("other programs used 60 %") == 0);
  CHECK(note.find("2 % was idle") != std::string::npos);
  CHECK(said(of(1020, 501, 19), 20));  // by a hypervisor's others
  CHECK_FALSE(machine_seconds_of("MemTotal: 5"));
  CHECK(machine_seconds());
}

TEST_CASE("a trainer that is not there is missed with a way to get it") {
  const auto none = find_trainer(machine({{"TRIPLEPOINT_TRAINER", "/nonexistent/trainer"}}, {}));
  REQUIRE_FALSE(none);
  CHECK(contains(none.error().what, "TRIPLEPOINT_TRAINER"));
}

TEST_CASE("a training of which nothing is said is a valid job of every kind of parallelism") {
  const spec::Job job = job_of(beginning_of_training(false));
  CHECK_FALSE(spec::has_errors(spec::diagnose(job)));
  CHECK(job.plan.tensor_parallel_size == 2);
  CHECK(job.plan.pipeline_parallel_size == 2);
  CHECK(job.data_parallel_size() == 2);
  CHECK(job_of(beginning_of_training(true)).data_parallel_size() == 8);
}

TEST_CASE("ranks spread over the nodes, or share one if they cannot be even") {
  spec::Job job = job_of(beginning_of_training(true));
  job.cluster.num_nodes = 2;
  spread_ranks(job, 16);
  CHECK(job.cluster.num_nodes == 2);
  CHECK(job.cluster.gpus_per_node == 8);
  CHECK(job.cluster.scale_up.domain_size == 8);
  spread_ranks(job, 3);
  CHECK(job.cluster.num_nodes == 1);
  CHECK(job.world_size() == 3);
}

TEST_CASE("a job that only predictions lack numbers for can be trained, a wrong one cannot") {
  spec::Job job = job_of(beginning_of_training(false));
  job.cluster.gpu.hbm_bandwidth.reset();
  CHECK(spec::has_errors(spec::diagnose(job)));
  CHECK(require_trainable(job));
  job.plan.tensor_parallel_size = 3;
  CHECK_FALSE(require_trainable(job));
}

run::Run recording_of_two_ranks() {
  run::Run recording;
  recording.manifest.origin = run::Origin::measured;
  run::Timeline& timeline = recording.timeline;
  timeline.num_ranks = 8;
  const auto compute = run::SpanKind::compute;
  const int32_t qkv = timeline.intern({.name = "qkv", .kind = compute});
  const int32_t norm = timeline.intern({.name = "input_norm", .kind = compute});
  const int32_t sync =
      timeline.intern({.name = "gradient_all_reduce", .kind = run::SpanKind::communication});
  for (const int32_t rank : {0, 7})
    for (const int32_t type : {qkv, norm, sync})
      timeline.spans.push_back(
          {.begin = Instant(type), .end = Instant(9), .type = type, .rank = rank});
  recording.steps.push_back({.begin = Instant(0), .end = Instant(10)});
  return recording;
}

TEST_CASE("a recording learns flops, stages, kinds and devices from its job") {
  run::Run recording = recording_of_two_ranks();
  const spec::Job job = job_of(beginning_of_training(false));
  describe_with_job(recording, job);
  CHECK(recording.manifest.job == job);
  CHECK(recording.model_flops);
  CHECK(recording.steps[0].tokens == 32 * 64);
  CHECK(recording.steps[0].samples == 32);
  const auto type = [&](size_t i) { return recording.timeline.types[i]; };
  CHECK(type(0).op_class == spec::OpClass::gemm);
  CHECK(type(1).kind == run::SpanKind::memory);
  CHECK(type(1).op_class == spec::OpClass::norm);
  CHECK(type(2).collective == spec::Collective::all_reduce);
  CHECK(type(2).group == spec::GroupKind::data);
  CHECK(recording.timeline.spans.front().stage == 0);
  CHECK(recording.timeline.spans.back().stage == 1);
  REQUIRE(recording.devices.size() == 2);
  CHECK(recording.devices[1].rank == 7);
  CHECK(recording.summaries.size() == 2);
  CHECK_FALSE(recording.summaries[0].power_mean_w);
  CHECK(*recording.peak_flops == *job.cluster.gpu.peak_fp32);
}

TEST_CASE("spans of one collective are matched, and say how long each rank waited for the last") {
  run::Run recording;
  run::Timeline& timeline = recording.timeline;
  timeline.num_ranks = 8;
  const int32_t reduce = timeline.intern({.name = "all_reduce",
                                          .kind = run::SpanKind::communication,
                                          .collective = spec::Collective::all_reduce,
                                          .group = spec::GroupKind::tensor});
  const auto say = [&](int32_t rank, int64_t begin, int64_t end) {
    timeline.spans.push_back(
        {.begin = Instant(begin), .end = Instant(end), .type = reduce, .rank = rank});
  };
  say(0, 10, 50), say(0, 60, 70), say(1, 40, 50), say(1, 60, 70);
  say(2, 10, 20);  // its peer was never heard of
  describe_with_job(recording, job_of(beginning_of_training(false)));
  REQUIRE(timeline.details.size() == 5);
  CHECK(timeline.spans[0].wait == 30 * unit::ns);
  CHECK(timeline.spans[2].wait == Seconds());
  CHECK(timeline.details[0].sequence == 0);
  CHECK(timeline.details[3].sequence == 1);
  CHECK(timeline.details[0].communicator == timeline.details[2].communicator);
  CHECK(timeline.details[4].sequence == -1);
  CHECK(timeline.communicators.size() == 1);
  CHECK_FALSE(run::find_fault(timeline));
}

TEST_CASE("a recording takes memory, traffic and the measured peak from the trainer's report") {
  const std::string term = R"({"bytes": 5, "model_bytes": 6})";
  std::string terms;
  for (const char* name : {"weights", "gradients", "optimizer", "activations", "logits", "buffers"})
    terms += std::string(terms.empty() ? "" : ",") + "\"" + name + "\":" + term;
  const std::string report =
      R"({"ranks": 4, "peak_flops": 8e9, "steps": [{"loss": 6}, {"loss": 5.5}], "traffic": )"
      R"([{"group": "tensor", "collective": "all_reduce", "bytes": 64, "workload_bytes": 60}], )"
      R"("memory": [{"terms": {)" +
      terms + "}}]}";
  run::Run recording = recording_of_two_ranks();
  REQUIRE(add_trainer_report(recording, report));
  REQUIRE(recording.memory.size() == 1);
  CHECK(recording.memory[0].total() == 30 * unit::B);
  CHECK(recording.peak_flops == 2e9 * unit::FLOP / unit::s);
  CHECK(recording.numbers.collective_bytes == 64);
  CHECK(recording.numbers.collective_bytes_of_job == 60);
  CHECK(recording.numbers.loss_last == 5.5);
  CHECK_FALSE(add_trainer_report(recording, "{}"));
  CHECK_FALSE(add_trainer_report(recording, "no"));
}

TEST_CASE("devices that were measured are not replaced by ranks") {
  run::Run recording = recording_of_two_ranks();
  recording.devices.push_back({.name = "GPU"});
  recording.summaries.emplace_back();
  describe_with_job(recording, job_of(beginning_of_training(false)));
  CHECK(recording.devices.size() == 1);
}

TEST_CASE("the script of ranks that share cores asks Slurm for one node, of a real one for all") {
  const formats::JobFiles files{"/study", "name-1"};
  spec::Job job = job_of(beginning_of_training(false));
  const std::string shared = formats::job_script(job, files, {}, unit::h, "/bin/triplepoint");
  CHECK(contains(shared, "#SBATCH --nodes=1\n"));
  CHECK(contains(shared, "--cpus-per-task=2\n"));
  CHECK(contains(shared, "/bin/triplepoint train /study/jobs/name-1.toml"));
  CHECK(contains(shared, "touch /study/work/name-1-$repeat.done"));
  job = job_of(
      "model = \"gpt3-1.3b\"\ncluster = \"hgx-h200\"\nnodes = 4\nstack = "
      "\"megatron-core\"\n[plan]\nglobal_batch_size = 32\n");
  const std::string real = formats::job_script(job, files, {}, unit::h, "/bin/triplepoint");
  CHECK(contains(real, "#SBATCH --nodes=4\n"));
  CHECK(contains(real, "#SBATCH --gpus-per-node=8\n"));
  CHECK(contains(real, "record --quiet --job /study/jobs/name-1.toml"));
}

TEST_CASE("other stacks get a launch file in their own words, with the steps that are wanted") {
  const formats::JobFiles files{"/study", "name-1"};
  const formats::MeasurePlan plan{.steps = 7};
  const auto files_of = [&](const std::string& stack) {
    const spec::Job job =
        job_of("model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\nstack = \"" + stack +
               "\"\n[plan]\ntensor_parallel_size = 2\nglobal_batch_size = 16\n");
    const auto all = formats::launch_files(job, files, plan);
    return all.empty() ? std::string() : all.front().text;
  };
  CHECK(contains(files_of("megatron-core"), "--train-iters 7"));
  CHECK(contains(files_of("megatron-core"), "name-1-marked.py pretrain_gpt.py"));
  CHECK(contains(files_of("nemo-profiled"), "tensor_model_parallel_size: 2"));
  CHECK(contains(files_of("nemo-profiled"), "trace_dir: traces\n"));
  CHECK(contains(files_of("nemo-profiled"), "max_steps: 7\n"));
  // Steps count from 0: the last of seven is traced.
  CHECK(contains(files_of("nemo-profiled"), "start_step: 6\n"));
  CHECK(contains(files_of("nemo-profiled"), "end_step: 6\n"));
  CHECK(contains(files_of("compiled-pytorch"), "tensor_parallel_degree = 2"));
  CHECK(contains(files_of("compiled-pytorch"), "steps = 7"));
  CHECK(files_of("triplepoint-train").empty());
}

TEST_CASE("a profiled NeMo job leaves its traces where its recording looks for them") {
  const formats::JobFiles files{"/study", "name-1"};
  const auto script_of = [&](const std::string& stack) {
    const spec::Job job =
        job_of("model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\nstack = \"" + stack +
               "\"\n[plan]\ntensor_parallel_size = 2\nglobal_batch_size = 16\n");
    return formats::job_script(job, files, {}, unit::h, "tpt");
  };
  CHECK(script_of("nemo-profiled")
            .find(" model.chakra_profile.trace_dir=/study/work/name-1-$repeat-traces\n") !=
        std::string::npos);
  CHECK(files.traces(3) == Path("/study/work/name-1-3-traces"));
  CHECK(!contains(script_of("megatron-core"), "chakra_profile"));
}

TEST_CASE("NeMo's program for adapters is started for a LoRA job") {
  spec::Job job = job_of(
      "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 1\nstack = \"nemo-profiled\"\n"
      "[plan]\ntensor_parallel_size = 2\nglobal_batch_size = 16\n");
  const auto script = [&] {
    return formats::job_script(job, {"/study", "name-1"}, {}, unit::h, "tpt");
  };
  CHECK(contains(script(), "language_modeling/megatron_gpt_pretraining.py "));
  job.task = spec::Task::lora;
  CHECK(contains(script(), "language_modeling/tuning/megatron_gpt_finetuning.py "));
}

TEST_CASE("a failure's sentence has the program's own words, not those of the launcher around it") {
  const std::string printed =
      "step 0 loss 6\ntriplepoint-train: rank 3 waits for rank 1 (30 s); start it again\n"
      "--------------------------------\nmpirun has exited due to process rank "
      "3\n---------------\n";
  const std::string crash = failure_sentence(1, printed, "a.log");
  CHECK(contains(crash, "rank 3 waits for rank 1"));
  CHECK(contains(crash, "exit code 1"));
  CHECK(contains(failure_sentence(137, "", "a.log"), "memory"));
  CHECK(failure_sentence(1, "torch.OutOfMemoryError: CUDA out of memory", "a.log")
            .find("out of memory") != std::string::npos);
  CHECK(contains(failure_sentence(139, "", "a.log"), "signal 11"));
}

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

TEST_CASE("a limit that is too short, and a job that does not fit, are said before it runs") {
  const spec::Job job = fsdp_job(128, "short");
  const auto said = [&](const spec::Job& of, const formats::MeasurePlan& plan) {
    return limit_remark(of, plan, run_time(of, plan));
  };
  CHECK(said(job, {.steps = 8}).empty());
  const formats::MeasurePlan hasty{.steps = 8, .timeout = 1 * unit::s};
  CHECK(said(job, hasty) ==
        fmt::format("short: its 8 steps take {} in the simulation, longer than the time limit of 1 "
                    "s; give a longer --timeout, or fewer --steps",
                    limit_text(*run_time(job, hasty).steps)));
  CHECK(contains(said(job, {.steps = 100'000'000}), "longer than the time limit of 365 days"));
  CHECK(said(large_job("large"), {.steps = 8}) ==
        "large does not fit in memory in the simulation; it is run all the same");
}

TEST_CASE("scripts ask Slurm for the time limit, and what is recorded is not remarked on") {
  const ScratchFolder scratch;
  const spec::Job job = fsdp_job(128);
  std::vector<std::string> said;
  const Watch watch{.say = [&](std::string_view line) { said.emplace_back(line); }};
  const auto measurer_of = [&](const formats::MeasurePlan& plan) {
    auto measurer = JobMeasurer::make(scratch.folder(), plan, "tpt", watch);
    REQUIRE(measurer);
    return *measurer;
  };
  const auto script_of = [&](const formats::MeasurePlan& plan) {
    REQUIRE(measurer_of(plan)(job, "job"));
    const auto scripts = must(list_files(scratch.folder() / "scripts", ".sh"));
    REQUIRE(scripts.size() == 1);
    return scripts.front();
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
  plan.timeout = 1 * unit::s;
  said.clear();
  const formats::JobFiles files{scratch.folder(), script_of(plan).stem().string()};
  CHECK(said.size() == 1);
  said.clear();
  REQUIRE(write_file_atomically(files.done(1), ""));
  CHECK_FALSE(measurer_of(plan)(job, "job"));  // that recording is none
  CHECK(said.empty());
}

}  // namespace

}  // namespace triplepoint::app
