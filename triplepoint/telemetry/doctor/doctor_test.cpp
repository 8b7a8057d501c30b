// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/doctor/doctor.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "tests/doubles/scripted_sensor.h"

namespace triplepoint::telemetry {
namespace {

using Kind = run::ReadingKind;

Variable variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) { return value_at(values, name); };
}

bool mentions(const std::vector<Finding>& findings, std::string_view words) {
  return std::ranges::any_of(findings, [&](const Finding& finding) {
    return (finding.what + finding.why + finding.remedy).find(words) != std::string::npos;
  });
}

TEST_CASE("equal channels are one line, with how many answer") {
  auto sensor = std::make_unique<doubles::ScriptedSensor>("fake");
  for (int i = 0; i < 3; ++i) {
    const int32_t gpu = sensor->add_device();
    sensor->add("die_c", gpu, Kind::instant, [i](double) -> std::optional<double> {
      return i < 2 ? std::optional(50.0 + i) : std::nullopt;
    });
  }
  sensor->add("inlet_c", -1, Kind::instant, [](double) { return 25.0; });
  sensor->add_gap({"HBM temperature", "not there", ""});
  Sensors sensors;
  sensors.all.push_back(std::move(sensor));
  const Examination found =
      examine(std::move(sensors), SensorPaths(), variables({}), 300 * unit::ms);
  const auto line = [&](const char* signal) {
    return *std::ranges::find_if(found.measurable,
                                 [&](const Measurable& m) { return m.about.signal == signal; });
  };
  CHECK(line("die_c").devices == 3);
  CHECK(line("die_c").answering == 2);
  CHECK(*line("die_c").example == 50);
  CHECK(line("inlet_c").devices == 0);
  CHECK(found.gaps.size() == 1);
}

TEST_CASE("what one trips over is said: visible devices, jobs, containers, lowered limits") {
  std::vector<DeviceFacts> devices(1);
  devices[0].power_limit = 400 * unit::W;
  devices[0].power_limit_default = 700 * unit::W;
  devices[0].persistence = false;
  const auto findings = environment_findings(SensorPaths(),
                                             variables({{"CUDA_VISIBLE_DEVICES", "2,3"},
                                                        {"container", "podman"},
                                                        {"RANK", "5"},
                                                        {"LOCAL_RANK", "1"},
                                                        {"WORLD_SIZE", "8"},
                                                        {"TORCHELASTIC_RUN_ID", "x"}}),
                                             devices);
  CHECK(mentions(findings, "CUDA_VISIBLE_DEVICES=2,3"));
  CHECK(mentions(findings, "podman"));
  CHECK(mentions(findings, "torchrun"));
  CHECK(mentions(findings, "nvidia-smi -i 0 -pl 700"));
  CHECK(mentions(findings, "nvidia-smi -pm 1"));
}

}  // namespace
}  // namespace triplepoint::telemetry
