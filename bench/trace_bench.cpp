// SPDX-License-Identifier: Apache-2.0
// What reading a profiler's trace costs: 60 MB of steps with Python functions, operators, launches,
// kernels and flows, made up.
#include <filesystem>
#include <fstream>

#include <benchmark/benchmark.h>
#include <isa-l/igzip_lib.h>
#include <unistd.h>
#include <zstd.h>

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/kineto/samples_testing.h"
#include "triplepoint/trace/read.h"

namespace triplepoint::trace {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t size = 60'000'000;

const std::string& text() {
  static const std::string all = [] {
    Input input = Input::of(kineto::endless_sample({}, size), "sample").value();
    return input.rest(2 * size).value();
  }();
  return all;
}

std::string gzipped(const std::string& text) {
  std::string packed(text.size() + 65536, '\0');
  std::string work(ISAL_DEF_LVL1_DEFAULT, '\0');
  isal_zstream stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.level = 1;
  stream.level_buf = reinterpret_cast<uint8_t*>(work.data());
  stream.level_buf_size = static_cast<uint32_t>(work.size());
  stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uint32_t>(text.size());
  stream.next_out = reinterpret_cast<uint8_t*>(packed.data());
  stream.avail_out = static_cast<uint32_t>(packed.size());
  isal_deflate(&stream);
  packed.resize(stream.total_out);
  return packed;
}

/// The files that are read, gone at the end.
class Files {
 public:
  Files() {
    fs::create_directories(folder_);
    write("trace.json", text());
    write("trace.json.gz", gzipped(text()));
    std::string packed(ZSTD_compressBound(text().size()), '\0');
    packed.resize(ZSTD_compress(packed.data(), packed.size(), text().data(), text().size(), 3));
    write("trace.json.zst", packed);
  }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() { fs::remove_all(folder_); }
  fs::path path(const std::string& name) const { return folder_ / name; }

 private:
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  fs::path folder_ =
      fs::temp_directory_path() / ("triplepoint_trace_bench_" + std::to_string(::getpid()));
};

const Files& files() {
  static const Files all;
  return all;
}

void count(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

void read_events(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    Input input = Input::of_text(text(), "sample");
    state.ResumeTiming();
    benchmark::DoNotOptimize(read_kineto(input, {.threads = 1}).value().timeline.spans.size());
  }
  count(state, text().size());
}
BENCHMARK(read_events)->Unit(benchmark::kMillisecond);

/// From a file on disk to a timeline; the second number is of threads.
void read_file(benchmark::State& state, const char* name, int threads) {
  const fs::path path = files().path(name);
  for (auto _ : state)
    benchmark::DoNotOptimize(read_trace(path, {.threads = threads}).value().timeline.spans.size());
  count(state, text().size());
}
BENCHMARK_CAPTURE(read_file, plain, "trace.json", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_file, gzip, "trace.json.gz", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read_file, gzip_two_threads, "trace.json.gz", 2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK_CAPTURE(read_file, zstd, "trace.json.zst", 1)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace triplepoint::trace
