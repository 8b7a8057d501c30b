// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "triplepoint/base/files.h"

#include "triplepoint/run/merge.h"
#include "triplepoint/run/store.h"

#include "triplepoint/cli/bind.h"
#include "triplepoint/cli/console.h"
#include "triplepoint/cli/job_flags.h"
#include "triplepoint/cli/read_job.h"
#include "triplepoint/cli/recorded_job.h"
#include "triplepoint/cli/train_job.h"
#include "triplepoint/cli/train_launch.h"
#include "triplepoint/cli/verbs.h"
#include "triplepoint/telemetry/recorder/child_process.h"

namespace triplepoint::cli {
namespace {

namespace fs = std::filesystem;

/// A file that is gone when the training has ended.
class JobFile {
 public:
  static Result<JobFile> write(const Path& folder, const std::string& text) {
    std::string name = (folder / "triplepoint-job-XXXXXX.toml").string();
    constexpr int suffix = 5;  // ".toml"
    const int file = mkstemps(name.data(), suffix);
    if (file < 0)
      return error(fmt::format("cannot write a job into {} (it is full, or not ours); set TMPDIR",
                               folder.string()));
    close(file);
    JobFile job{name};
    TPT_TRY(write_file_atomically(name, text));
    return job;
  }
  JobFile(JobFile&& other) noexcept : path_(std::exchange(other.path_, Path())) {}
  JobFile& operator=(JobFile&&) = delete;
  JobFile(const JobFile&) = delete;
  JobFile& operator=(const JobFile&) = delete;
  ~JobFile() {
    std::error_code ignored;
    if (path_.empty()) return;
    fs::remove(path_, ignored);
    fs::remove(report(), ignored);
  }
  const Path& path() const { return path_; }
  /// Where the trainer leaves its numbers.
  Path report() const {
    Path report = path_;
    return report.replace_extension(".json");
  }

 private:
  explicit JobFile(Path path) : path_(std::move(path)) {}
  Path path_;
};

class Train : public Command {
 public:
  std::vector<Argument> arguments() override {
    std::vector<Argument> all = flags_.arguments();
    const std::string group = "How it is run, and what is kept";
    const std::vector<Argument> own = {
        {.names = "FLAGS",
         .help = "flags of triplepoint-train, behind --; its own help: triplepoint train -- --help",
         .group = group,
         .repeats = true,
         .store = into(trainer_flags_)},
        {.names = "--ranks",
         .value = "N",
         .help = "processes, over the cluster's nodes (default: as many as it has devices)",
         .group = group,
         .store = into(ranks_)},
        {.names = "--steps",
         .value = "N",
         .help = "optimizer steps (default 10)",
         .group = group,
         .store = into(steps_)},
        {.names = "--warmup",
         .value = "N",
         .help = "of them, steps that are not measured (default 2, with -o)",
         .group = group,
         .store = into(warmup_)},
        {.names = "-o,--output",
         .value = "NAME.run",
         .help = "record the training: timeline, steps, loss, and what sensors there are",
         .group = group,
         .words = Words::files,
         .store = into(output_)},
        {.names = "--launcher",
         .value = "WHO",
         .help = "who starts the ranks: auto (srun inside of Slurm, else mpirun, else threads), "
                 "mpirun, srun or threads",
         .group = group,
         .choices = {"auto", "mpirun", "srun", "threads"},
         .store = into(launcher_)},
        {.names = "--dry-run",
         .help = "show the job and the command instead of running it",
         .group = group,
         .store = into_switch(dry_run_)},
        {.names = "-q,--quiet",
         .help = "no summary of the recording",
         .group = group,
         .store = into_switch(quiet_)}};
    all.insert(all.end(), own.begin(), own.end());
    return all;
  }

  Result<int> run(Console& console) override {
    TPT_TRY(check());
    const spec::Library library = TPT_TRY(require_library());
    if (!flags_.has_file()) flags_.begin_with(beginning_of_training(flags_.has_layout()));
    spec::Job job = TPT_TRY(flags_.job(library));
    if (ranks_) TPT_TRY(spread_ranks(job, *ranks_));
    TPT_TRY(require_trainable(job));
    const LaunchSurroundings around = process_surroundings();
    if (wants_trainers_help())
      return start(console, {TPT_TRY(find_trainer(around)).string(), "--help"}, around);
    const Launcher launcher = TPT_TRY(choose_launcher(launcher_, around));
    const JobFile file = TPT_TRY(JobFile::write(folder_of_job(launcher), spec::write_job(job)));
    const TrainRequest request = TPT_TRY(make_request(job, file.path(), around));
    const std::vector<std::string> command = launch_command(request, launcher);
    if (dry_run_) return show(console, library, job, command, around);
    const int code = TPT_TRY(start(console, command, around, launcher, file.report()));
    if (launcher == Launcher::srun && output_) TPT_TRY(merge_nodes(*output_));
    if (output_ && code == 0 && launcher != Launcher::none)
      keep_report(console, *output_, file.report());
    return code;
  }

 private:
  Result<void> check() const {
    if (steps() < 1) return error("--steps is below 1 (nothing would be trained); try --steps 10");
    if (warmup_ && (*warmup_ < 0 || *warmup_ >= steps()))
      return error(
          fmt::format("--warmup {} of {} steps (at least one has to be measured); give "
                      "0 to {}",
                      *warmup_, steps(), steps() - 1));
    if (ranks_ && *ranks_ < 1)
      return error("--ranks is below 1 (somebody must work); try --ranks 8");
    return {};
  }

  bool wants_trainers_help() const {
    return std::find(trainer_flags_.begin(), trainer_flags_.end(), "--help") !=
           trainer_flags_.end();
  }

  int64_t steps() const { return steps_.value_or(10); }

  /// Other nodes see the folder that we are in, but not our /tmp.
  static Path folder_of_job(Launcher launcher) {
    return launcher == Launcher::srun ? Path(".") : fs::temp_directory_path();
  }

  Result<TrainRequest> make_request(const spec::Job& job, const Path& job_file,
                                    const LaunchSurroundings& around) const {
    std::error_code problem;
    TrainRequest request{.self = fs::read_symlink("/proc/self/exe", problem),
                         .trainer = TPT_TRY(find_trainer(around)),
                         .job_file = job_file,
                         .ranks = job.world_size(),
                         .nodes = nodes_allocated(around),
                         .steps = steps(),
                         .flags = trainer_flags_,
                         .warmup = warmup_.value_or(std::min<int64_t>(2, steps() - 1)),
                         .quiet = quiet_};
    if (output_) request.recording = *output_;
    return request;
  }

  static int show(Console& console, const spec::Library& library, const spec::Job& job,
                  const std::vector<std::string>& command, const LaunchSurroundings& around) {
    console.print(spec::write_job(job, library));
    console.print("\n# started as\n");
    for (const auto& [name, value] : launch_variables(around))
      console.print(fmt::format("#   {}={}\n", name, value));
    console.print(fmt::format("#   {}\n", fmt::join(command, " ")));
    return exit_ok;
  }

  static Result<int> start(Console& console, const std::vector<std::string>& command,
                           const LaunchSurroundings& around, Launcher launcher = Launcher::none,
                           const Path& report = {}) {
    console.flush();
    std::map<std::string, std::string> variables = launch_variables(around);
    if (!report.empty()) variables["TRIPLEPOINT_TRAIN_REPORT"] = fs::absolute(report).string();
    const telemetry::SignalsForCommand signals;
    // mpirun kills its ranks two seconds after a Ctrl-C; they need the rest of their step.
    using Place = telemetry::ChildProcess::Place;
    const Place place = launcher == Launcher::mpirun ? Place::apart : Place::beside;
    telemetry::ChildProcess child =
        TPT_TRY(telemetry::ChildProcess::start(command, variables, signals, place));
    while (true)
      if (const auto code = child.wait_for(unit::h)) return *code;
  }

  /// A recording without these numbers is a recording all the same.
  static void keep_report(Console& console, const Path& output, const Path& report) {
    const auto kept = [&]() -> Result<void> {
      const std::string text = TPT_TRY(read_file(report));
      run::Run recording = TPT_TRY(run::load(output.string()));
      TPT_TRY(add_trainer_report(recording, text));
      TPT_TRY(run::save(recording, output.string()));
      return {};
    }();
    if (!kept)
      console.warn(fmt::format("triplepoint: the recording lacks memory and traffic: {}\n",
                               kept.error().what));
  }

  /// Each node recorded NAME.HOST.run; together they are NAME.run.
  static Result<void> merge_nodes(const Path& output) {
    const std::vector<Path> files = TPT_TRY(recordings_of_nodes(output));
    if (files.empty()) return {};  // one node: it has the name already
    std::vector<run::Run> recordings;
    recordings.reserve(files.size());
    for (const Path& file : files)
      recordings.push_back(TPT_TRY(run::load(file.string())));
    const run::Merged merged = TPT_TRY(run::merge(std::move(recordings)));
    TPT_TRY(run::save(merged.run, output.string()));
    std::error_code ignored;
    for (const Path& file : files)
      fs::remove(file, ignored);
    return {};
  }

  JobFlags flags_;
  std::vector<std::string> trainer_flags_;
  std::optional<std::string> output_;
  std::optional<int64_t> ranks_, warmup_, steps_;
  std::string launcher_ = "auto";
  bool dry_run_ = false, quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train() {
  return std::make_unique<Train>();
}

}  // namespace triplepoint::cli
