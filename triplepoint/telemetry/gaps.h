// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry {

/// What single GPUs lack, said once for all that lack the same: "memory power of GPUs 0-7".
class GapList {
 public:
  void add(Gap gap, int32_t gpu);
  std::vector<Gap> gaps() const;

 private:
  struct Entry {
    Gap gap;
    std::vector<int32_t> gpus;
  };
  std::vector<Entry> entries_;
};

/// "0-3, 6" of ascending numbers.
std::string ranges_of(const std::vector<int32_t>& numbers);

}  // namespace triplepoint::telemetry
