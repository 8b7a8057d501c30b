// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/amd/sysfs_gpu.h"
#include "triplepoint/telemetry/driver_values.h"

namespace {

void check(const std::optional<double>& value, std::string_view signal) {
  if (value) TPT_ENSURE(triplepoint::telemetry::plausible_range(signal).holds(*value));
}

}  // namespace

/// Bytes are a snapshot whose every number is a plausible one, or an error.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint::telemetry;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto metrics = amd::parse_gpu_metrics(bytes);
  if (!metrics) {
    TPT_ENSURE(!metrics.error().what.empty());
    return 0;
  }
  TPT_ENSURE(metrics->content >= 1 && metrics->content <= 7);
  check(metrics->edge_c, "die_c");
  check(metrics->junction_c, "junction_c");
  check(metrics->memory_c, "memory_c");
  check(metrics->power_average_w, "power_average_w");
  check(metrics->power_instant_w, "power_instant_w");
  check(metrics->utilization, "utilization");
  check(metrics->sm_clock_mhz, "sm_clock_mhz");
  if (metrics->energy) TPT_ENSURE(!is_sentinel(*metrics->energy, 64));
  if (metrics->throttle_bits) (void)amd::reasons_of(*metrics->throttle_bits);
  // What follows the snapshot does not matter.
  TPT_ENSURE(amd::parse_gpu_metrics(std::string(bytes) + "x") == metrics);
  return 0;
}
