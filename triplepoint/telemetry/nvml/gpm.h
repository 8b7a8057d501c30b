// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/nvml/api.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::nvml {

/// NVIDIA's performance counters (GPU performance monitoring, Hopper and newer): shares of time
/// over the interval between two samples, which the hardware wants at least 100 ms apart. Source:
/// NVML API reference, "GPM Functions"; the 100 ms: NVIDIA/DCGM issue 310.
class Gpm {
 public:
  /// An error says why this GPU has none. `channels` gets what it offers.
  static Result<std::unique_ptr<Gpm>> open(const Driver& driver, Handle handle, int32_t device,
                                           std::vector<Channel>& channels);
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;
  Gpm(Gpm&&) = delete;
  Gpm& operator=(Gpm&&) = delete;
  ~Gpm();

  /// Appends readings if a hundred milliseconds have passed since the last sample.
  int read(Handle handle, std::vector<Reading>& readings);
  void restart() { have_before_ = false; }

 private:
  explicit Gpm(const Api& api) : api_(api) {}
  bool allocate();
  int sample(Handle handle);
  GpmMetric* entries();

  const Api& api_;
  std::array<void*, 2> samples_{};  // [0]: the one before
  bool have_before_ = false;
  int64_t before_ns_ = 0;
  int32_t first_channel_ = 0;
  std::vector<std::byte> request_;
};

}  // namespace triplepoint::telemetry::nvml
