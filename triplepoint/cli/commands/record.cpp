// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/spec/library.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/study/recording.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

constexpr Seconds shortest_interval = 20 * unit::ms;

class Record : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("COMMAND", "the training command and its flags, after --", into(request_.command),
              {.words = Words::files, .required = true, .repeats = true})
        .flag("-o,--output", "NAME.run",
              "the recording; on several nodes each writes NAME.host.run (default: run-JOB.run "
              "or run-DATE.run)",
              into(request_.output), {.words = Words::files})
        .flag("--interval", "TIME",
              "sampling interval, 20 ms or more (default: 100 ms, or half of a sensor's update "
              "period)",
              into_quantity(request_.interval))
        .flag("--warmup", "N", "warm-up steps that are not measured (default: 3)", into(warmup_))
        .flag("--steps", "N", "measured steps after the warm-up, or all (default: 10)",
              into(steps_))
        .flag("--job", "FILE",
              "job of the command (job.toml, NeMo YAML, Megatron arguments); adds model, layout "
              "and FLOPs to the recording",
              into(job_file_), {.words = Words::files})
        .toggle("--strict", "exit with 1 if some of the recording is lost (disk full)",
                request_.strict)
        .toggle("-q,--quiet", "do not print a summary", request_.quiet)
        .add(sensors_.arguments());
  }

  Result<int> run(tui::Console& console) override {
    TPT_TRY(check());
    set_steps();
    request_.sensors = sensors_.options();
    return study::record_command(console, request_);
  }

 private:
  Result<void> check() {
    if (request_.interval && *request_.interval < shortest_interval)
      return error(fmt::format(
          "--interval {} ms is too short (sensors update at most every 20 ms); use 20 ms or more",
          *request_.interval / unit::ms));
    if (warmup_ && *warmup_ < 0) return error("--warmup below 0 (it counts steps); give 0 or more");
    if (steps_ && *steps_ != "all" && parse_count(*steps_).value_or(0) < 1)
      return error(
          fmt::format("--steps {} is no number of steps (10, or all); give one above 0", *steps_));
    if (!job_file_) return {};
    const spec::Library library = TPT_TRY(spec::require_library());
    request_.job = TPT_TRY(formats::read_job(library, *job_file_));
    return {};
  }

  void set_steps() {
    if (warmup_) request_.steps.warmup = *warmup_;
    if (steps_ && *steps_ == "all") request_.steps.steps.reset();
    if (steps_ && *steps_ != "all") request_.steps.steps = parse_count(*steps_).value_or(1);
  }

  study::RecordingRequest request_;
  std::optional<std::string> steps_, job_file_;
  std::optional<int64_t> warmup_;
  SensorFlags sensors_;
};

}  // namespace

std::unique_ptr<Command> make_record() {
  return std::make_unique<Record>();
}

}  // namespace triplepoint::cli
