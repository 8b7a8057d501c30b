// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "triplepoint/base/quoting.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/app/library_text.h"
#include "triplepoint/app/training.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/tui/progress.h"

namespace triplepoint::cli {
namespace {

namespace fs = std::filesystem;

class Train : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments()
        .without("ARGS")
        .group("Launch and output")
        .word("FLAGS",
              "flags of triplepoint-train, behind --; its own help: triplepoint train -- --help",
              into(trainer_flags_), {.repeats = true})
        .flag("--ranks", "N", "processes, over the cluster's nodes (default: one per device)",
              into_count(ranks_, 1, 4096))
        .flag("--steps", "N", "optimizer steps (default 10)", into_count(steps_, 1))
        .flag("--warmup", "N", "of these, warm-up steps that are not measured (default 2, with -o)",
              into_count(warmup_, 0))
        .flag("-o,--output", "NAME.run",
              "record the training: timeline, steps, loss and available sensors", into(output_),
              {.words = Words::files})
        .flag("--launcher", "WHO",
              "launcher of the ranks: auto (srun inside Slurm, else mpirun, else threads), "
              "mpirun, srun or threads",
              into(launcher_), {.choices = {"auto", "mpirun", "srun", "threads"}})
        .toggle("--dry-run", "print the job and the command without running it", dry_run_)
        .toggle("-q,--quiet", "do not print a summary of the recording", quiet_);
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(app::require_measured_step(warmup(), steps_));
    const spec::Library library = TPT_TRY(spec::require_library());
    if (!flags_.has_file()) flags_.begin_with(app::beginning_of_training(flags_.has_layout()));
    if (TPT_TRY(flags_.own_runs()))
      return error("--with changes predictions, and train measures; leave it out");
    spec::Job job = TPT_TRY(flags_.job(library));
    if (ranks_) app::spread_ranks(job, *ranks_);
    TPT_TRY(app::require_trainable(job));
    print_warnings(console, app::warnings_of(job));
    const app::ProcessEnvironment around = app::process_environment();
    if (wants_trainers_help())
      return app::run_launch(tui::watch_on(console),
                             {TPT_TRY(app::find_trainer(around)).string(), "--help"}, around);
    const app::Launcher launcher = TPT_TRY(app::choose_launcher(launcher_, around));
    const app::JobFile file =
        TPT_TRY(app::JobFile::write(folder_of_job(launcher), spec::write_job(job)));
    const app::TrainRequest request = TPT_TRY(make_request(job, file.path(), around));
    const std::vector<std::string> command = app::launch_command(request, launcher);
    if (dry_run_) return show(console, library, job, command, around);
    console.flush();
    const int code =
        TPT_TRY(app::run_launch(tui::watch_on(console), command, around, launcher, file.report()));
    if (launcher == app::Launcher::srun && output_) TPT_TRY(app::merge_nodes(*output_));
    if (output_ && code == 0 && launcher != app::Launcher::none)
      if (const auto kept = app::add_report_of_trainer(*output_, file.report()); !kept)
        console.warn(fmt::format("triplepoint: the recording lacks memory and traffic: {}\n",
                                 kept.error().what));
    return code;
  }

 private:
  bool wants_trainers_help() const { return holds(trainer_flags_, "--help"); }

  int64_t warmup() const { return warmup_.value_or(std::min<int64_t>(2, steps_ - 1)); }

  /// Other nodes see the folder that we are in, but not our /tmp.
  static Path folder_of_job(app::Launcher launcher) {
    std::error_code failed;
    const Path temporary = fs::temp_directory_path(failed);
    return launcher == app::Launcher::srun || failed ? Path(".") : temporary;
  }

  Result<app::TrainRequest> make_request(const spec::Job& job, const Path& job_file,
                                         const app::ProcessEnvironment& around) const {
    std::error_code problem;
    app::TrainRequest request{.self = fs::read_symlink("/proc/self/exe", problem),
                              .trainer = TPT_TRY(app::find_trainer(around)),
                              .job_file = job_file,
                              .ranks = job.world_size(),
                              .nodes = app::nodes_allocated(around),
                              .steps = steps_,
                              .flags = trainer_flags_,
                              .warmup = warmup(),
                              .quiet = quiet_};
    if (output_) request.recording = *output_;
    return request;
  }

  static int show(tui::Console& console, const spec::Library& library, const spec::Job& job,
                  const std::vector<std::string>& command, const app::ProcessEnvironment& around) {
    console.print(spec::write_job(job, library));
    console.print("\n# started as\n");
    for (const auto& [name, value] : app::launch_variables(around))
      console.print(fmt::format("#   {}={}\n", name, shell_word(value)));
    const std::string words =
        joined(mapped(command, [](const std::string& word) { return shell_word(word); }), " ");
    console.print(fmt::format("#   {}\n", comment_text(words)));
    return exit_ok;
  }

  JobFlags flags_;
  std::vector<std::string> trainer_flags_;
  std::optional<std::string> output_;
  std::optional<int64_t> ranks_, warmup_;
  int64_t steps_ = 10;
  std::string launcher_ = "auto";
  bool dry_run_ = false, quiet_ = false;
};

}  // namespace

std::unique_ptr<Command> make_train() {
  return std::make_unique<Train>();
}

}  // namespace triplepoint::cli
