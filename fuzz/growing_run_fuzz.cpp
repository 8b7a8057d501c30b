// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/growing_run.h"
#include "triplepoint/run/store.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint {
namespace {

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

void must_be_sound(const Result<run::Run>& run) {
  if (!run) {
    TPT_ENSURE(run.error().what.find("; ") != std::string::npos);
    return;
  }
  metrics::measure(*run);
  TPT_ENSURE(run::from_bytes(run::to_bytes(*run).value(), "again"));
}

}  // namespace
}  // namespace triplepoint

/// Bytes are a growing run that can be measured and saved, or a sentence: as a whole file, and as
/// the records of blocks.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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
  run::finish_growing(path, [](const run::SeriesLoader&) { return run::Run(); }, {});
  std::filesystem::remove(path);
  return 0;
}
