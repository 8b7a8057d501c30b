// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"
#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/app/library_text.h"
#include "triplepoint/app/runner.h"
#include "triplepoint/app/sources.h"
#include "triplepoint/app/sweep.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/flags/simulation_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/metrics/metrics.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"
#include "triplepoint/telemetry/recorder/recorder.h"
#include "triplepoint/tui/console.h"
#include "triplepoint/tui/run_text.h"

namespace triplepoint::cli {
namespace {

class Simulate : public Command {
 public:
  Arguments arguments() override {
    return flags_.arguments()
        .add(simulation_.length())
        .group("Duration and output")
        .flag("-o,--output", "NAME.run", "write the run", into(output_), {.words = Words::files})
        .flag("--sweep", "FLAG=VALUES",
              "simulate at each value of a flag, as in \"power-limit=400 W..700 W/50 W\" or "
              "tp=2|4; repeatable: all combinations",
              [this](std::string_view text) -> Result<void> {
                swept_.push_back(TPT_TRY(app::parse_swept(text)));
                return {};
              },
              {.repeats = true})
        .add(simulation_.profile())
        .add(threads_.argument())
        .add(format_.argument())
        .add(simulation_.faults_and_bill());
  }

  Result<int> run(tui::Console& console) override {
    if (swept_.empty()) let_interrupts_end_us();
    const ThreadLimit limit = threads_.limit();
    if (output_) TPT_TRY(require_other_file(*output_, {flags_.file()}));
    const spec::Library library = TPT_TRY(spec::require_library());
    if (!swept_.empty()) return sweep(console, library);
    if (format_.is_csv())
      return error("csv is the table of a sweep (a job has none); add --sweep, or take json");
    spec::Job job = TPT_TRY(flags_.job(library));
    const std::string own = app::own_model_text(library, job);
    const auto learned = TPT_TRY(flags_.own_runs());
    const flags::JobResults results =
        TPT_TRY(simulation_.results(library, std::move(job), learned));
    if (!own.empty() && !format_.is_json()) console.print(own + "\n");
    print_warnings(console, app::warnings_of(*results.run.manifest.job));
    if (format_.is_json())
      print_json(console, flags::results_json(results));
    else
      tui::print_results(console, results);
    TPT_TRY(write(console, results.run));
    return exit_ok;
  }

 private:
  /// Flags keep what was stored last, so every combination is stored on top of the one before.
  Result<std::vector<app::SweptJob>> swept_jobs(const spec::Library& library) {
    const Arguments all = flags_.arguments().add(simulation_.all());
    std::vector<const Argument*> stores;
    size_t count = 1;
    for (const app::SweptFlag& flag : swept_) {
      const auto found = std::ranges::find_if(
          all, [&](const Argument& each) { return has_name(each, "--" + flag.name); });
      if (found == all.end() || found->value.empty() || found->repeats)
        return error(
            "--sweep {}: no flag of a job with one value has this name; try power-limit, ambient, "
            "tp or gbs (triplepoint simulate --help lists them)",
            flag.name);
      stores.push_back(&*found);
      count *= flag.values.size();
    }
    if (count > app::most_values)
      return error("--sweep: {} jobs are too many; sweep at most {}", count, app::most_values);
    std::vector<app::SweptJob> jobs(count);
    for (size_t i = 0; i < count; ++i) {
      if (interrupted()) {
        jobs.resize(i);
        break;
      }
      size_t rest = i;
      jobs[i].values.resize(swept_.size());
      for (size_t f = swept_.size(); f-- > 0;) {
        jobs[i].values[f] = swept_[f].values[rest % swept_[f].values.size()];
        rest /= swept_[f].values.size();
        TPT_TRY(store_text(*stores[f], jobs[i].values[f]));
      }
      auto job = flags_.job(library);
      auto results = job ? simulation_.results(library, *std::move(job), TPT_TRY(flags_.own_runs()))
                         : Result<flags::JobResults>(tl::unexpected(job.error()));
      if (results)
        jobs[i].results = *std::move(results);
      else
        jobs[i].problem = results.error().what;
      run::Run& run = jobs[i].results.run;
      if (jobs[i].problem.empty() && !run.manifest.fits_memory) jobs[i].problem = "out of memory";
      run.timeline = {};  // hundreds of them would fill the memory
      run.series.clear();
    }
    const std::string& first = jobs.front().problem;  // of a job that is wrong at every value
    if (jobs.size() > 1 && !first.empty() && jobs.front().results.run.devices.empty() &&
        std::ranges::all_of(jobs, [&](const auto& each) { return each.problem == first; }))
      return error(first);
    return jobs;
  }

  Result<int> sweep(tui::Console& console, const spec::Library& library) {
    const bool is_page = output_ && output_->ends_with(".html");
    if (output_ && !is_page)
      return error("{} would be one run (a sweep has many); -o NAME.html writes a page", *output_);
    const std::vector<app::SweptJob> jobs = TPT_TRY(swept_jobs(library));
    if (!jobs.empty()) {
      const answers::Document answer = app::sweep_answer(swept_, jobs);
      print_answer(console, answer, format_, "sweep");
      if (is_page) TPT_TRY(write_file_atomically(Path(*output_), report::document_page(answer)));
    }
    if (!interrupted()) return exit_ok;
    console.warn(fmt::format("triplepoint: interrupted after {} jobs of the sweep\n", jobs.size()));
    return exit_interrupted;
  }

  /// A run of another job that is there is kept under another name, as record does.
  Result<void> write(tui::Console& console, const run::Run& run) const {
    if (!output_) return {};
    const auto old =
        path_exists(*output_) ? run::load_manifest(*output_) : Result<run::Manifest>(error(""));
    const auto &job = run.manifest.job, &before = old ? old->job : job;
    if (old &&
        (old->origin != run.manifest.origin ||
         (job && before && (job->model.name != before->model.name || job->plan != before->plan))))
      if (const auto kept = TPT_TRY(telemetry::keep_old_recording(*output_)))
        console.warn(fmt::format("triplepoint: the run of another job that was there is now {}\n",
                                 kept->string()));
    TPT_TRY(run::save(run, *output_));
    return {};
  }

  JobFlags flags_;
  SimulationFlags simulation_;
  ThreadsFlag threads_{"threads to simulate (default: all cores)"};
  FormatFlag format_{FormatFlag::Csv::yes};
  std::vector<app::SweptFlag> swept_;
  std::optional<std::string> output_;
};

}  // namespace

std::unique_ptr<Command> make_simulate() {
  return std::make_unique<Simulate>();
}

}  // namespace triplepoint::cli
