// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "triplepoint/run/growing_run.h"

namespace triplepoint::run {

namespace {

/// Puts values, spans and steps together, of all blocks.
class Collector : public RecordVisitor {
 public:
  /// False if the block is not what a recorder wrote: then nothing after it is worth reading.
  bool read(const JournalBlock& block) {
    if (!sound_) return false;
    axes_.clear();
    const bool whole = reader_.read(block.body, *this);
    sound_ = sound_ && whole;
    return sound_;
  }

  Run finish() {
    Run run = reader_.head();
    values_.resize(run.series.size());
    for (size_t i = 0; i < run.series.size(); ++i) {
      run.series[i].times = std::move(values_[i].times);
      run.series[i].values = std::move(values_[i].values);
    }
    run.timeline.spans = std::move(spans_);
    sort(run.timeline);
    run.steps = std::move(steps_);
    return run;
  }

  void take(const Span& span) override { spans_.push_back(span); }
  void take(const StepRecord& step) override { steps_.push_back(step); }
  void values(size_t series, const std::vector<int64_t>& times,
              const std::vector<double>& values) override {
    Series& target = series_at(series);
    if (!append_times(target, times)) return;
    target.values.insert(target.values.end(), values.begin(), values.end());
  }
  void axis(const Chunk& chunk) override {
    if (!decode(chunk, chunk.data, axes_.emplace_back())) sound_ = false;
  }
  void chunk(size_t series, size_t axis, const Chunk& chunk) override {
    Series& target = series_at(series);
    std::vector<double> values;
    if (!sound_ || !decode(chunk, chunk.data, values) || values.size() != axes_[axis].size()) {
      sound_ = false;
      return;
    }
    if (append_times(target, axes_[axis]))
      target.values.insert(target.values.end(), values.begin(), values.end());
  }

 private:
  Series& series_at(size_t number) {
    if (number >= values_.size()) values_.resize(number + 1);
    return values_[number];
  }
  bool append_times(Series& target, const std::vector<int64_t>& times) {
    constexpr int64_t farthest = int64_t{1} << 60U;
    for (int64_t time : times) {
      const bool possible = time > -farthest && time < farthest;
      if (!possible || (!target.times.empty() && Instant(time) < target.times.back()))
        sound_ = false;
    }
    if (!sound_) return false;
    for (int64_t time : times)
      target.times.emplace_back(time);
    return true;
  }

  RecordReader reader_;
  std::vector<Series> values_;
  std::vector<Span> spans_;
  std::vector<StepRecord> steps_;
  std::vector<std::vector<int64_t>> axes_;  // of the block
  bool sound_ = true;
};

constexpr const char* unfinished =
    "the recording is not finished (its recorder still writes, or was killed): this is everything "
    "up to its last second";

Run with_note(Run run) {
  run.manifest.notes.emplace_back(unfinished);
  return run;
}

}  // namespace

Result<Run> growing_from_bytes(std::string_view bytes, const std::string& name) {
  Collector collector;
  TPT_TRY(read_journal(bytes, name, [&](const JournalBlock& block) { collector.read(block); }));
  return with_note(collector.finish());
}

/// The tail first: what its writer folds and forgets meanwhile is found in the main file.
Result<Run> load_growing(const Path& path) {
  std::vector<JournalBlock> waiting;
  const auto tail = read_journal_file(tail_of(path),
                                      [&](const JournalBlock& block) { waiting.push_back(block); });
  Collector collector;
  uint64_t folded = 0;
  const JournalExtent main = TPT_TRY(read_journal_file(path, [&](const JournalBlock& block) {
    if (collector.read(block)) folded = block.sequence;
  }));
  if (tail && tail->run == main.run)
    for (const JournalBlock& block : waiting)
      if (block.sequence > folded) collector.read(block);
  return with_note(collector.finish());
}

}  // namespace triplepoint::run
