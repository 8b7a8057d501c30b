// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/parallel.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/readers.h"

namespace triplepoint::trace {

namespace {

std::string known_formats() {
  std::vector<std::string_view> all;
  for (const Reader& reader : all_readers())
    all.push_back(reader.what);
  return fmt::format("{}", fmt::join(all, ", "));
}

Result<Trace> read(Input& input, const ReadOptions& options) {
  const std::string_view head = TPT_TRY(input.peek(recognized_by));
  for (const Reader& reader : all_readers())
    if (reader.recognizes(head)) return reader.read(input, options);
  return error(fmt::format("{} is no trace (its beginning is of no known format); known are {}",
                           input.name(), known_formats()));
}

bool may_overlap(const ReadOptions& options) {
  return (options.threads > 0 ? options.threads : available_threads()) > 1;
}

}  // namespace

Result<Trace> read_trace(const std::filesystem::path& path, const ReadOptions& options) {
  Input input = TPT_TRY(Input::open(path, may_overlap(options)));
  return read(input, options);
}

Result<Trace> read_traces(const std::vector<std::filesystem::path>& paths,
                          const ReadOptions& options) {
  if (paths.size() == 1) return read_trace(paths[0], options);
  return error("several traces are not read together yet");
}

}  // namespace triplepoint::trace
