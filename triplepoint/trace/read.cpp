// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/cache.h"
#include "triplepoint/trace/execution_trace/companions.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/merge.h"
#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/tar.h"

namespace triplepoint::trace {

namespace {

std::string known_formats() {
  std::vector<std::string_view> all;
  for (const Reader& reader : all_readers())
    all.push_back(reader.what);
  return fmt::format("{}", fmt::join(all, ", "));
}

/// What was found in one file: one trace, or those of a tar.
struct Found {
  std::vector<NamedTrace> traces;
  std::vector<Companion> companions;  // execution traces: they add to the others
  bool json = false;                  // something that was not recognized begins like JSON
};

bool begins_like_json(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
}

Result<bool> read_one(Input& input, ReadOptions options, Found& found) {
  const std::string_view head = TPT_TRY(input.peek(recognized_by));
  const auto readers = all_readers();
  const auto reader = std::find_if(readers.begin(), readers.end(),
                                   [&](const Reader& r) { return r.recognizes(head); });
  if (reader == readers.end()) {
    found.json = found.json || begins_like_json(head);
    return false;
  }
  if (reader->read == read_execution_trace) {
    found.companions.push_back({input.name(), TPT_TRY(parse_execution_trace(input))});
    return true;
  }
  if (!options.rank_if_unknown) options.rank_if_unknown = rank_in_name(input.name());
  Trace trace = TPT_TRY(reader->read(input, options));
  found.traces.push_back({input.name(), std::move(trace)});
  return true;
}

Result<bool> read_archive(Input& archive, const ReadOptions& options, Found& found) {
  Tar tar(archive);
  while (const auto entry = TPT_TRY(tar.next())) {
    Input input =
        TPT_TRY(Input::of(tar.contents(), fmt::format("{}: {}", archive.name(), entry->name)));
    input.expect_size(entry->size);
    TPT_TRY(read_one(input, options, found));
  }
  return true;
}

/// Files below this are read sooner than a cache of theirs is written.
constexpr uint64_t worth_a_cache = 1 << 20;

Result<Found> read_file(const Path& path, const ReadOptions& options, bool overlap) {
  Found found;
  std::error_code none;
  const bool cached =
      options.use_cache && std::filesystem::file_size(path, none) >= worth_a_cache && !none;
  const auto key = cached ? cache_key(path, options) : std::nullopt;
  if (key) {
    if (auto trace = load_cache(path, *key)) {
      found.traces.push_back({path.string(), *std::move(trace)});
      return found;
    }
  }
  Input input = TPT_TRY(Input::open(path, overlap));
  if (looks_like_tar(TPT_TRY(input.peek(512)))) {
    TPT_TRY(read_archive(input, options, found));
    return found;
  }
  TPT_TRY(read_one(input, options, found));
  if (key && !found.traces.empty()) save_cache(path, *key, found.traces[0].trace);
  return found;
}

struct File {
  Path path;
  bool named = false;  // by the user, not found in a folder
};

Result<std::vector<File>> files_of(const std::vector<Path>& paths) {
  std::vector<File> files;
  for (const Path& path : paths) {
    std::error_code none;
    if (!std::filesystem::is_directory(path, none)) {
      files.push_back({path, true});
      continue;
    }
    for (Path& inside : TPT_TRY(list_files(path, "")))
      if (!is_cache(inside)) files.push_back({std::move(inside), false});
  }
  std::stable_sort(files.begin(), files.end(), [](const File& a, const File& b) {
    return natural_less(a.path.string(), b.path.string());
  });
  return files;
}

tl::unexpected<Error> nothing_found(const std::vector<File>& files, bool json) {
  const std::string what = files.size() == 1
                               ? fmt::format("{} is no trace", files[0].path.string())
                               : fmt::format("no trace is among the {} files", files.size());
  const char* why = json ? "JSON that holds no known trace, or is cut short before its first event"
                         : "of no known format";
  return error(fmt::format("{} ({}); known are {}", what, why, known_formats()));
}

tl::unexpected<Error> without_times(const Companion& companion) {
  return error(fmt::format(
      "{} is a PyTorch execution trace (it says what ran, but not when); give it together with the "
      "Kineto trace of the same steps",
      companion.name));
}

/// The traces of all files, in their order.
Result<Found> read_files(const std::vector<File>& files, const ReadOptions& options) {
  const int threads = options.threads > 0 ? options.threads : available_threads();
  ReadOptions each = options;
  each.memory_limit = options.memory_limit / static_cast<double>(std::max<size_t>(1, files.size()));
  // Threads to spare unpack ahead.
  const bool overlap = files.size() < static_cast<size_t>(threads);
  std::vector<Result<Found>> results(files.size());
  parallel_for(files.size(), threads,
               [&](size_t i) { results[i] = read_file(files[i].path, each, overlap); });
  Found all;
  std::vector<std::string> left_out;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!results[i] && !files[i].named) {
      // Folders hold other things too; what is left out is said.
      left_out.push_back(results[i].error().what);
      continue;
    }
    Found found = TPT_TRY(std::move(results[i]));
    if (found.traces.empty() && found.companions.empty() && files[i].named)
      return nothing_found({files[i]}, found.json);
    all.json = all.json || found.json;
    std::move(found.traces.begin(), found.traces.end(), std::back_inserter(all.traces));
    std::move(found.companions.begin(), found.companions.end(), std::back_inserter(all.companions));
  }
  if (all.traces.empty() && !left_out.empty()) return error(left_out[0]);
  if (all.traces.empty() && !all.companions.empty()) return without_times(all.companions[0]);
  if (all.traces.empty()) return nothing_found(files, all.json);
  for (std::string& why : left_out)
    note_reason(all.traces[0].trace.skipped, std::move(why));
  return all;
}

}  // namespace

Result<Trace> read_traces(const std::vector<std::filesystem::path>& paths,
                          const ReadOptions& options) {
  const std::vector<File> files = TPT_TRY(files_of(paths));
  if (files.empty())
    return error("no trace was given (the folder is empty); name files or folders");
  Found found = TPT_TRY(read_files(files, options));
  Trace trace = TPT_TRY(merge(std::move(found.traces)));
  join_companions(std::move(found.companions), trace);
  return trace;
}

Result<Trace> read_trace(const std::filesystem::path& path, const ReadOptions& options) {
  return read_traces({path}, options);
}

}  // namespace triplepoint::trace
