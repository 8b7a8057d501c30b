// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// What a reading depends on: the file (size, time of its last change, a hash of its beginning and
/// end) and the options that change what is kept. Nothing if the file cannot be asked.
std::optional<std::string> cache_key(const Path& trace, const ReadOptions&);

/// Where a trace's reading may be kept: beside it, then in the user's cache folder.
std::vector<Path> cache_places(const Path& trace);
bool is_cache(const Path&);

/// The reading kept for this key. Nothing if there is none, it is of another key or of another
/// version of the readers, or it is damaged.
std::optional<Trace> load_cache(const Path& trace, const std::string& key);

/// Keeps it in the first place that takes it; none that does is no error. The reading is as before
/// afterwards, and is not copied in between.
void save_cache(const Path& trace, const std::string& key, Trace&);

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
