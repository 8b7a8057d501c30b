// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/parallel.h"
#include "triplepoint/base/text.h"

#include "triplepoint/store/store.h"
#include "triplepoint/trace/builder.h"
#include "triplepoint/trace/bulk.h"
#include "triplepoint/trace/chakra/chakra.h"
#include "triplepoint/trace/flight_recorder/flight_recorder.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/logs/training_log.h"
#include "triplepoint/trace/nccl_tests/nccl_tests.h"
#include "triplepoint/trace/nsys/nsys.h"
#include "triplepoint/trace/rocprofiler/rocprofiler.h"
#include "triplepoint/trace/tar.h"

namespace triplepoint::trace {
namespace {

/// PyTorch's execution traces (ExecutionTraceObserver) lie beside those of the profiler.
bool looks_like_execution_trace(std::string_view head) {
  const auto has = [&](std::string_view word) { return head.find(word) != std::string_view::npos; };
  return has("\"schema\"") && has("\"nodes\"") && (has("\"rf_id\"") || has("[pytorch|profiler|"));
}

/// To be raised whenever a reader reads the same file differently.
constexpr int readers_version = 5;
constexpr const char* extension = ".tptcache";
// A cached trace is a run file; these of its facts are the cache's own.
constexpr std::string_view key_fact = "cache key", format_fact = "cache format",
                           rank_fact = "cache rank", epoch_fact = "cache epoch in file",
                           skipped_fact = "cache skipped", reasons_fact = "cache reasons",
                           truncated_fact = "cache truncated";

/// Of the first and last 64 KiB, and of the length.
std::optional<uint64_t> hash_of_ends(const Path& path, uint64_t size) {
  constexpr uint64_t part = 64 << 10;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::min(size, part), '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return std::nullopt;
  uint64_t hash = hash_of(bytes, size);
  if (size > part) {
    file.seekg(-static_cast<std::streamoff>(part), std::ios::end);
    if (!file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()))) return std::nullopt;
    hash = hash_of(bytes, hash);
  }
  return hash;
}

std::optional<Path> cache_home() {
  // Asked once per file, before threads of ours change anything: none does.
  const char* const cache = std::getenv("XDG_CACHE_HOME");  // NOLINT(concurrency-mt-unsafe)
  if (cache != nullptr && *cache == '/') return Path(cache) / "triplepoint";
  const char* const home = std::getenv("HOME");  // NOLINT(concurrency-mt-unsafe)
  if (home != nullptr && *home == '/') return Path(home) / ".cache" / "triplepoint";
  return std::nullopt;
}

/// Moves the timeline into the run.
run::Run to_run(const std::string& key, Trace& trace) {
  run::Run run;
  run.manifest.origin = run::Origin::imported;
  run.manifest.fidelity = run::Fidelity::real;
  run.manifest.epoch_unix_ns = trace.epoch_unix_ns;
  run.manifest.notes = trace.skipped.notes;
  run.manifest.facts = trace.facts;
  const auto put = [&](std::string_view name, std::string value) {
    run.manifest.facts[std::string(name)] = std::move(value);
  };
  put(key_fact, key);
  put(format_fact, trace.format);
  if (trace.rank) put(rank_fact, std::to_string(*trace.rank));
  put(epoch_fact, std::to_string(trace.epoch_in_file_ns));
  put(skipped_fact, std::to_string(trace.skipped.events));
  put(reasons_fact, joined(trace.skipped.reasons, "\n"));
  if (trace.skipped.truncated) put(truncated_fact, "yes");
  run.timeline = std::move(trace.timeline);
  return run;
}

class Facts {
 public:
  explicit Facts(std::map<std::string, std::string>& facts) : facts_(facts) {}
  /// Takes a fact out; nothing if it is not there.
  std::optional<std::string> take(std::string_view name) {
    auto node = facts_.extract(std::string(name));
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  }
  std::optional<int64_t> take_number(std::string_view name) {
    const auto text = take(name);
    int64_t number = 0;
    if (!text) return std::nullopt;
    const auto [stop, problem] = std::from_chars(text->data(), text->data() + text->size(), number);
    return problem == std::errc() ? std::optional(number) : std::nullopt;
  }

 private:
  std::map<std::string, std::string>& facts_;
};

std::optional<Trace> to_trace(run::Run&& run, const std::string& key) {
  Facts facts(run.manifest.facts);
  const auto format = facts.take(format_fact);
  const auto epoch = facts.take_number(epoch_fact), skipped = facts.take_number(skipped_fact);
  if (facts.take(key_fact) != key || !format || !epoch || !skipped) return std::nullopt;
  Trace trace;
  trace.format = *format;
  if (const auto rank = facts.take_number(rank_fact)) trace.rank = static_cast<int32_t>(*rank);
  trace.epoch_in_file_ns = *epoch;
  trace.skipped.events = *skipped;
  trace.skipped.truncated = facts.take(truncated_fact).has_value();
  if (const auto reasons = facts.take(reasons_fact); reasons && !reasons->empty())
    trace.skipped.reasons = split(*reasons, '\n');
  trace.skipped.notes = std::move(run.manifest.notes);
  trace.epoch_unix_ns = run.manifest.epoch_unix_ns;
  trace.timeline = std::move(run.timeline);
  trace.facts = std::move(run.manifest.facts);
  return trace;
}

}  // namespace

std::optional<std::string> cache_key(const Path& trace, const ReadOptions& options) {
  struct stat about = {};
  if (stat(trace.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return std::nullopt;
  const auto size = static_cast<uint64_t>(about.st_size);
  const auto hash = hash_of_ends(trace, size);
  if (!hash) return std::nullopt;
  return fmt::format("{} {} {}.{:09} {:016x} host {} memory {} rank {} {}", readers_version, size,
                     about.st_mtim.tv_sec, about.st_mtim.tv_nsec, *hash,
                     static_cast<int>(options.host), options.memory_limit / unit::B,
                     options.rank.value_or(-1), options.rank_if_unknown.value_or(-1));
}

std::vector<Path> cache_places(const Path& trace) {
  std::error_code none;
  const Path whole = std::filesystem::absolute(trace, none);
  std::vector<Path> places = {whole.string() + extension};
  if (const auto home = cache_home())
    places.push_back(*home / fmt::format("{}-{:016x}{}", whole.filename().string(),
                                         hash_of(whole.string(), 0), extension));
  return places;
}

bool is_cache(const Path& path) {
  return path.extension() == extension;
}

std::optional<Trace> load_cache(const Path& trace, const std::string& key) {
  for (const Path& place : cache_places(trace)) {
    std::error_code none;
    if (!std::filesystem::is_regular_file(place, none)) continue;
    auto run = run::load(place.string());
    if (!run) continue;
    if (auto cached = to_trace(*std::move(run), key)) return cached;
  }
  return std::nullopt;
}

void save_cache(const Path& trace, const std::string& key, Trace& reading) {
  run::Run run = to_run(key, reading);
  for (const Path& place : cache_places(trace))
    if (make_folder(place.parent_path()) && run::save(run, place.string())) break;
  reading.timeline = std::move(run.timeline);
}

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
  std::string why;  // what is known of something that was not recognized
};

/// Of a file of no known format, what can be said all the same.
std::string why_unknown(std::string_view head) {
  const size_t first = head.find_first_not_of(" \t\r\n");
  const size_t second =
      first == std::string_view::npos ? first : head.find_first_not_of(" \t\r\n", first + 1);
  if (looks_like_nccl_tests(head))
    return "the output of nccl-tests or rccl-tests: rows of measurements, no timeline; see them "
           "with "
           "trace comm";
  if (head.starts_with("\xff\xfe") || head.starts_with("\xfe\xff"))
    return "text in UTF-16, which no profiler writes; convert it with iconv -f UTF-16 -t UTF-8";
  // A log may begin with a bracket, too: "[2024-05-01 12:00:10] ...".
  const bool opens = first != std::string_view::npos && (head[first] == '{' || head[first] == '[');
  const bool json =
      opens && (second == std::string_view::npos ||
                std::string_view("\"{}[]").find(head[second]) != std::string_view::npos);
  if (json) return "JSON that holds no known trace, or is cut short before its first event";
  const bool text = head.find('\0') == std::string_view::npos;
  if (text &&
      (head.find("loss") != std::string_view::npos || head.find("step") != std::string_view::npos))
    return "text that may be a training's log, but no line both numbers a step and tells its time";
  return "of no known format";
}

/// The rank that the pattern finds in the name, if there is one.
Result<void> take_rank(const std::string& name, ReadOptions& options) {
  if (options.rank_pattern.empty()) return {};
  options.rank = rank_by_pattern(options.rank_pattern, name);
  if (!options.rank)
    return error(
        fmt::format("{} does not fit --ranks '{}' (* is anything, {{rank}} the number); "
                    "change the pattern or leave the file out",
                    name, options.rank_pattern));
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
        fmt::format("{} is a PyTorch execution trace (it has operators but no times); give the "
                    "profiler's trace of the same steps",
                    input.name()));
  const auto readers = all_readers();
  const auto reader = std::find_if(readers.begin(), readers.end(),
                                   [&](const Reader& r) { return r.recognizes(head); });
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

/// Files below this are read sooner than a cache of theirs is written.
constexpr uint64_t min_cached_bytes = 1 << 20;

Result<Found> read_file(const Path& path, ReadOptions options, bool overlap) {
  Found found;
  std::error_code none;
  const bool cached = options.use_cache && !options.shapes &&
                      std::filesystem::file_size(path, none) >= min_cached_bytes && !none;
  if (!options.rank_pattern.empty())  // a cache is of one rank
    options.rank = rank_by_pattern(options.rank_pattern, path.string());
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
    if (const auto damage = input.damage_behind(); damage && !found.traces.empty())
      note_reason(found.traces.front().trace.skipped, damage->what);
    return found;
  }
  TPT_TRY(read_one(input, options, found));
  if (key && found.traces.size() == 1) save_cache(path, *key, found.traces[0].trace);
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
      // A pattern such as traces/* names caches of ours, too.
      if (!is_cache(path)) files.push_back({path, true});
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

tl::unexpected<Error> nothing_found(const std::vector<File>& files, const std::string& why) {
  std::error_code ignored;
  if (files.size() == 1 && std::filesystem::file_size(files[0].path, ignored) == 0)
    return error(fmt::format("{} is empty (0 bytes); check the path and what writes it",
                             files[0].path.string()));
  const std::string what = files.size() == 1
                               ? fmt::format("{} is no trace", files[0].path.string())
                               : fmt::format("no trace is among the {} files", files.size());
  return error(fmt::format("{} ({}); known are {}", what, why, known_formats()));
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
    return error(
        "no trace was given (the folder is empty, or holds caches only); name files or folders");
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

run::ProducerNumbers stated_numbers(const Trace& trace) {
  const auto stated = [&](const char* name) -> std::optional<int64_t> {
    const auto found = trace.facts.find(name);
    if (found == trace.facts.end()) return std::nullopt;
    const auto count = parse_count(found->second);
    return count ? std::optional(*count) : std::nullopt;
  };
  return {.world_size = stated("world_size"), .warp_size = stated("warp_size")};
}

}  // namespace triplepoint::trace
