// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "triplepoint/run/run.h"

namespace triplepoint::run {

/// find_series() for who asks for the series of all devices: each by bisection. The run's series
/// have to stay as they are.
class SeriesIndex {
 public:
  explicit SeriesIndex(const Run&);
  const Series* find(std::string_view signal, int32_t device, bool of_node = false) const;

 private:
  std::vector<const Series*> series_;  // of devices, then of nodes, by number
};

}  // namespace triplepoint::run
