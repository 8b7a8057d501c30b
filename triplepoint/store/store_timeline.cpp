// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {
namespace {

/// Time axes, each stored once: a sampler reads many signals at one tick.
class Axes {
 public:
  explicit Axes(ColumnWriter& writer) : writer_(writer) {}

  Result<int64_t> number_of(const Times& times) {
    const auto [found, is_new] = numbers_.emplace(&times, static_cast<int64_t>(numbers_.size()));
    if (!is_new) return found->second;
    std::vector<int64_t> nanoseconds(times.size());
    std::transform(times.begin(), times.end(), nanoseconds.begin(),
                   [](Instant t) { return t.nanoseconds(); });
    TPT_TRY(
        writer_.write({"axis", found->second, "time_ns"}, std::span<const int64_t>(nanoseconds)));
    return found->second;
  }

 private:
  struct ByContent {
    bool operator()(const Times* a, const Times* b) const {
      if (*a == *b) return false;
      if (a->size() != b->size()) return a->size() < b->size();
      return std::ranges::lexicographical_compare(*a, *b);
    }
  };
  ColumnWriter& writer_;
  std::map<const Times*, int64_t, ByContent> numbers_;
};

Result<std::vector<Instant>> read_axis(const Database& database, ColumnReader& reader,
                                       int64_t number) {
  std::vector<Instant> times;
  for (int64_t t : TPT_TRY(reader.read<int64_t>({"axis", number, "time_ns"})))
    if (!set_number(times.emplace_back(), t) ||
        (times.size() > 1 && times.back() < times[times.size() - 2]))
      return damaged(database, "time stamps go backwards");
  return times;
}

/// Series of one signal of devices that follow each other, at the same times: one column.
struct SeriesRow {
  int64_t id = 0;
  std::string signal;
  int32_t device = 0;  // the first
  bool of_node = false;
  int64_t axis = 0, devices = 1;
  int64_t stride = 1;  // from one device's place in the run to the next one's
  size_t place_of(int64_t number) const { return as_size(id + number * stride); }
};

}  // namespace

template <>
inline constexpr std::tuple fields_of<SeriesRow>{
    Field{"id", &SeriesRow::id},         Field{"signal", &SeriesRow::signal},
    Field{"device", &SeriesRow::device}, Field{"of_node", &SeriesRow::of_node},
    Field{"axis", &SeriesRow::axis},     Field{"devices", &SeriesRow::devices},
    Field{"stride", &SeriesRow::stride}};

namespace {

/// Whether b is the same as a of the device `apart` behind.
bool continues(const Series& a, const Series& b, int64_t apart) {
  return a.signal == b.signal && a.of_node == b.of_node && a.device + apart == b.device &&
         a.times == b.times;
}

/// The series at a place and those that continue it, without those of rows `written` before.
SeriesRow row_from(const std::vector<Series>& all, size_t place, Layout layout,
                   const std::vector<bool>& written) {
  constexpr int64_t widest_stride = 64;  // signals of a device
  const Series& first = all[place];
  SeriesRow row{.id = static_cast<int64_t>(place),
                .signal = first.signal,
                .device = first.device,
                .of_node = first.of_node};
  if (layout == Layout::of_each_device || first.times.empty()) return row;
  const auto goes_on = [&](int64_t device) {
    const size_t next = row.place_of(device);
    return next < all.size() && !written[next] && continues(first, all[next], device);
  };
  while (row.stride < widest_stride && !goes_on(1))
    ++row.stride;
  while (goes_on(row.devices))
    ++row.devices;
  if (row.devices == 1) row.stride = 1;
  return row;
}

/// The values of all devices of a row, device after device.
Result<bool> write_values(ColumnWriter& writer, const std::vector<Series>& all,
                          const SeriesRow& row) {
  const ColumnKey key{"series", row.id, "value"};
  if (row.devices == 1)
    return writer.write(key, std::span<const double>(all[row.place_of(0)].values));
  std::vector<double> column;
  for (int64_t device = 0; device < row.devices; ++device) {
    const std::vector<double>& values = all[row.place_of(device)].values;
    column.insert(column.end(), values.begin(), values.end());
    const size_t whole_chunks = column.size() / most_values_per_chunk * most_values_per_chunk;
    if (whole_chunks == 0) continue;
    TPT_TRY(writer.write(key, std::span<const double>(column).first(whole_chunks)));
    column.erase(column.begin(), column.begin() + static_cast<std::ptrdiff_t>(whole_chunks));
  }
  return writer.write(key, std::span<const double>(column));
}

Result<std::vector<SeriesRow>> read_series_rows(const Database& database) {
  constexpr int64_t most = 1 << 24;
  std::vector<SeriesRow> rows = TPT_TRY(read_rows<SeriesRow>(database, "series", "id"));
  for (const SeriesRow& row : rows)
    if (row.devices < 1 || row.stride < 1 || row.devices > most || row.stride > most ||
        (row.devices > 1 && (row.id < 0 || row.id > most)) || row.device > INT32_MAX - row.devices)
      return damaged(database, fmt::format("series \"{}\" is of no possible devices", row.signal));
  return rows;
}

/// Cuts the values of a row into the series of its devices.
Result<std::vector<Series>> read_values(const Database& database, ColumnReader& reader,
                                        const SeriesRow& row, const Times& at) {
  std::vector<double> values = TPT_TRY(reader.read<double>({"series", row.id, "value"}));
  const size_t times = at.size(), devices = as_size(row.devices);
  if (values.size() != times * devices || (devices > 1 && times == 0))
    return damaged(database, fmt::format("series \"{}\" has {} values at {} times", row.signal,
                                         values.size(), times));
  std::vector<Series> own;
  for (size_t device = 0; device < devices; ++device) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(device * times);
    own.push_back({.signal = row.signal,
                   .device = row.device + static_cast<int32_t>(device),
                   .of_node = row.of_node,
                   .times = at,
                   .values = {begin, begin + static_cast<std::ptrdiff_t>(times)}});
  }
  return own;
}

/// A part of a pattern, without its spans.
struct PieceRow {
  int64_t pattern = 0;
  int32_t repeat = 1;
  Seconds length;
  int32_t first_layer = -1;
  int64_t spans = 0;
};

}  // namespace

Result<bool> write_series(const Database& database, ColumnWriter& writer,
                          const std::vector<Series>& all, Layout layout) {
  std::vector<SeriesRow> rows;
  Axes axes(writer);
  std::vector<bool> written(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    if (written[i]) continue;
    SeriesRow& row = rows.emplace_back(row_from(all, i, layout, written));
    row.axis = TPT_TRY(axes.number_of(all[i].times));
    TPT_TRY(write_values(writer, all, row));
    for (int64_t device = 0; device < row.devices; ++device)
      written[row.place_of(device)] = true;
  }
  TPT_TRY(write_rows(database, "series", nullptr, rows));
  return true;
}

Result<bool> read_series(const Database& database, ColumnReader& reader, std::vector<Series>& all) {
  const std::vector<SeriesRow> rows = TPT_TRY(read_series_rows(database));
  const int64_t count = sum_of(rows, &SeriesRow::devices);
  std::map<int64_t, Times> axes;
  std::vector<std::vector<Series>> of_rows;
  for (const SeriesRow& row : rows) {
    if (axes.count(row.axis) == 0) axes[row.axis] = TPT_TRY(read_axis(database, reader, row.axis));
    of_rows.push_back(TPT_TRY(read_values(database, reader, row, axes[row.axis])));
  }
  // Places count only where a row has several devices; else rows are in the order of their ids.
  const bool has_places = count > static_cast<int64_t>(rows.size());
  all.resize(as_size(count));
  std::vector<bool> taken(all.size(), false);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t device = 0; device < of_rows[i].size(); ++device) {
      const size_t place = has_places ? rows[i].place_of(static_cast<int64_t>(device)) : i;
      if (place >= all.size() || taken[place])
        return damaged(database, "its series do not fill their places one by one");
      taken[place] = true;
      all[place] = std::move(of_rows[i][device]);
    }
  return true;
}

template <>
inline constexpr std::tuple fields_of<Pattern>{Field{"name", &Pattern::name}};
template <>
inline constexpr std::tuple fields_of<PieceRow>{
    Field{"pattern", &PieceRow::pattern}, Field{"repeat", &PieceRow::repeat},
    Field{"length_s", &PieceRow::length}, Field{"first_layer", &PieceRow::first_layer},
    Field{"spans", &PieceRow::spans}};

namespace {

Result<bool> write_patterns(const Database& database, ColumnWriter& writer,
                            const std::vector<Pattern>& patterns) {
  std::vector<PieceRow> pieces;
  std::vector<Span> spans;
  for (size_t i = 0; i < patterns.size(); ++i)
    for (const PatternPiece& piece : patterns[i].pieces) {
      pieces.push_back({static_cast<int64_t>(i), piece.repeat, piece.length, piece.first_layer,
                        static_cast<int64_t>(piece.spans.size())});
      spans.insert(spans.end(), piece.spans.begin(), piece.spans.end());
    }
  TPT_TRY(write_rows(database, "pattern", "id", patterns));
  TPT_TRY(write_rows(database, "piece", "id", pieces));
  TPT_TRY(write_items(writer, "piece_span", spans));
  return true;
}

/// Whether its length and repetitions are possible.
bool is_possible_piece(const PieceRow& piece) {
  constexpr double longest_s = 1e9;
  constexpr int32_t most_repetitions = 1 << 20;
  const double length = piece.length / unit::s, total = piece.repeat * length;
  return piece.repeat >= 0 && piece.repeat <= most_repetitions && total >= 0 && total < longest_s &&
         length < longest_s;
}

Result<bool> read_patterns(const Database& database, ColumnReader& reader,
                           std::vector<Pattern>& patterns) {
  patterns = TPT_TRY(read_rows<Pattern>(database, "pattern", "id"));
  const std::vector<Span> spans = TPT_TRY(read_items<Span>(reader, "piece_span"));
  size_t used = 0;
  for (const PieceRow& row : TPT_TRY(read_rows<PieceRow>(database, "piece", "id"))) {
    if (row.pattern < 0 || row.pattern >= static_cast<int64_t>(patterns.size()) || row.spans < 0 ||
        row.spans > static_cast<int64_t>(spans.size() - used))
      return damaged(database, "a pattern's spans are missing");
    if (!is_possible_piece(row)) return damaged(database, "a pattern has an impossible length");
    const auto first = spans.begin() + static_cast<std::ptrdiff_t>(used);
    patterns[as_size(row.pattern)].pieces.push_back({.spans = {first, first + row.spans},
                                                     .repeat = row.repeat,
                                                     .length = row.length,
                                                     .first_layer = row.first_layer});
    used += as_size(row.spans);
  }
  return true;
}

}  // namespace

Result<bool> write_timeline(const Database& database, ColumnWriter& writer,
                            const Timeline& timeline) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO manifest VALUES(?,?)"));
  TPT_TRY(insert_row(insert, "num_ranks", timeline.num_ranks));
  TPT_TRY(insert_row(insert, "kernel_names", timeline.names));
  TPT_TRY(write_rows(database, "span_type", "id", timeline.types));
  TPT_TRY(write_items(writer, "span", timeline.spans));
  TPT_TRY(write_patterns(database, writer, timeline.patterns));
  TPT_TRY(write_items(writer, "instance", timeline.instances));
  return write_timeline_details(database, writer, timeline);
}

Result<bool> write_spans(ColumnWriter& writer, const std::vector<Span>& spans) {
  TPT_TRY(write_items(writer, "span", spans));
  return true;
}

Result<bool> read_timeline(const Database& database, ColumnReader& reader, Timeline& timeline) {
  const int64_t ranks = TPT_TRY(database.ask("SELECT value FROM manifest WHERE key = 'num_ranks'"));
  constexpr int64_t most_ranks = 1 << 20;
  if (ranks < 0 || ranks > most_ranks)
    return damaged(database, "the number of ranks is impossible");
  timeline.num_ranks = static_cast<int32_t>(ranks);
  const int64_t names =
      TPT_TRY(database.ask("SELECT value FROM manifest WHERE key = 'kernel_names'"));
  timeline.names = names == 1 ? NameKind::kernels : NameKind::ops;
  timeline.types = TPT_TRY(read_rows<SpanType>(database, "span_type", "id"));
  timeline.spans = TPT_TRY(read_items<Span>(reader, "span"));
  TPT_TRY(read_patterns(database, reader, timeline.patterns));
  timeline.instances = TPT_TRY(read_items<PatternInstance>(reader, "instance"));
  TPT_TRY(read_timeline_details(database, reader, timeline));
  // A recorder writes spans as they end.
  if (!std::ranges::is_sorted(timeline.spans, by_rank_and_begin)) sort(timeline);
  if (const auto fault = find_fault(timeline)) return damaged(database, *fault);
  return true;
}

Result<bool> write_timeline_details(const Database& database, ColumnWriter& writer,
                                    const Timeline& timeline) {
  TPT_TRY(write_rows(database, "lane", "id", timeline.lanes));
  TPT_TRY(write_rows(database, "communicator", "id", timeline.communicators));
  for (size_t i = 0; i < timeline.communicators.size(); ++i) {
    const std::vector<int32_t>& of = timeline.communicators[i].ranks;
    const std::vector<int64_t> ranks(of.begin(), of.end());
    TPT_TRY(writer.write({"communicator", static_cast<int64_t>(i), "rank"}, std::span(ranks)));
  }
  TPT_TRY(write_items(writer, "detail", timeline.details));
  return true;
}

Result<bool> read_timeline_details(const Database& database, ColumnReader& reader,
                                   Timeline& timeline) {
  timeline.lanes = TPT_TRY(read_rows<Lane>(database, "lane", "id"));
  timeline.communicators = TPT_TRY(read_rows<Communicator>(database, "communicator", "id"));
  for (size_t i = 0; i < timeline.communicators.size(); ++i)
    for (const int64_t rank :
         TPT_TRY(reader.read<int64_t>({"communicator", static_cast<int64_t>(i), "rank"})))
      if (!set_number(timeline.communicators[i].ranks.emplace_back(), rank))
        return damaged(database, "a communicator has an impossible rank");
  timeline.details = TPT_TRY(read_items<SpanDetail>(reader, "detail"));
  return true;
}

}  // namespace triplepoint::run
