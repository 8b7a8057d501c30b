// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/record_flags.h"

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/flags/bind.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::app {
namespace {

constexpr Seconds shortest_interval = 20 * unit::ms;

}  // namespace

flags::Arguments SensorFlags::arguments() {
  return flags::Arguments()
      .group("Sensors")
      .flag("--devices", "LIST",
            "only these GPUs: numbers, ranges, UUIDs or PCI addresses, as 0,2-3; or none",
            flags::into(devices_, split_list))
      .toggle("--gpm",
              "also read the performance counters of Hopper and newer (conflicts with profilers)",
              gpm_)
      .flag("--node-power-command", "COMMAND",
            "command that prints the node's power in W; run every 5 s",
            flags::into(node_power_command_));
}

telemetry::SensorOptions SensorFlags::options() const {
  telemetry::SensorOptions options;
  options.devices = devices_;
  options.gpm = gpm_;
  options.node_power_command = node_power_command_.value_or("");
  return options;
}

flags::Arguments RecordFlags::arguments() {
  return flags::Arguments()
      .flag("--interval", "TIME",
            "sampling interval, 20 ms or more (default: 100 ms, or half of a sensor's update "
            "period)",
            flags::into_quantity(interval_))
      .flag("--warmup", "N", "warm-up steps that are not measured (default: 3)",
            flags::into(warmup_))
      .flag("--steps", "N", "measured steps after the warm-up, or all (default: 10)",
            flags::into(steps_))
      .flag("--job", "FILE",
            "job of the command (job.toml, NeMo YAML, Megatron arguments); adds model, layout "
            "and FLOPs to the recording",
            flags::into(job_file_), {.words = flags::Words::files})
      .toggle("--strict", "exit with 1 if some of the recording is lost (disk full)", strict_)
      .toggle("-q,--quiet", "do not print a summary", quiet_)
      .add(sensors_.arguments());
}

Result<RecordingRequest> RecordFlags::request() const {
  TPT_TRY(check());
  RecordingRequest request;
  request.interval = interval_;
  request.strict = strict_;
  request.quiet = quiet_;
  request.sensors = sensors_.options();
  set_steps(request);
  if (!job_file_) return request;
  const spec::Library library = TPT_TRY(spec::require_library());
  request.job = TPT_TRY(formats::read_job(library, *job_file_));
  return request;
}

Result<void> RecordFlags::check() const {
  if (interval_ && *interval_ < shortest_interval)
    return error(fmt::format(
        "--interval {} ms is too short (sensors update at most every 20 ms); use 20 ms or more",
        *interval_ / unit::ms));
  if (warmup_ && *warmup_ < 0) return error("--warmup below 0 (it counts steps); give 0 or more");
  if (steps_ && *steps_ != "all" && parse_count(*steps_).value_or(0) < 1)
    return error(
        fmt::format("--steps {} is no number of steps (10, or all); give one above 0", *steps_));
  return {};
}

void RecordFlags::set_steps(RecordingRequest& request) const {
  if (warmup_) request.steps.warmup = *warmup_;
  if (steps_ && *steps_ == "all") request.steps.steps.reset();
  if (steps_ && *steps_ != "all") request.steps.steps = parse_count(*steps_).value_or(1);
}

}  // namespace triplepoint::app
