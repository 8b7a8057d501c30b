// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <algorithm>
#include <array>
#include <utility>

#include "triplepoint/base/parallel.h"
#include "triplepoint/base/text.h"

#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/chakra/chakra.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/logs/training_log.h"
#include "triplepoint/trace/nccl_tests/nccl_tests.h"
#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/tar.h"

namespace triplepoint::trace {
namespace {

/// PyTorch's execution traces (ExecutionTraceObserver) lie beside those of the profiler.
bool looks_like_execution_trace(std::string_view head) {
  const auto has = [&](std::string_view word) { return contains(head, word); };
  return has("\"schema\"") && has("\"nodes\"") && (has("\"rf_id\"") || has("[pytorch|profiler|"));
}

std::string known_formats() {
  const std::vector<std::string_view> all = mapped(all_readers(), &Reader::what);
  return fmt::format("{}", fmt::join(all, ", "));
}

/// What was found in one file: one trace, or those of a tar.
struct Found {
  std::vector<NamedTrace> traces;
  std::string why;  // what is known of something that was not recognized
};

/// Of a file of no known format, what can be said all the same.
std::string why_unknown(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  const size_t second =
      first == std::string_view::npos ? first : head.find_first_not_of(" \t\r\n", first + 1);
  if (looks_like_nccl_tests(head))
    return "the output of nccl-tests or rccl-tests: rows of measurements, no timeline; see them "
           "with trace comm";
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff"))
    return "text in UTF-16, which no profiler writes; convert it with iconv -f UTF-16 -t UTF-8";
  // A log may begin with a bracket, too: "[2024-05-01 12:00:10] ...".
  const bool opens = first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
  const bool json = opens && (second == std::string_view::npos ||
                              contains(std::string_view("\"{}[]"), head[second]));
  if (json) return "JSON that holds no known trace, or is cut short before its first event";
  const bool text = !contains(head, '\0');
  if (text && (contains(head, "loss") || contains(head, "step")))
    return "text that may be a training's log, but no line both numbers a step and tells its time";
  return "of no known format";
}

/// The rank that the pattern finds in the name, if there is one.
Result<void> take_rank(const std::string& name, ReadOptions& options) {
  if (options.rank_pattern.empty()) return {};
  options.rank = rank_by_pattern(options.rank_pattern, name);
  if (!options.rank)
    return error(
        "{} does not fit --ranks '{}' (* is anything, {{rank}} the number); "
        "change the pattern or leave the file out",
        name, options.rank_pattern);
  return {};
}

Result<bool> read_one(Input& input, ReadOptions options, Found& found) {
  const std::string_view head = TPT_TRY(input.peek(recognized_by));
  if (looks_like_merged_kineto(head)) {
    std::vector<NamedTrace> ranks = TPT_TRY(read_merged_kineto(input, options));
    std::move(ranks.begin(), ranks.end(), std::back_inserter(found.traces));
    return true;
  }
  if (looks_like_execution_trace(head))
    return error(
        "{} is a PyTorch execution trace (it has operators but no times); give the "
        "profiler's trace of the same steps",
        input.name());
  const auto readers = all_readers();
  const auto reader =
      std::ranges::find_if(readers, [&](const Reader& r) { return r.recognizes(head); });
  if (reader == readers.end()) {
    if (found.why.empty()) found.why = why_unknown(head);
    return false;
  }
  TPT_TRY(take_rank(input.name(), options));
  if (!options.rank_if_unknown) options.rank_if_unknown = rank_in_name(input.name());
  Trace trace = TPT_TRY(reader->read(input, options));
  if (options.rank && trace.timeline.num_ranks <= *options.rank + 1) trace.rank = options.rank;
  // A second document is told where a reader does not read it itself.
  const bool is_document = reader->read == read_flight_recorder || reader->read == read_rocprofiler;
  if (is_document && input.peek(1) && !trimmed(input.ahead()).empty())
    note_reason(trace.skipped, "text behind the end of the document is not read");
  // What was read may end before the file does; one that ended early is noted already.
  if (!trace.skipped.truncated)
    if (const auto damage = input.damage_behind()) note_reason(trace.skipped, damage->what);
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

Result<Found> read_file(const Path& path, const ReadOptions& options, bool overlap) {
  Found found;
  Input input = TPT_TRY(Input::open(path, overlap));
  if (looks_like_tar(TPT_TRY(input.peek(512)))) {
    TPT_TRY(read_archive(input, options, found));
    if (const auto damage = input.damage_behind(); damage && !found.traces.empty())
      note_reason(found.traces.front().trace.skipped, damage->what);
    return found;
  }
  TPT_TRY(read_one(input, options, found));
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
      files.push_back({std::move(inside), false});
  }
  std::ranges::stable_sort(files, [](const File& a, const File& b) {
    return natural_less(a.path.string(), b.path.string());
  });
  return files;
}

tl::unexpected<Error> nothing_found(const std::vector<File>& files, const std::string& why) {
  std::error_code ignored;
  if (files.size() == 1 && std::filesystem::file_size(files[0].path, ignored) == 0)
    return error("{} is empty (0 bytes); check the path and what writes it",
                 files[0].path.string());
  const std::string what = files.size() == 1
                               ? fmt::format("{} is no trace", files[0].path.string())
                               : fmt::format("no trace is among the {} files", files.size());
  return error(
      "{} ({}); known are {}; report and place --from also read tables of readings with titles, as "
      "of nvidia-smi --query-gpu",
      what, why, known_formats());
}

/// The traces of all files, in their order.
Result<Found> read_files(const std::vector<File>& files, const ReadOptions& options) {
  const int threads = options.threads > 0 ? options.threads : available_threads();
  ReadOptions each = options;
  each.memory_limit = options.memory_limit / as_real(std::max<size_t>(1, files.size()));
  // Threads to spare unpack ahead.
  const bool overlap = files.size() < as_size(threads);
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
    if (found.traces.empty() && files[i].named) return nothing_found({files[i]}, found.why);
    if (all.why.empty()) all.why = found.why;
    std::move(found.traces.begin(), found.traces.end(), std::back_inserter(all.traces));
  }
  if (all.traces.empty() && !left_out.empty()) return error(left_out[0]);
  if (all.traces.empty()) return nothing_found(files, all.why);
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
  return merge(std::move(found.traces));
}

Result<Trace> read_trace(const std::filesystem::path& path, const ReadOptions& options) {
  return read_traces({path}, options);
}

std::span<const Reader> all_readers() {
  // clang-format off
  static constexpr std::array readers = {
      Reader{"kineto", "PyTorch profiler (Kineto) JSON", looks_like_kineto, read_kineto},
      Reader{"chakra", "Chakra execution trace", looks_like_chakra, read_chakra},
      Reader{"flight_recorder", "NCCL flight recorder of PyTorch", looks_like_flight_recorder, read_flight_recorder},
      Reader{"nsys", "SQLite export of Nsight Systems", looks_like_nsys, read_nsys},
      Reader{"rocprofiler", "rocprofv3 JSON", looks_like_rocprofiler, read_rocprofiler},
      Reader{"rocprof_csv", "kernel table of rocprofv3 or rocprof", looks_like_rocprof_csv, read_rocprof_csv},
      // Last: any text may hold a line that looks like a step.
      Reader{"training_log", "log of a training", looks_like_training_log, read_training_log},
  };
  // clang-format on
  return readers;
}

}  // namespace triplepoint::trace
