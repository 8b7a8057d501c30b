// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace triplepoint {

/// What long work tells its caller, and asks. From any thread, but for `begin`.
struct Watch {
  /// A part begins, of `total` pieces; and each time that one of them is done.
  std::function<void(const char* what, std::size_t total)> begin = [](const char*, std::size_t) {};
  std::function<void()> advance = [] {};
  /// A line that people should see at once.
  std::function<void(std::string_view line)> say = [](std::string_view) {};
  /// Whether to end early, with what is found until then.
  std::function<bool()> stopped = [] { return false; };
};

}  // namespace triplepoint
