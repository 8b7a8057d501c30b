// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

namespace triplepoint {

/// How a command ended.
struct GroupEnd {
  enum class How { exited, timed_out, stopped };
  How how = How::exited;
  int code = 0;  // as shells tell it: 128 + signal
};

/// Runs a command in its own process group, its output in a file, until it ends, the time is
/// up or a stop is asked for; then the whole group is ended, politely at first.
Result<GroupEnd> run_in_group(const std::vector<std::string>& command, const Path& log,
                              Seconds timeout, const std::function<bool()>& stopped);

}  // namespace triplepoint
