// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// Reads one file, whatever its format: recognized by content, not by name; plain, gzip, zstd or a
/// tar of these (with several files in it as read_traces does). Formats: trace/read.cpp.
Result<Trace> read_trace(const std::filesystem::path&, const ReadOptions& = {});

/// Reads the files of many ranks (folders: every trace below them; tar: every file in it) into one
/// timeline with one epoch. Ranks are what the files say, else what their names say ("rank-3",
/// "worker3"), else their numeric order. Two files of one rank are an error.
Result<Trace> read_traces(const std::vector<std::filesystem::path>&, const ReadOptions& = {});

/// One format. To add one: a folder, and a line in read.cpp.
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
