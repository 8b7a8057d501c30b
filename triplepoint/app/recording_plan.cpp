// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/recording_plan.h"

#include <string>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/text.h"

namespace triplepoint::app {

Path recording_file(const RecordingRequest& request,
                    const telemetry::LaunchEnvironment& environment) {
  const Path wanted(request.output ? *request.output
                                   : telemetry::default_recording_name(environment));
  return telemetry::is_one_of_many_nodes(environment)
             ? telemetry::file_of_node(wanted, telemetry::this_host(environment))
             : wanted;
}

telemetry::RecordingPlan recording_plan(const RecordingRequest& request,
                                        const telemetry::LaunchEnvironment& environment,
                                        const Path& target, const Path& marks,
                                        const std::shared_ptr<telemetry::SensorOpening>& opening) {
  telemetry::RecordingPlan plan;
  plan.file = target;
  plan.steps = request.steps;
  plan.name = target.stem().string();
  plan.producer = program_version();
  plan.host = telemetry::this_host(environment);
  plan.marks = marks;
  plan.opening = opening;
  if (request.interval) plan.sampling.interval = *request.interval;
  plan.sampling.follow_sensors = !request.interval;
  plan.sampling.list_processes = telemetry::sees_all_processes(request.sensors.paths.proc);
  plan.facts["command"] = joined(request.command);
  if (!environment.launcher.empty()) plan.facts["launcher"] = environment.launcher;
  if (!environment.job.empty()) plan.facts["launch"] = environment.job;
  plan.world_size = environment.world_size;
  return plan;
}

}  // namespace triplepoint::app
