// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "triplepoint/base/files.h"

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/upstream/samples.h"

namespace triplepoint::telemetry {

/// A run put together from samples with Unix times.
class ImportedRun {
 public:
  ImportedRun(const Path& source, std::string producer);

  void add(Samples, run::SeriesSource about);
  /// Readings of a signal that failed, and were left out.
  void note_failed(std::string_view signal, int64_t count);
  void note(std::string sentence) { run_.manifest.notes.push_back(std::move(sentence)); }

  /// Devices 0 to the highest with a series, `per_node` of them to a node; times since the first
  /// stamp.
  void number_devices(int32_t per_node);
  /// The run without steps; add those with instant_of().
  run::Run& finished();
  Instant instant_of(int64_t unix_ns) const;
  int64_t first_unix_ns() const { return epoch_; }

 private:
  struct Pending {
    Samples samples;
    run::SeriesSource about;
  };
  run::Run run_;
  std::vector<Pending> pending_;
  std::map<std::string, int64_t, std::less<>> failed_;
  int64_t epoch_ = 0;
  int32_t num_devices_ = 0;
};

/// Two kinds of recordings, each reads what it recognizes.
bool looks_like_artifact(const Path& folder);
Result<run::Run> read_artifact(const Path& folder);
bool looks_like_zeus(const Path& source);
Result<run::Run> read_zeus(const Path& source);

/// The plain .csv files of a folder (not of those below), by name; the file itself if it is one.
std::vector<Path> csv_files(const Path& source);

}  // namespace triplepoint::telemetry
