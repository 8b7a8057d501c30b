// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/trace/kineto/samples_testing.h"

namespace triplepoint::trace {
namespace {

namespace fs = std::filesystem;

std::string sample(int32_t rank, uint64_t seed = 1, int layers = 3) {
  return kineto::sample_text(kineto::sample_step({.layers = layers, .seed = seed}, 1),
                             {.rank = rank});
}

TEST_CASE("a folder gives the traces in it, whatever they are called, and passes over the rest") {
  const ScratchFolder folder;
  folder.file("a/10.json", sample(10));
  folder.file("a/9.json", sample(9));
  folder.file("notes.txt", "not a trace");
  folder.file("b.json.tptcache", "not one either");
  const Trace trace = read_traces({folder.folder()}).value();
  CHECK(trace.format == "kineto");
  CHECK(trace.timeline.num_ranks == 11);
  CHECK(trace.timeline.spans.front().rank == 9);
}

TEST_CASE("caches of ours that a pattern names are passed over") {
  const ScratchFolder folder;
  folder.file("0.json", sample(0));
  folder.file("0.json.tptcache", "SQLite format 3");
  const Trace trace = read_traces({folder / "0.json", folder / "0.json.tptcache"}).value();
  CHECK(trace.timeline.num_ranks == 1);
  CHECK(!read_traces({folder / "0.json.tptcache"}));
}

TEST_CASE("JSON that ends before its first event is called just that, and not another format") {
  const ScratchFolder folder;
  for (const char* text : {"{", "{\n", "{\n  \"schema", "[\n"}) {
    CAPTURE(text);
    const auto trace = read_traces({folder.file("cut.json", text)});
    REQUIRE(!trace);
    CHECK(trace.error().what.find("JSON that holds no known trace, or is cut short") !=
          std::string::npos);
  }
  CHECK(read_traces({folder.file("x.txt", "hello")}).error().what.find("of no known format") !=
        std::string::npos);
  CHECK(read_traces({folder.file("x.run", "")}).error().what.find("is empty") != std::string::npos);
}

TEST_CASE("the number of threads does not change what is read") {
  const ScratchFolder folder;
  for (int32_t rank = 0; rank < 5; ++rank)
    folder.file(std::to_string(rank), sample(rank, static_cast<uint64_t>(rank)));
  const Trace one = read_traces({folder.folder()}, {.threads = 1}).value();
  CHECK(read_traces({folder.folder()}, {.threads = 4}).value() == one);
}

TEST_CASE("what is no trace, or not there, is a sentence that names it") {
  const ScratchFolder folder;
  const auto why = [](const Result<Trace>& trace) { return trace ? "" : trace.error().what; };
  CHECK(why(read_trace(folder.file("x.txt", "hello"))).find("x.txt is no trace") !=
        std::string::npos);
  CHECK(why(read_trace(folder / "missing")).find("missing") != std::string::npos);
  CHECK(why(read_trace(folder.folder())).find("known are PyTorch") != std::string::npos);
  CHECK(!why(read_traces({})).empty());
}

TEST_CASE("a rank that is given wins over the file's") {
  const ScratchFolder folder;
  CHECK(read_trace(folder.file("x", sample(3)), {.rank = 5}).value().timeline.num_ranks == 6);
}

TEST_CASE("the second reading comes from the cache and equals the first") {
  const ScratchFolder folder;
  const fs::path file = folder.file("rank0.json", sample(0, 1, 150));
  REQUIRE(fs::file_size(file) > (1 << 20));
  const Trace first = read_trace(file).value();
  const auto key = cache_key(file, {});
  REQUIRE(key);
  REQUIRE(fs::exists(cache_places(file)[0]));
  CHECK(load_cache(file, *key) == first);
  CHECK(read_trace(file).value() == first);
  CHECK(read_trace(file, {.use_cache = false}).value() == first);
}

TEST_CASE("a cache is of one content and one choice of options") {
  const ScratchFolder folder;
  const fs::path file = folder.file("rank0.json", sample(0, 1, 150));
  const Trace first = read_trace(file).value();
  const auto time = fs::last_write_time(file);
  // As long and as old, but other times in it.
  folder.file("rank0.json", sample(0, 2, 150));
  fs::resize_file(file, fs::file_size(file) / 4096 * 4096);
  fs::last_write_time(file, time);
  const Trace second = read_trace(file).value();
  CHECK(second.timeline != first.timeline);
  CHECK(second == read_trace(file, {.use_cache = false}).value());
  const ReadOptions some{.host = HostSpans::none};
  CHECK(read_trace(file, some).value().timeline.spans.size() < second.timeline.spans.size());
}

TEST_CASE("a damaged cache is as none") {
  const ScratchFolder folder;
  const fs::path file = folder.file("rank0.json", sample(0, 1, 150));
  const Trace first = read_trace(file).value();
  const fs::path cache = cache_places(file)[0];
  for (const char* const content : {"", "SQLite format 3", "garbage"}) {
    std::ofstream(cache, std::ios::binary) << content;
    CHECK(read_trace(file).value() == first);
  }
  fs::resize_file(cache, fs::file_size(cache) / 2);
  CHECK(read_trace(file).value() == first);
}

TEST_CASE("where the folder takes no cache, the user's cache folder does") {
  const ScratchFolder folder;
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  const fs::path file = folder.file("rank0.json", sample(0, 1, 150));
  fs::create_directories(cache_places(file)[0] / "in the way");
  const Trace first = read_trace(file).value();
  CHECK(fs::exists(cache_places(file)[1]));
  CHECK(read_trace(file).value() == first);
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace triplepoint::trace
