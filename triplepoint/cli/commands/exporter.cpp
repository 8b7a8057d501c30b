// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/exporter.h"

#include "triplepoint/base/installation.h"

#include "triplepoint/app/record_flags.h"
#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

class ExporterCommand : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .flag("--interval", "TIME", "time between two readings of the sensors (default 100ms)",
              into_time(options_.plan.interval, 5 * unit::ms, 60 * unit::s))
        .toggle("--dcgm-names", "also export under the names of dcgm-exporter (DCGM_FI_DEV_...)",
                dcgm_names_)
        .flag("--job", "LABELS",
              "labels of triplepoint_job_info, as job=4711,user=ann (default: those of the "
              "launcher's environment)",
              into(job_))
        .flag("--job-file", "FILE",
              "labels of jobs, one job per line, reread at every scrape; written by a job prolog",
              into(job_file_), {.words = Words::files})
        .add(listen_.arguments())
        .add(sensors_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    telemetry::ExporterOptions options = options_;
    options.http = TPT_TRY(listen_.options());
    options.page = {.dcgm_names = dcgm_names_, .version = program_version().substr(12)};
    if (job_file_) options.job_file = *job_file_;
    const telemetry::JobLabels job =
        job_ ? TPT_TRY(telemetry::parse_job(*job_))
             : telemetry::job_of_environment(telemetry::process_variable);
    if (!job.empty()) options.jobs.push_back(job);
    auto sensors = TPT_TRY(telemetry::open_sensors(sensors_.options()));
    const auto exporter = TPT_TRY(telemetry::Exporter::open(std::move(sensors), options));
    console.warn(fmt::format("metrics of this node: http://{}/metrics (Ctrl-C ends)\n",
                             exporter->address()));
    TPT_TRY(exporter->serve([] { return interrupted(); }));
    return exit_ok;
  }

 private:
  app::SensorFlags sensors_;
  ListenFlags listen_{"127.0.0.1:9400"};
  telemetry::ExporterOptions options_;
  std::optional<std::string> job_, job_file_;
  bool dcgm_names_ = false;
};

}  // namespace

std::unique_ptr<Command> make_exporter() {
  return std::make_unique<ExporterCommand>();
}

}  // namespace triplepoint::cli
