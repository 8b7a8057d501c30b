// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// Reads one file, whatever its format: recognized by content, not by name; plain, gzip, zstd or a
/// tar of these (with several files in it as read_traces does). Formats: trace/readers.cpp.
Result<Trace> read_trace(const std::filesystem::path&, const ReadOptions& = {});

/// Reads the files of many ranks (folders: every trace below them; tar: every file in it) into one
/// timeline with one epoch. Ranks are what the files say, else what their names say ("rank-3",
/// "worker3"), else their numeric order. Two files of one rank are an error.
Result<Trace> read_traces(const std::vector<std::filesystem::path>&, const ReadOptions& = {});

}  // namespace triplepoint::trace
