// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/node_power_phases.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace triplepoint::calibrate {
namespace {

/// Of an MLPerf run before its first step, the node at rest: 13 to 17 s in every trace that shows
/// it (v4.0, 8 and 64 H100 under LoRA).
constexpr double start_up_s = 15;
/// Before the first evaluation, at rest as well: 12 and 14 s in the same two traces.
constexpr double pause_s = 13;
/// The host's own time for each batch of an evaluation: 9.7 s for 22 batches on 64 H100.
constexpr double evaluation_host_s = 0.175;
/// A wall meter's reading: what ends sooner is seen mixed with what follows.
constexpr double reading_s = 2;

struct Protocol {
  std::string_view benchmark;
  double first, between, evaluated;  // sequences
  double forward_share;              // of a step: LoRA has no gradients of frozen weights
  double pause_s;
};
constexpr std::array protocols = {Protocol{"llama2_70b_lora", 1536, 384, 173, 1 / 2.0, pause_s},
                                  Protocol{"gpt3", 24576, 24576, 5760, 1 / 3.0, 0}};

const Protocol* protocol_of(const NodeRun& run) {
  const auto found = std::find_if(protocols.begin(), protocols.end(), [&](const Protocol& known) {
    return known.benchmark == run.benchmark;
  });
  return found == protocols.end() ? nullptr : &*found;
}

struct Evaluation {
  double seconds = 0, watts = 0;
};

Evaluation evaluation_of(const Protocol& protocol, const NodePace& pace,
                         const NodeLevels::Side& side) {
  const double step = pace.step / unit::s, host = std::min(pace.host / unit::s, 0.5 * step);
  const double busy = side.busy / unit::W, rest = side.idle / unit::W;
  const double at_work = (busy * step - rest * host) / (step - host);
  const double forward = protocol.forward_share * (step - host);
  const double one = forward + evaluation_host_s;
  return {std::ceil(protocol.evaluated / pace.batch) * one,
          (forward * at_work + evaluation_host_s * rest) / one};
}

/// The evaluations of the time that is left, which begins and ends with one.
double evaluating_seconds(double left, double evaluation, double between) {
  if (left <= evaluation) return left;
  return evaluation * (1 + (left - evaluation) / (evaluation + between));
}

}  // namespace

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

NodePhases phases_of(const NodeRun& run, const NodePace& pace, const NodeLevels::Side& side,
                     Seconds length) {
  NodePhases phases;
  phases.rest.watts = side.idle / unit::W;
  phases.training.watts = side.busy / unit::W;
  double left = std::max(0.0, length / unit::s);
  const auto take = [&](double& seconds, double wanted) {
    const double taken = std::min(left, wanted);
    seconds += taken;
    left -= taken;
  };
  take(phases.rest.seconds, start_up_s);
  const Protocol* protocol = protocol_of(run);
  if (!protocol || pace.step <= Seconds()) {
    take(phases.training.seconds, left);
    return phases;
  }
  const double per_sequence = (pace.step / unit::s) / pace.batch;
  take(phases.training.seconds, protocol->first * per_sequence);
  take(phases.rest.seconds, protocol->pause_s);
  const Evaluation one = evaluation_of(*protocol, pace, side);
  const double evaluating = evaluating_seconds(left, one.seconds, protocol->between * per_sequence);
  const double between = left - evaluating;
  if (one.seconds >= 2 * reading_s) {
    phases.evaluating = {evaluating, one.watts};
    phases.training.seconds += between;
  } else if (left > 0) {
    phases.mixed = {left, (evaluating * one.watts + between * phases.training.watts) / left};
  }
  return phases;
}

}  // namespace triplepoint::calibrate
