// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/metrics/metrics.h"
#include "triplepoint/store/growing_run.h"
#include "triplepoint/store/store.h"

namespace triplepoint {
namespace {

/// A run with something in every table.
run::Run small_run() {
  run::Run run;
  run.manifest.name = "fuzz";
  run.manifest.facts = {{"limit_cycle", "no"}};
  run.devices = {{.index = 0, .name = "gpu", .rank = 0}, {.index = 1, .slot = 1, .rank = 1}};
  run.steps = {{.begin = Instant(0), .end = Instant(1000), .samples = 8, .tokens = 80}};
  run.summaries = {{.power_mean_w = 612.5, .throttle = {{"software_power_cap", 0.25}}},
                   {.die_mean_c = 71.25}};
  run.memory = {{.weights = 1 * unit::GiB}};
  run.timeline.num_ranks = 2;
  run.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute},
                        {.name = "send",
                         .kind = run::SpanKind::communication,
                         .collective = spec::Collective::send_recv,
                         .group = spec::GroupKind::pipeline}};
  run::PatternPiece layer{.repeat = 3, .length = 100 * unit::ns};
  layer.spans = {{.begin = Instant(0), .end = Instant(60)},
                 {.begin = Instant(60), .end = Instant(90), .type = 1, .wait = 5 * unit::ns}};
  run.timeline.patterns = {{.name = "forward", .pieces = {layer}}};
  run.timeline.instances = {{.begin = Instant(10), .rank = 0}, {.begin = Instant(20), .rank = 1}};
  run.timeline.spans = {{.begin = Instant(400), .end = Instant(500), .type = 1, .rank = 1}};
  run.series = {{.signal = "power_w", .times = {Instant(0), Instant(9)}, .values = {0.5, 1.0 / 3}},
                {.signal = "node_power_w", .of_node = true, .times = {Instant(1)}, .values = {7}}};
  return run;
}

/// Where a file has content: most of a small database is the empty rest of its pages.
std::vector<std::size_t> filled(const std::string& file) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < file.size(); ++i)
    if (file[i] != '\0') places.push_back(i);
  return places;
}

/// A good file, changed where the input says: two bytes of position among the filled places, one of
/// content.
std::string patched(std::string file, std::string_view patches) {
  static const std::vector<std::size_t> places = filled(file);
  for (; patches.size() >= 3; patches.remove_prefix(3)) {
    const auto byte = [&](std::size_t i) {
      return as_size(static_cast<unsigned char>(patches[i]));
    };
    file[places[(byte(0) << 8U | byte(1)) % places.size()]] = patches[2];
  }
  return file;
}

void must_be_sound(const Result<run::Run>& run) {
  if (!run) {
    TPT_ENSURE(run.error().what.find("; ") != std::string::npos);
    return;
  }
  metrics::measure(*run);
  TPT_ENSURE(run::from_bytes(run::to_bytes(*run).value(), "again"));
}

Path path_of(const char* name) {
  return std::filesystem::temp_directory_path() / (name + std::to_string(getpid()) + ".run");
}

/// Takes every block of a journal, whatever its sum says: the records are what is to be tested.
void append_any(run::JournalWriter& writer, std::string_view input) {
  uint64_t sequence = 0;
  while (!input.empty()) {
    const std::size_t size = 1 + static_cast<unsigned char>(input[0]);
    TPT_ENSURE(writer.append(++sequence, input.substr(0, size).substr(1)));
    input.remove_prefix(std::min(size, input.size()));
  }
}

}  // namespace
}  // namespace triplepoint

/// Bytes are a run that can be measured and saved again, or a sentence. Inputs are whole files, or
/// patches to one.
extern "C" int fuzz_store(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  static const std::string good = run::to_bytes(small_run()).value();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  must_be_sound(run::from_bytes(
      input.starts_with("SQLite") ? std::string(input) : patched(good, input), "fuzz"));
  return 0;
}

/// Bytes are a growing run that can be measured and saved, or a sentence: as a whole file, and as
/// the records of blocks.
extern "C" int fuzz_growing_run(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  must_be_sound(run::from_bytes("TPntGrow" + std::string(input), "fuzz"));
  static const Path path = path_of("triplepoint_fuzz");
  std::filesystem::remove(path);
  {
    run::JournalWriter writer = run::JournalWriter::create(path, 1).value();
    append_any(writer, input);
  }
  must_be_sound(run::load(path.string()));
  run::finish_growing(path, [](const run::SeriesLoader&) { return run::Run(); });
  std::filesystem::remove(path);
  return 0;
}
