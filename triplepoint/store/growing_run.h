// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

#include "triplepoint/run/run.h"

#include "triplepoint/store/growing_records.h"
#include "triplepoint/store/journal.h"

namespace triplepoint::run {

/// One series of a growing run that is about to be finished; without values if there is none.
using SeriesLoader = std::function<Series(const Series& without_values)>;
/// What the finished run shall say besides timeline and series; asks for series one by one, since
/// all of them at once need not fit into memory.
using Closing = std::function<Run(const SeriesLoader&)>;

/// A run that is being recorded. While it grows, NAME.run is a journal of encoded chunks and
/// NAME.run.tail a journal of what came since; load() and peek() read both, at any moment, from any
/// process. At the end NAME.run is replaced, at once, by the SQLite file that all runs are.
///
/// Journals and not one growing database, because they need no locks (parallel file systems often
/// have none), are never in a state that only a writer could repair, and are written in one
/// direction.
///
/// Memory stays bounded: at most `most_buffered` values wait to be folded. If the disk is full,
/// what does not fit any more is dropped, and counted.
class GrowingRun {
 public:
  static constexpr size_t fold_at = 100'000;        // values
  static constexpr int64_t fold_after = 80;         // syncs: a minute
  static constexpr size_t most_buffered = 400'000;  // values

  /// Both files, with what `start` says: manifest, devices. They must not exist.
  static Result<GrowingRun> create(const Path& path, const Run& start);

  const Run& head() const { return head_; }
  const Path& path() const { return main_.path(); }

  /// A series from now on; its number.
  size_t declare(const Series& without_values, const SeriesSource* source);
  /// Times of a series ascend; what does not is dropped.
  void add(size_t series, Instant time, double value);
  void add(const Span& span);
  int32_t intern(const SpanType& type);
  void add(const StepRecord& step);
  void add(const ClockAnchor& anchor);
  void note(std::string_view text);
  void fact(std::string_view key, std::string_view value);
  void set_world_size(int64_t ranks);
  void set_cpu_shares(double of_others, double idle);
  void set_core_wait(int32_t rank, Seconds wait);
  /// Of a known device, or of one more.
  void set_device(size_t position, const Device& device);

  /// Everything so far reaches the disk. After an error (disk full) it is tried again with the next
  /// call.
  Result<void> sync();

  /// Turns the files into the finished run. What was added is in head(); `closing` is what is kept
  /// of it. After an error everything is still in the growing files.
  Result<void> finish(const Closing& closing);

  int64_t num_dropped() const { return dropped_; }

 private:
  GrowingRun(JournalWriter main, JournalWriter tail)
      : main_(std::move(main)), tail_(std::move(tail)) {}
  struct Column {
    std::vector<int64_t> times;
    std::vector<double> values;
    size_t synced = 0;
    int64_t last_time = INT64_MIN;
  };
  void put(auto write);
  std::string tail_block() const;
  Result<void> fold();
  std::string folded_values();

  JournalWriter main_, tail_;
  Run head_;
  std::vector<Column> columns_;
  std::string since_sync_, since_fold_;  // records other than values
  uint64_t sequence_ = 0;                // of the last block of the tail
  int64_t syncs_since_fold_ = 0;
  size_t buffered_ = 0;
  int64_t dropped_ = 0;
  ChunkEncoder encoder_;
};

/// Where the values are that are not folded yet.
Path tail_of(const Path& run);

/// A run that is growing, or whose recorder was killed: everything up to its last sync. Changes
/// nothing on disk.
Result<Run> load_growing(const Path& path);
/// Of the main file's bytes alone, on any bytes.
Result<Run> growing_from_bytes(std::string_view bytes, const std::string& name);

/// Writes the finished file beside the growing one and renames it; memory stays small.
Result<void> finish_growing(const Path& growing, const Closing& closing);

}  // namespace triplepoint::run
