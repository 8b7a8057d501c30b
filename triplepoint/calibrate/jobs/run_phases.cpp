// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/run_phases.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "triplepoint/calibrate/jobs/calibration_file.h"

namespace triplepoint::calibrate {
namespace {

struct Evaluation {
  double seconds = 0, watts = 0;
};

Evaluation evaluation_of(const RunProtocol::Benchmark& benchmark, double own_s,
                         const NodePace& pace, const NodeLevels::Side& side) {
  const double step = pace.step / unit::s, host = std::min(pace.host / unit::s, 0.5 * step);
  const double busy = side.busy / unit::W, rest = side.idle / unit::W;
  const double at_work = (busy * step - rest * host) / (step - host);
  const double forward = benchmark.forward_share * (step - host);
  const double one = forward + own_s;
  return {std::ceil(benchmark.evaluated / pace.batch) * one,
          (forward * at_work + own_s * rest) / one};
}

/// The evaluations of the time that is left, which begins and ends with one.
double evaluating_seconds(double left, double evaluation, double between) {
  if (left <= evaluation) return left;
  return evaluation * (1 + (left - evaluation) / (evaluation + between));
}

}  // namespace

const RunProtocol::Benchmark* RunProtocol::find(const std::string& benchmark) const {
  const auto found = std::find_if(benchmarks.begin(), benchmarks.end(),
                                  [&](const Benchmark& known) { return known.name == benchmark; });
  return found == benchmarks.end() ? nullptr : &*found;
}

Result<RunProtocol> load_run_protocol(const spec::Library& library) {
  const CalibrationFile file = TPT_TRY(CalibrationFile::read(library, "mlperf_power.toml"));
  const spec::TomlValue* run = TPT_TRY(file.find(file.root(), "run"));
  const spec::TomlValue* benchmarks = TPT_TRY(file.find(file.root(), "benchmark"));
  RunProtocol protocol{.start_up = TPT_TRY(file.time(*run, "start_up")),
                       .evaluation_host = TPT_TRY(file.time(*run, "evaluation_host")),
                       .reading = TPT_TRY(file.time(*run, "reading")),
                       .benchmarks = {}};
  for (const spec::TomlValue& one : benchmarks->items)
    protocol.benchmarks.push_back({.name = TPT_TRY(file.text(one, "name")),
                                   .first = TPT_TRY(file.number(one, "first")),
                                   .between = TPT_TRY(file.number(one, "between")),
                                   .evaluated = TPT_TRY(file.number(one, "evaluated")),
                                   .forward_share = TPT_TRY(file.number(one, "forward_share")),
                                   .pause = TPT_TRY(file.time(one, "pause"))});
  return protocol;
}

double NodePhases::mean_w() const {
  double joules = 0, seconds = 0;
  for (const Part& part : {rest, training, evaluating, mixed}) {
    joules += part.seconds * part.watts;
    seconds += part.seconds;
  }
  return seconds > 0 ? joules / seconds : training.watts;
}

double NodePhases::median_w() const {
  std::array parts = {rest, training, evaluating, mixed};
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.watts < b.watts; });
  double half = 0;
  for (const Part& part : parts)
    half += 0.5 * part.seconds;
  for (const Part& part : parts) {
    if (part.seconds > 0 && half <= part.seconds) return part.watts;
    half -= part.seconds;
  }
  return training.watts;
}

NodePhases phases_of(const RunProtocol& protocol, const std::string& name, const NodePace& pace,
                     const NodeLevels::Side& side, Seconds length) {
  NodePhases phases;
  phases.rest.watts = side.idle / unit::W;
  phases.training.watts = side.busy / unit::W;
  double left = std::max(0.0, length / unit::s);
  const auto take = [&](double& seconds, double wanted) {
    const double taken = std::min(left, wanted);
    seconds += taken;
    left -= taken;
  };
  take(phases.rest.seconds, protocol.start_up / unit::s);
  const RunProtocol::Benchmark* benchmark = protocol.find(name);
  if (!benchmark || pace.step <= Seconds()) {
    take(phases.training.seconds, left);
    return phases;
  }
  const double per_sequence = (pace.step / unit::s) / pace.batch;
  take(phases.training.seconds, benchmark->first * per_sequence);
  take(phases.rest.seconds, benchmark->pause / unit::s);
  const Evaluation one = evaluation_of(*benchmark, protocol.evaluation_host / unit::s, pace, side);
  const double evaluating =
      evaluating_seconds(left, one.seconds, benchmark->between * per_sequence);
  const double between = left - evaluating;
  if (one.seconds >= 2 * (protocol.reading / unit::s)) {
    phases.evaluating = {evaluating, one.watts};
    phases.training.seconds += between;
  } else if (left > 0) {
    phases.mixed = {left, (evaluating * one.watts + between * phases.training.watts) / left};
  }
  return phases;
}

}  // namespace triplepoint::calibrate
