// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/growing_run.h"

#include <map>
#include <random>
#include <utility>

namespace triplepoint::run {
namespace {

/// Puts values, spans and steps together, of all blocks.
class Collector : public RecordVisitor {
 public:
  /// False if no recorder wrote the block: then the rest of the file is not read.
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

// Of records other than values that wait to be folded: fold soon, and drop spans.
constexpr size_t many_record_bytes = 2U << 20U, most_record_bytes = 16U << 20U;

/// Ties a journal to its tail. Not part of any result.
uint64_t random_number() {
  std::random_device device;
  return uint64_t{device()} << 32U | device();
}

/// The time stamps of a fold; series that were read together share them.
class FoldAxes {
 public:
  FoldAxes(RecordWriter& out, ChunkEncoder& encoder) : out_(out), encoder_(encoder) {}

  uint64_t number_of(const std::vector<int64_t>& times) {
    const auto [found, is_new] = numbers_.emplace(&times, numbers_.size());
    if (is_new) out_.axis(encoder_.encode(std::span<const int64_t>(times)));
    return found->second;
  }

 private:
  struct ByContent {
    bool operator()(const std::vector<int64_t>* a, const std::vector<int64_t>* b) const {
      return *a < *b;
    }
  };
  RecordWriter& out_;
  ChunkEncoder& encoder_;
  std::map<const std::vector<int64_t>*, uint64_t, ByContent> numbers_;
};

void write_number(RecordWriter& out, const char* name, int64_t whole) {
  out.number(name, whole, {});
}
void write_number(RecordWriter& out, const char* name, double real) {
  out.number(name, {}, real);
}

std::string records_of(const Run& start) {
  std::string bytes;
  RecordWriter out(bytes);
  const Manifest& manifest = start.manifest;
  out.begin(manifest);
  for (size_t i = 0; i < manifest.hosts.size(); ++i)
    out.host(static_cast<int32_t>(i), manifest.hosts[i]);
  for (const ClockAnchor& anchor : manifest.anchors)
    out.add(anchor);
  for (const std::string& note : manifest.notes)
    out.note(note);
  for (const auto& [key, value] : manifest.facts)
    out.fact(key, value);
  visit_numbers(start.numbers, [&](const char* name, const auto& number) {
    if (number) write_number(out, name, *number);
  });
  for (size_t i = 0; i < start.devices.size(); ++i)
    out.add(i, start.devices[i]);
  return bytes;
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

Path tail_of(const Path& run) {
  return run.string() + ".tail";
}

Result<GrowingRun> GrowingRun::create(const Path& path, const Run& start) {
  const uint64_t number = random_number();
  JournalWriter main = TPT_TRY(JournalWriter::create(path, number));
  JournalWriter tail = TPT_TRY(JournalWriter::create(tail_of(path), number));
  GrowingRun run(std::move(main), std::move(tail));
  run.head_.manifest = start.manifest;
  run.head_.numbers = start.numbers;
  run.head_.devices = start.devices;
  TPT_TRY(run.main_.append(0, records_of(start)));
  TPT_TRY(run.main_.sync());
  return run;
}

/// Into the tail within a second, and into the main file with the next fold.
void GrowingRun::put(auto write) {
  for (std::string* bytes : {&since_sync_, &since_fold_}) {
    RecordWriter out(*bytes);
    write(out);
  }
}

size_t GrowingRun::declare(const Series& without_values, const SeriesSource* source) {
  put([&](RecordWriter& out) { out.add(without_values, source); });
  head_.series.push_back({.signal = without_values.signal,
                          .device = without_values.device,
                          .of_node = without_values.of_node});
  if (source != nullptr) head_.sources.push_back(*source);
  columns_.emplace_back();
  return columns_.size() - 1;
}

void GrowingRun::add(size_t series, Instant time, double value) {
  Column& column = columns_[series];
  if (time.nanoseconds() <= column.last_time) return;
  if (buffered_ >= most_buffered || column.times.size() >= most_values_per_chunk) {
    ++dropped_;
    return;
  }
  column.times.push_back(column.last_time = time.nanoseconds());
  column.values.push_back(value);
  ++buffered_;
}

void GrowingRun::add(const Span& span) {
  if (since_fold_.size() >= most_record_bytes) {
    ++dropped_;
    return;
  }
  put([&](RecordWriter& out) { out.add(span); });
}

int32_t GrowingRun::intern(const SpanType& type) {
  const size_t known = head_.timeline.types.size();
  const int32_t number = head_.timeline.intern(type);
  if (head_.timeline.types.size() > known) put([&](RecordWriter& out) { out.add(type); });
  return number;
}

void GrowingRun::add(const StepRecord& step) {
  head_.steps.push_back(step);
  put([&](RecordWriter& out) { out.add(step); });
}

void GrowingRun::add(const ClockAnchor& anchor) {
  head_.manifest.anchors.push_back(anchor);
  put([&](RecordWriter& out) { out.add(anchor); });
}

void GrowingRun::note(std::string_view text) {
  head_.manifest.notes.emplace_back(text);
  put([&](RecordWriter& out) { out.note(text); });
}

void GrowingRun::fact(std::string_view key, std::string_view value) {
  head_.manifest.facts[std::string(key)] = value;
  put([&](RecordWriter& out) { out.fact(key, value); });
}

void GrowingRun::set_world_size(int64_t ranks) {
  head_.numbers.world_size = ranks;
  put([&](RecordWriter& out) { write_number(out, "world_size", ranks); });
}

void GrowingRun::set_cpu_shares(double of_others, double idle) {
  head_.numbers.others_cpu_share = of_others;
  head_.numbers.idle_cpu_share = idle;
  put([&](RecordWriter& out) {
    write_number(out, "others_cpu_share", of_others);
    write_number(out, "idle_cpu_share", idle);
  });
}

void GrowingRun::set_core_wait(int32_t rank, Seconds wait) {
  head_.core_waits[rank] = wait;
  put([&](RecordWriter& out) { out.core_wait(rank, wait); });
}

void GrowingRun::set_device(size_t position, const Device& device) {
  if (position == head_.devices.size()) head_.devices.emplace_back();
  head_.devices[position] = device;
  put([&](RecordWriter& out) { out.add(position, device); });
}

std::string GrowingRun::tail_block() const {
  std::string block = since_sync_;
  RecordWriter out(block);
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.synced == column.times.size()) continue;
    out.add({.series = i,
             .times = column.times.data() + column.synced,
             .values = column.values.data() + column.synced,
             .count = column.times.size() - column.synced});
  }
  return block;
}

Result<void> GrowingRun::sync() {
  const std::string block = tail_block();
  if (!block.empty()) {
    TPT_TRY(tail_.append(sequence_ + 1, block));
    ++sequence_;
    since_sync_.clear();
    for (Column& column : columns_)
      column.synced = column.times.size();
    TPT_TRY(tail_.sync());
  }
  const bool due = ++syncs_since_fold_ >= fold_after || buffered_ >= fold_at ||
                   since_fold_.size() >= many_record_bytes;
  if (due && (buffered_ > 0 || !since_fold_.empty())) return fold();
  return {};
}

std::string GrowingRun::folded_values() {
  std::string bytes;
  RecordWriter out(bytes);
  FoldAxes axes(out, encoder_);
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = columns_[i];
    if (column.times.empty()) continue;
    const uint64_t axis = axes.number_of(column.times);
    out.chunk(i, axis, encoder_.encode(std::span<const double>(column.values)));
  }
  return bytes;
}

/// Only when the fold has reached the disk is the tail forgotten. A reader in between finds the
/// same values in both, and knows by the sequence.
Result<void> GrowingRun::fold() {
  TPT_TRY(main_.append(sequence_, since_fold_ + folded_values()));
  TPT_TRY(main_.sync());
  since_fold_.clear();
  syncs_since_fold_ = 0;
  buffered_ = 0;
  for (Column& column : columns_) {
    column.times.clear();
    column.values.clear();
    column.synced = 0;
  }
  return tail_.clear();
}

Result<void> GrowingRun::finish(const Closing& closing) {
  TPT_TRY(sync());
  if (buffered_ > 0 || !since_fold_.empty()) TPT_TRY(fold());
  return finish_growing(path(), closing);
}

}  // namespace triplepoint::run
