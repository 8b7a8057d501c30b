// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/shutdown.h"

#include <cstdlib>

#include <fmt/format.h>

namespace triplepoint::run {
namespace {

constexpr const char *gpu_fact = "shutdown_gpu", *die_fact = "shutdown_die_c",
                     *time_fact = "shutdown_time_s";

std::optional<double> number(const Run& run, const char* fact) {
  const auto found = run.manifest.facts.find(fact);
  if (found == run.manifest.facts.end()) return std::nullopt;
  return std::strtod(found->second.c_str(), nullptr);
}

}  // namespace

void record_shutdown(Run& run, const Shutdown& shutdown, Celsius limit) {
  run.manifest.facts[gpu_fact] = fmt::format("{}", shutdown.device);
  run.manifest.facts[die_fact] = fmt::format("{:.1f}", shutdown.die_c);
  if (shutdown.time) {
    run.manifest.facts[time_fact] = fmt::format("{:.3f}", *shutdown.time / unit::s);
    run.manifest.notes.push_back(
        fmt::format("GPU {} reaches {:.1f} °C after {:.0f} s and shuts down (limit {:.0f} °C); the "
                    "job ends there.",
                    shutdown.device, shutdown.die_c, *shutdown.time / unit::s, limit.degrees()));
  } else {
    run.manifest.notes.push_back(
        fmt::format("GPU {} would reach {:.1f} °C at its lowest clock and shut down (limit {:.0f} "
                    "°C); the job does not run. Add --duration to see when.",
                    shutdown.device, shutdown.die_c, limit.degrees()));
  }
}

std::optional<Shutdown> shutdown_of(const Run& run) {
  const std::optional<double> device = number(run, gpu_fact);
  if (!device) return std::nullopt;
  Shutdown shutdown{.device = static_cast<int32_t>(*device),
                    .die_c = number(run, die_fact).value_or(0),
                    .time = {}};
  if (const auto time = number(run, time_fact)) shutdown.time = *time * unit::s;
  return shutdown;
}

bool has_trained(const Run& run) {
  return run.manifest.fits_memory && !(run.steps.empty() && shutdown_of(run));
}

std::string_view verdict_of(const Run& run) {
  if (!run.manifest.fits_memory) return "oom";
  return shutdown_of(run) ? "shutdown" : "ok";
}

}  // namespace triplepoint::run
