// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// One format. To add one: a folder, and a line in readers.cpp.
struct Reader {
  std::string_view format;  // as Trace::format
  std::string_view what;    // "PyTorch profiler (Kineto) JSON"
  /// Whether a file that begins so is of this format. `head` is up to `recognized_by` bytes.
  bool (*recognizes)(std::string_view head);
  Result<Trace> (*read)(Input&, const ReadOptions&);
};

/// How much of a file recognizers may look at.
inline constexpr size_t recognized_by = 1 << 16;

/// In the order they are asked.
std::span<const Reader> all_readers();

}  // namespace triplepoint::trace
