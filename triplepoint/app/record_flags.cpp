// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/record_flags.h"

#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::app {

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
            flags::into_time(request_.interval, 20 * unit::ms, 1 * unit::h))
      .flag("--warmup", "N", "warm-up steps that are not measured (default: 3)",
            flags::into_count(request_.steps.warmup, 0))
      .flag("--steps", "N", "measured steps after the warm-up, or all (default: 10)",
            [this](std::string_view text) -> Result<void> {
              request_.steps.steps.reset();
              if (text != "all")
                request_.steps.steps = TPT_TRY(flags::read_count(text, 1, 1'000'000));
              return {};
            })
      .flag("--job", "FILE",
            "job of the command (job.toml, NeMo YAML, Megatron arguments); adds model, layout "
            "and FLOPs to the recording",
            flags::into(job_file_), {.words = flags::Words::files})
      .toggle("--strict", "exit with 1 if some of the recording is lost (disk full)",
              request_.strict)
      .toggle("-q,--quiet", "do not print a summary", request_.quiet)
      .add(sensors_.arguments());
}

Result<RecordingRequest> RecordFlags::request() const {
  RecordingRequest request = request_;
  request.sensors = sensors_.options();
  if (!job_file_) return request;
  const spec::Library library = TPT_TRY(spec::require_library());
  request.job = TPT_TRY(formats::read_job(library, *job_file_));
  return request;
}

}  // namespace triplepoint::app
