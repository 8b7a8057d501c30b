// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/cache.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <utility>

#include <fmt/format.h>
#include <sys/stat.h>

#include "triplepoint/base/files.h"

#include "triplepoint/run/store.h"

#include "triplepoint/trace/hash.h"

namespace triplepoint::trace {

namespace {

/// To be raised whenever a reader reads the same file differently.
constexpr int readers_version = 1;
constexpr const char* extension = ".tptcache";
// A cached trace is a run file; these of its facts are the cache's own.
constexpr std::string_view key_fact = "cache key", format_fact = "cache format",
                           rank_fact = "cache rank", epoch_fact = "cache epoch in file",
                           skipped_fact = "cache skipped", truncated_fact = "cache truncated";

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
  run.manifest.notes = trace.skipped.reasons;
  run.manifest.facts = trace.facts;
  const auto put = [&](std::string_view name, std::string value) {
    run.manifest.facts[std::string(name)] = std::move(value);
  };
  put(key_fact, key);
  put(format_fact, trace.format);
  if (trace.rank) put(rank_fact, std::to_string(*trace.rank));
  put(epoch_fact, std::to_string(trace.epoch_in_file_ns));
  put(skipped_fact, std::to_string(trace.skipped.events));
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
  trace.skipped.reasons = std::move(run.manifest.notes);
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

}  // namespace triplepoint::trace
