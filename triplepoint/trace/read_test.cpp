// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/read.h"

#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/trace/kineto/samples_testing.h"

namespace triplepoint::trace {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone when the test is.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = fs::temp_directory_path() /
            ("triplepoint_trace_" + std::to_string(::getpid()) + "_" + std::to_string(count++));
    fs::create_directories(path_);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  fs::path write(const std::string& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string sample(int32_t rank, uint64_t seed = 1, int layers = 3) {
  return kineto::sample_text(kineto::sample_step({.layers = layers, .seed = seed}, 1),
                             {.rank = rank});
}

TEST_CASE("a folder gives the traces in it, whatever they are called, and passes over the rest") {
  const Folder folder;
  folder.write("a/10.json", sample(10));
  folder.write("a/9.json", sample(9));
  folder.write("notes.txt", "not a trace");
  folder.write("b.json.tptcache", "not one either");
  const Trace trace = read_traces({folder.path()}).value();
  CHECK(trace.format == "kineto");
  CHECK(trace.timeline.num_ranks == 11);
  CHECK(trace.timeline.spans.front().rank == 9);
}

TEST_CASE("caches of ours that a pattern names are passed over") {
  const Folder folder;
  folder.write("0.json", sample(0));
  folder.write("0.json.tptcache", "SQLite format 3");
  const Trace trace =
      read_traces({folder.path() / "0.json", folder.path() / "0.json.tptcache"}).value();
  CHECK(trace.timeline.num_ranks == 1);
  CHECK(!read_traces({folder.path() / "0.json.tptcache"}));
}

TEST_CASE("JSON that ends before its first event is called just that, and not another format") {
  const Folder folder;
  for (const char* text : {"{", "{\n", "{\n  \"schema", "[\n"}) {
    CAPTURE(text);
    const auto trace = read_traces({folder.write("cut.json", text)});
    REQUIRE(!trace);
    CHECK(trace.error().what.find("JSON that holds no known trace, or is cut short") !=
          std::string::npos);
  }
  CHECK(read_traces({folder.write("x.txt", "hello")}).error().what.find("of no known format") !=
        std::string::npos);
  CHECK(read_traces({folder.write("x.run", "")}).error().what.find("is empty") !=
        std::string::npos);
}

TEST_CASE("the number of threads does not change what is read") {
  const Folder folder;
  for (int32_t rank = 0; rank < 5; ++rank)
    folder.write(std::to_string(rank), sample(rank, static_cast<uint64_t>(rank)));
  const Trace one = read_traces({folder.path()}, {.threads = 1}).value();
  CHECK(read_traces({folder.path()}, {.threads = 4}).value() == one);
}

TEST_CASE("what is no trace, or not there, is a sentence that names it") {
  const Folder folder;
  const auto why = [](const Result<Trace>& trace) { return trace ? "" : trace.error().what; };
  CHECK(why(read_trace(folder.write("x.txt", "hello"))).find("x.txt is no trace") !=
        std::string::npos);
  CHECK(why(read_trace(folder.path() / "missing")).find("missing") != std::string::npos);
  CHECK(why(read_trace(folder.path())).find("known are PyTorch") != std::string::npos);
  CHECK(!why(read_traces({})).empty());
}

TEST_CASE("a rank that is given wins over the file's") {
  const Folder folder;
  CHECK(read_trace(folder.write("x", sample(3)), {.rank = 5}).value().timeline.num_ranks == 6);
}

TEST_CASE("the second reading comes from the cache and equals the first") {
  const Folder folder;
  const fs::path file = folder.write("rank0.json", sample(0, 1, 150));
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
  const Folder folder;
  const fs::path file = folder.write("rank0.json", sample(0, 1, 150));
  const Trace first = read_trace(file).value();
  const auto time = fs::last_write_time(file);
  // As long and as old, but other times in it.
  folder.write("rank0.json", sample(0, 2, 150));
  fs::resize_file(file, fs::file_size(file) / 4096 * 4096);
  fs::last_write_time(file, time);
  const Trace second = read_trace(file).value();
  CHECK(second.timeline != first.timeline);
  CHECK(second == read_trace(file, {.use_cache = false}).value());
  const ReadOptions some{.host = HostSpans::none};
  CHECK(read_trace(file, some).value().timeline.spans.size() < second.timeline.spans.size());
}

TEST_CASE("a damaged cache is as none") {
  const Folder folder;
  const fs::path file = folder.write("rank0.json", sample(0, 1, 150));
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
  const Folder folder;
  ::setenv("XDG_CACHE_HOME", (folder.path() / "cache").c_str(), 1);
  const fs::path file = folder.write("rank0.json", sample(0, 1, 150));
  fs::create_directories(cache_places(file)[0] / "in the way");
  const Trace first = read_trace(file).value();
  CHECK(fs::exists(cache_places(file)[1]));
  CHECK(read_trace(file).value() == first);
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace triplepoint::trace
