// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/upstream/imported_run.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "triplepoint/telemetry/upstream/upstream.h"

namespace triplepoint::telemetry {
namespace {

std::string name_of_source(const Path& source) {
  const Path path = source.filename().empty() ? source.parent_path() : source;
  return path.extension() == ".csv" ? path.stem().string() : path.filename().string();
}

}  // namespace

ImportedRun::ImportedRun(const Path& source, std::string producer) {
  run_.manifest.origin = run::Origin::imported;
  run_.manifest.fidelity = run::Fidelity::real;
  run_.manifest.name = name_of_source(source);
  run_.manifest.producer = std::move(producer);
}

void ImportedRun::add(Samples samples, run::SeriesSource about) {
  if (samples.empty()) return;
  if (!about.of_node) num_devices_ = std::max(num_devices_, about.device + 1);
  pending_.push_back({std::move(samples), std::move(about)});
}

void ImportedRun::note_failed(std::string_view signal, int64_t count) {
  if (count > 0) failed_[std::string(signal)] += count;
}

void ImportedRun::number_devices(int32_t per_node) {
  for (int32_t i = 0; i < num_devices_; ++i) {
    run_.devices.push_back({.index = i,
                            .node = i / per_node,
                            .local = i % per_node,
                            .slot = i % per_node,
                            .name = fmt::format("GPU {}", i),
                            .rank = i});
  }
}

Instant ImportedRun::instant_of(int64_t unix_ns) const {
  return Instant(unix_ns - epoch_);
}

run::Run& ImportedRun::finished() {
  epoch_ = pending_.empty() ? 0 : std::numeric_limits<int64_t>::max();
  for (const Pending& one : pending_)
    epoch_ = std::min(epoch_, one.samples.unix_ns.front());
  run_.manifest.epoch_unix_ns = epoch_;
  for (Pending& one : pending_) {
    run::Series series{.signal = one.about.signal,
                       .device = one.about.device,
                       .of_node = one.about.of_node,
                       .values = std::move(one.samples.values)};
    series.times.reserve(series.values.size());
    for (const int64_t stamp : one.samples.unix_ns)
      series.times.push_back(instant_of(stamp));
    run_.series.push_back(std::move(series));
    run_.sources.push_back(std::move(one.about));
  }
  pending_.clear();
  for (const auto& [signal, count] : failed_)
    note(fmt::format("{}: {} readings failed (written as a negative number) and are left out",
                     signal, count));
  return run_;
}

std::vector<Path> csv_files(const Path& source) {
  std::error_code problem;
  if (!std::filesystem::is_directory(source, problem)) return {source};
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::directory_iterator(source, problem)) {
    std::error_code ignored;
    if (entry.path().extension() == ".csv" && entry.is_regular_file(ignored))
      files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool looks_like_upstream(const Path& source) {
  return looks_like_artifact(source) || looks_like_zeus(source);
}

Result<run::Run> read_upstream(const Path& source) {
  if (looks_like_artifact(source)) return read_artifact(source);
  if (looks_like_zeus(source)) return read_zeus(source);
  return error(
      fmt::format("{}: no recording of the paper's artifact or of Zeus (no file in it is named "
                  "like gpu_power_0.csv or begins like Zeus's CSV); name the folder that holds "
                  "the CSV files",
                  source.string()));
}

}  // namespace triplepoint::telemetry
