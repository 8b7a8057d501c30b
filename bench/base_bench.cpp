// SPDX-License-Identifier: Apache-2.0
// The readers every command starts with, and the numbers it draws.
#include <benchmark/benchmark.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/random.h"
#include "triplepoint/base/unit_text.h"

namespace triplepoint {
namespace {

void read_quantity(benchmark::State& state) {
  for (auto _ : state)
    benchmark::DoNotOptimize(parse_quantity<BytesPerSecond>("3.35 TB/s"));
}
BENCHMARK(read_quantity);

void read_csv(benchmark::State& state) {
  std::string text = "m,n,k,dtype,efficiency\n";
  for (int i = 0; i < 10000; ++i)
    text += "4096,5120,1536,bf16,0.6543\n";
  for (auto _ : state) {
    const CsvTable table = CsvTable::parse(text, "bench").value();
    double sum = 0;
    for (std::size_t row = 0; row < table.rows(); ++row)
      sum += **table.number(row, 4);
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(read_csv)->Unit(benchmark::kMillisecond);

void draw_normal(benchmark::State& state) {
  std::uint64_t index = 0;
  for (auto _ : state)
    benchmark::DoNotOptimize(random_normal({.seed = 1, .stream = 1}, index++));
}
BENCHMARK(draw_normal);

}  // namespace
}  // namespace triplepoint
