// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "triplepoint/store/growing_run.h"
#include "triplepoint/store/store_database.h"
#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {

namespace {

// Chunks of fewer values are joined: a row costs as much as fifty values. Larger ones leave more of
// their pages empty.
constexpr int64_t least_whole_chunk = 256;
constexpr size_t joined_chunk = 1024;
constexpr size_t spans_at_once = 16384;

/// Which axis every series has. Series whose stamps were equal in every fold share one.
class AxisSurvey : public RecordVisitor {
 public:
  void next_block() { fold_.clear(); }
  void take(const Span&) override {}
  void take(const StepRecord&) override {}
  void values(size_t, const std::vector<int64_t>&, const std::vector<double>&) override {}
  void axis(const Chunk& chunk) override {
    fold_.push_back(std::hash<std::string_view>()(chunk.data) ^ as_size(chunk.count));
  }
  void chunk(size_t series, size_t axis, const Chunk&) override {
    if (series >= sums_.size()) sums_.resize(series + 1);
    sums_[series].push_back(fold_[axis]);
  }

  /// For every series the first one with the same stamps; a series without values has itself.
  std::vector<size_t> owners(size_t num_series) {
    sums_.resize(num_series);
    std::map<std::vector<size_t>, size_t> first;
    return numbered(num_series, [&](size_t i) { return first.emplace(sums_[i], i).first->second; });
  }

 private:
  std::vector<size_t> fold_;               // of the block's axes
  std::vector<std::vector<size_t>> sums_;  // of each series' axes
};

/// A column of the finished file: large chunks as they are, small ones joined.
template <class Number>
class ColumnCopy {
 public:
  Result<void> take(ColumnWriter& writer, const ColumnKey& key, const Chunk& chunk) {
    if (waiting_.empty() && chunk.count >= least_whole_chunk) {
      TPT_TRY(writer.write(key, chunk));
      return {};
    }
    if (!decode(chunk, chunk.data, waiting_))
      return error(
          "a chunk of column \"{} {}\" does not decode (the growing run is "
          "damaged); load it as it is",
          key.part, key.owner);
    if (waiting_.size() >= joined_chunk) return flush(writer, key);
    return {};
  }
  Result<void> flush(ColumnWriter& writer, const ColumnKey& key) {
    if (!waiting_.empty()) TPT_TRY(writer.write(key, std::span<const Number>(waiting_)));
    waiting_.clear();
    return {};
  }

 private:
  std::vector<Number> waiting_;
};

/// Writes the columns of the finished file, block by block.
class Copier : public RecordVisitor {
 public:
  Copier(ColumnWriter writer, std::vector<size_t> owners)
      : writer_(std::move(writer)),
        owners_(std::move(owners)),
        axes_(owners_.size()),
        values_(owners_.size()) {}

  void next_block() { fold_.clear(); }
  void take(const Span& span) override {
    spans_.push_back(span);
    if (spans_.size() >= spans_at_once) flush_spans();
  }
  void take(const StepRecord&) override {}
  void values(size_t, const std::vector<int64_t>&, const std::vector<double>&) override {}
  void axis(const Chunk& chunk) override { fold_.push_back(chunk); }
  void chunk(size_t series, size_t axis, const Chunk& chunk) override {
    if (owners_[series] == series) note(axes_[series].take(writer_, axis_key(series), fold_[axis]));
    note(values_[series].take(writer_, value_key(series), chunk));
  }

  Result<void> finish() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      note(axes_[i].flush(writer_, axis_key(i)));
      note(values_[i].flush(writer_, value_key(i)));
    }
    flush_spans();
    return problem_;
  }

 private:
  static ColumnKey axis_key(size_t series) {
    return {"axis", static_cast<int64_t>(series), "time_ns"};
  }
  static ColumnKey value_key(size_t series) {
    return {"series", static_cast<int64_t>(series), "value"};
  }
  void note(Result<void> result) {
    if (problem_ && !result) problem_ = std::move(result);
  }
  void flush_spans() {
    if (spans_.empty()) return;
    const auto written = write_spans(writer_, spans_);
    if (!written) note(tl::unexpected<Error>(written.error()));
    spans_.clear();
  }

  ColumnWriter writer_;
  std::vector<size_t> owners_;
  std::vector<ColumnCopy<int64_t>> axes_;
  std::vector<ColumnCopy<double>> values_;
  std::vector<Chunk> fold_;
  std::vector<Span> spans_;
  Result<void> problem_;
};

/// Reads all blocks; returns the records other than values.
Result<Run> replay_journal(const Path& growing, auto& visitor) {
  RecordReader reader;
  bool sound = true;
  TPT_TRY(read_journal_file(growing, [&](const JournalBlock& block) {
    visitor.next_block();
    sound = sound && reader.read(block.body, visitor);
  }));
  if (!sound)
    return error("{} is damaged (a block is not what a recorder writes); load it as it is",
                 growing.string());
  return reader.head();
}

Result<void> write_series_rows(const Database& database, const std::vector<Series>& all,
                               const std::vector<size_t>& owners) {
  Statement insert = TPT_TRY(
      database.prepare("INSERT INTO series(id, signal, device, of_node, axis) VALUES(?,?,?,?,?)"));
  for (size_t i = 0; i < all.size(); ++i)
    TPT_TRY(insert_row(insert, i, all[i].signal, all[i].device, all[i].of_node, owners[i]));
  return {};
}

/// Reads back what has just been written, one series at a time.
SeriesLoader loader_of(ColumnReader& reader, const std::vector<Series>& all,
                       const std::vector<size_t>& owners) {
  return [&](const Series& wanted) {
    Series series{.signal = wanted.signal, .device = wanted.device, .of_node = wanted.of_node};
    const auto same = [&](const Series& other) {
      return other.signal == wanted.signal && other.device == wanted.device &&
             other.of_node == wanted.of_node;
    };
    const auto found = std::ranges::find_if(all, same);
    if (found == all.end()) return series;
    const auto number = as_size(found - all.begin());
    const auto times =
        reader.read<int64_t>({"axis", static_cast<int64_t>(owners[number]), "time_ns"});
    auto values = reader.read<double>({"series", static_cast<int64_t>(number), "value"});
    if (!times || !values || times->size() != values->size()) return series;
    series.times.reserve(times->size());
    for (int64_t time : *times)
      series.times.emplace_back(time);
    series.values = std::move(*values);
    return series;
  };
}

Result<void> write_tables(const Database& database, const Run& closing) {
  TPT_TRY(write_manifest(database, closing));
  TPT_TRY(write_devices(database, closing));
  TPT_TRY(write_sources(database, closing));
  TPT_TRY(write_steps(database, closing));
  return {};
}

Result<void> write_file(const Path& growing, const Path& target, const Closing& close) {
  AxisSurvey survey;
  Run head = TPT_TRY(replay_journal(growing, survey));
  const std::vector<size_t> owners = survey.owners(head.series.size());
  Database database = TPT_TRY(Database::create_file(target.string()));
  TPT_TRY(create_tables(database));
  TPT_TRY(database.execute("BEGIN"));
  TPT_TRY(write_series_rows(database, head.series, owners));
  ColumnWriter types_only = TPT_TRY(ColumnWriter::create(database));
  TPT_TRY(write_timeline(database, types_only, head.timeline));
  {
    Copier copier(TPT_TRY(ColumnWriter::create(database)), owners);
    TPT_TRY(replay_journal(growing, copier));
    TPT_TRY(copier.finish());
  }
  {
    ColumnReader reader = TPT_TRY(ColumnReader::create(database));
    TPT_TRY(write_tables(database, close(loader_of(reader, head.series, owners))));
  }
  TPT_TRY(database.execute("COMMIT"));
  return {};
}

Result<void> sync_and_rename(const Path& from, const Path& to) {
  const Descriptor file(::open(from.c_str(), O_RDWR | O_CLOEXEC));
  const bool synced = file && (::fsync(file.number()) == 0 || errno == EINVAL);
  int code = synced ? 0 : errno;
  if (synced && ::rename(from.c_str(), to.c_str()) != 0) code = errno;
  if (code == 0) return {};
  return error("cannot finish {} ({}); free some space or check the folder", to.string(),
               std::generic_category().message(code));
}

}  // namespace

Result<void> finish_growing(const Path& growing, const Closing& closing) {
  const Path target = fmt::format("{}.{}.tmp", growing.string(), ::getpid());
  std::error_code ignored;
  std::filesystem::remove(target, ignored);
  Result<void> done = write_file(growing, target, closing);
  if (!done)
    done = error("cannot finish {} ({}); free some space beside it", growing.string(),
                 done.error().what.substr(0, done.error().what.find(';')));
  if (done) done = sync_and_rename(target, growing);
  std::filesystem::remove(done ? tail_of(growing) : target, ignored);
  return done;
}

}  // namespace triplepoint::run
