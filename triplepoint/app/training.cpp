// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/training.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include <sys/uio.h>
#include <unistd.h>

#include "triplepoint/app/merge_recordings.h"
#include "triplepoint/app/recording.h"
#include "triplepoint/store/store.h"
#include "triplepoint/telemetry/recorder/child_process.h"
#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::app {
namespace {

constexpr const char* trainer_variable = "TRIPLEPOINT_TRAINER";
constexpr int stopped_code = 130;  // of a training that stops after its step, as asked
constexpr const char* trainer_name = "triplepoint-train";

bool is_program(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

std::optional<Path> program_in_path(const std::string& name) {
  const char* folders = std::getenv("PATH");
  if (folders == nullptr) return std::nullopt;
  for (const std::string& folder : split(folders, ':'))
    if (const Path candidate = Path(folder) / name; is_program(candidate)) return candidate;
  return std::nullopt;
}

/// Containers often forbid reading another process' memory, with which Open MPI copies large
/// messages.
bool may_copy_between_processes() {
  char from = 1, to = 0;
  const iovec local{&to, 1}, remote{&from, 1};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1;
}

void append(std::vector<std::string>& all, std::vector<std::string> more) {
  for (std::string& word : more)
    all.push_back(std::move(word));
}

std::vector<std::string> recorder_words(const TrainRequest& request) {
  if (!request.recording) return {};
  std::vector<std::string> words = {request.self.string(),
                                    "record",
                                    "-o",
                                    request.recording->string(),
                                    "--job",
                                    request.job_file.string(),
                                    "--warmup",
                                    std::to_string(request.warmup),
                                    "--steps",
                                    "all"};
  if (request.quiet) words.emplace_back("--quiet");
  words.emplace_back("--");
  return words;
}

std::vector<std::string> trainer_words(const TrainRequest& request, Launcher launcher) {
  std::vector<std::string> words = {request.trainer.string(), request.job_file.string(), "--steps",
                                    std::to_string(request.steps)};
  if (launcher == Launcher::threads)
    append(words, {"--transport", "threads", "--ranks", std::to_string(request.ranks)});
  append(words, request.flags);
  return words;
}

/// Launchers end their ranks on SIGTERM with a code of theirs, and know only that others have
/// stopped as after a Ctrl-C.
int code_after_request(const Watch& watch, int code, int signal) {
  if (code == 0 || (signal != SIGTERM && code != stopped_code)) return code;
  if (signal == SIGTERM)
    watch.say(
        "the training was stopped by SIGTERM (mpirun gives its ranks about 2 s; SIGINT would let "
        "them finish their step)");
  return 128 + signal;
}

}  // namespace

ProcessEnvironment process_environment() {
  return {.variable = telemetry::process_variable, .has_program = [](const std::string& program) {
            return program_in_path(program).has_value();
          }};
}

int64_t nodes_allocated(const ProcessEnvironment& around) {
  const auto nodes = around.variable("SLURM_JOB_NUM_NODES");
  return nodes ? std::max<int64_t>(1, std::atoll(nodes->c_str())) : 1;
}

Result<Launcher> choose_launcher(const std::string& word, const ProcessEnvironment& around) {
  const telemetry::LaunchEnvironment launched = telemetry::read_launch_environment(around.variable);
  if (word == "auto" || word == "none") {
    if (launched.rank) return Launcher::none;
    // On one node mpirun needs nothing of Slurm; srun starts MPI as the site has set it up, or not.
    const bool may_srun = around.variable("SLURM_JOB_ID") && around.has_program("srun");
    if (may_srun && nodes_allocated(around) > 1) return Launcher::srun;
    if (around.has_program("mpirun")) return Launcher::mpirun;
    return may_srun ? Launcher::srun : Launcher::threads;
  }
  if (word == "threads") return Launcher::threads;
  if (!around.has_program(word))
    return error(
        "{} is not in PATH (it was asked for as the launcher); install it "
        "(openmpi-bin, slurm-client), or try --launcher threads",
        word);
  return word == "srun" ? Launcher::srun : Launcher::mpirun;
}

std::vector<std::string> launch_command(const TrainRequest& request, Launcher launcher) {
  std::vector<std::string> words;
  const std::string ranks = std::to_string(request.ranks);
  // On one machine one recorder stands in front of all; srun starts one per rank, of which one per
  // node records.
  if (launcher == Launcher::srun)
    append(words, {"srun", "-n", ranks, "-N", std::to_string(request.nodes), "--overcommit"});
  append(words, recorder_words(request));
  if (launcher == Launcher::mpirun) append(words, {"mpirun", "-n", ranks});
  append(words, trainer_words(request, launcher));
  return words;
}

std::map<std::string, std::string> launch_variables(const ProcessEnvironment& around) {
  constexpr std::array<std::array<const char*, 2>, 12> settings = {{
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      // Open MPI 5 starts ranks with PRRTE, which has its own names.
      {"PRTE_ALLOW_RUN_AS_ROOT", "1"},
      {"PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"PRTE_MCA_hwloc_default_binding_policy", "none"},
      {"OPENBLAS_NUM_THREADS", "1"},
      {"OMP_NUM_THREADS", "1"},
      {"TRIPLEPOINT_MARK_ENTRIES", "131072"},
  }};
  std::map<std::string, std::string> variables;
  const auto add = [&](const char* name, const char* value) {
    if (!around.variable(name)) variables[name] = value;
  };
  for (const auto& [name, value] : settings)
    add(name, value);
  if (around.variable("SLURM_JOB_ID") && nodes_allocated(around) == 1) {
    // mpirun would start itself by srun, on a node that it is on already.
    add("OMPI_MCA_plm", "isolated");
    add("OMPI_MCA_ras", "^slurm");
    add("PRTE_MCA_plm", "^slurm");
    add("PRTE_MCA_ras", "^slurm");
  }
  if (!may_copy_between_processes()) add("OMPI_MCA_btl_vader_single_copy_mechanism", "none");
  return variables;
}

Result<std::vector<Path>> recordings_of_nodes(const Path& output) {
  const Path folder = output.has_parent_path() ? output.parent_path() : Path(".");
  const std::string begin = output.stem().string() + ".";
  std::vector<Path> files;
  for (const Path& file : TPT_TRY(list_files(folder, ".run"))) {
    const std::string stem = file.stem().string();
    if (!stem.starts_with(begin)) continue;
    const std::string host = stem.substr(begin.size());
    if (!host.empty() && !contains(host, '.') &&
        host.find_first_not_of("0123456789") != std::string::npos)
      files.push_back(file);
  }
  return files;
}

Result<Path> find_trainer(const ProcessEnvironment& around) {
  if (const auto named = around.variable(trainer_variable)) {
    if (is_program(*named)) return Path(*named);
    return error("{} is no program ({} names it); unset the variable, or name triplepoint-train",
                 *named, trainer_variable);
  }
  std::error_code problem;
  const Path self = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (const Path beside = self.parent_path() / trainer_name; is_program(beside)) return beside;
  if (const auto found = program_in_path(trainer_name)) return *found;
  return error(
      "triplepoint-train is not there (it is a separate package, and is built where OpenBLAS is "
      "found); install the package triplepoint-train, or apt install libopenblas-dev "
      "libopenmpi-dev openmpi-bin and make build");
}

Result<int> run_launch(const Watch& watch, const std::vector<std::string>& command,
                       const ProcessEnvironment& around, Launcher launcher, const Path& report) {
  std::map<std::string, std::string> variables = launch_variables(around);
  if (!report.empty()) variables["TRIPLEPOINT_TRAIN_REPORT"] = absolute_path(report).string();
  const telemetry::SignalsForCommand signals;
  // mpirun kills its ranks two seconds after a Ctrl-C; they need the rest of their step.
  using Place = telemetry::ChildProcess::Place;
  const Place place = launcher == Launcher::mpirun ? Place::apart : Place::beside;
  telemetry::ChildProcess child =
      TPT_TRY(telemetry::ChildProcess::start(command, variables, signals, place));
  std::optional<int> code;
  while (!code)
    code = child.wait_for(unit::h);
  if (place != Place::apart || !child.end_request()) return *code;
  return code_after_request(watch, *code, *child.end_request());
}

Result<JobFile> JobFile::write(const Path& folder, const std::string& text) {
  std::string name = (folder / "triplepoint-job-XXXXXX.toml").string();
  constexpr int suffix = 5;  // ".toml"
  const int file = mkstemps(name.data(), suffix);
  if (file < 0)
    return error("cannot write a job into {} (it is full, or not ours); set TMPDIR",
                 folder.string());
  close(file);
  JobFile job{name};
  TPT_TRY(write_file_atomically(name, text));
  return job;
}

JobFile::~JobFile() {
  std::error_code ignored;
  if (path_.empty()) return;
  std::filesystem::remove(path_, ignored);
  std::filesystem::remove(report(), ignored);
}

Path JobFile::report() const {
  Path report = path_;
  return report.replace_extension(".json");
}

Result<void> add_report_of_trainer(const Path& recording, const Path& report) {
  const std::string text = TPT_TRY(read_file(report));
  run::Run run = TPT_TRY(run::load(recording.string()));
  TPT_TRY(add_trainer_report(run, text));
  TPT_TRY(run::save(run, recording.string()));
  return {};
}

Result<void> merge_nodes(const Path& output) {
  const std::vector<Path> files = TPT_TRY(recordings_of_nodes(output));
  if (files.empty()) return {};  // one node: it has the name already
  const run::Merged merged = TPT_TRY(merge_files(files));
  TPT_TRY(run::save(merged.run, output.string()));
  std::error_code ignored;
  for (const Path& file : files)
    std::filesystem::remove(file, ignored);
  return {};
}

std::string beginning_of_training(bool user_splits) {
  return fmt::format(R"(model = "tiny-llama"
cluster = "laptop"
stack = "triplepoint-train"
[plan]
{}sharding = "none"
micro_batch_size = 2
global_batch_size = 32
precision = "fp32"
optimizer = "fp32_adamw"
)",
                     user_splits ? "" : "tensor_parallel_size = 2\npipeline_parallel_size = 2\n");
}

void spread_ranks(spec::Job& job, int64_t ranks) {
  spec::Cluster& cluster = job.cluster;
  if (ranks == cluster.num_gpus()) return;
  if (ranks % cluster.num_nodes != 0) cluster.num_nodes = 1;
  cluster.gpus_per_node = ranks / cluster.num_nodes;
  cluster.scale_up.domain_size = cluster.gpus_per_node;
  job.plan.device_order.clear();
  job.plan.node_order.clear();
  if (!cluster.chassis.slots.empty())
    cluster.chassis.slots.assign(as_size(cluster.gpus_per_node), {});
}

Result<void> require_measured_step(int64_t warmup, int64_t steps) {
  if (warmup < steps) return {};
  return error("--warmup {} of {} steps (at least one has to be measured); give 0 to {}", warmup,
               steps, steps - 1);
}

Result<void> require_trainable(const spec::Job& job) {
  if (spec::is_inference(job.task))
    return error(
        "job {}: its task is {} (this command trains); simulate it, or set task to "
        "pretrain or lora",
        job.name, spec::name_of(job.task));
  std::string problems;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job)) {
    const bool only_for_predictions = diagnosis.code == spec::DiagnosisCode::unsupported;
    if (diagnosis.severity != spec::Diagnosis::Severity::error || only_for_predictions) continue;
    problems += (problems.empty() ? "" : "\n  ") + diagnosis.what;
  }
  if (problems.empty()) return {};
  return error("job {}: {}", job.name, problems);
}

}  // namespace triplepoint::app
