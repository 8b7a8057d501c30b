// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "triplepoint/spec/load.h"

namespace triplepoint::calibrate {

/// What scoring a table needs besides the table. Results do not depend on the number of threads.
struct ScoreContext {
  const spec::Library& library;
  int threads = 1;
  // Told before long work how many rows there are, and after each row, from any thread.
  std::function<void(std::size_t)> begin;
  std::function<void()> advance;
};

}  // namespace triplepoint::calibrate
