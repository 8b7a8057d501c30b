// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {
namespace {

tl::unexpected<Error> damaged(const Database& database, std::string_view why) {
  return error(
      fmt::format("{} is damaged ({}); try the copy it was made from", database.name(), why));
}

/// Time axes, each stored once: a sampler reads many signals at one tick.
class Axes {
 public:
  explicit Axes(ColumnWriter& writer) : writer_(writer) {}

  Result<int64_t> number_of(const std::vector<Instant>& times) {
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
    bool operator()(const std::vector<Instant>* a, const std::vector<Instant>* b) const {
      if (a == b) return false;
      if (a->size() != b->size()) return a->size() < b->size();
      return *a < *b;
    }
  };
  ColumnWriter& writer_;
  std::map<const std::vector<Instant>*, int64_t, ByContent> numbers_;
};

Result<std::vector<Instant>> read_axis(ColumnReader& reader, int64_t number,
                                       const std::string& file) {
  std::vector<Instant> times;
  for (int64_t t : TPT_TRY(reader.integers({"axis", number, "time_ns"})))
    if (!set_instant(times.emplace_back(), t) ||
        (times.size() > 1 && times.back() < times[times.size() - 2]))
      return error(fmt::format(
          "{} is damaged (time stamps go backwards); try the copy it was made from", file));
  return times;
}

/// Series of one signal of devices that follow each other, at the same times: one column.
struct SeriesRow {
  Series series;  // of the first device, without values
  int64_t id = 0, axis = 0;
  int64_t devices = 1,
          stride = 1;  // `stride`: from one device's place in the run to the next one's
  size_t place_of(int64_t device) const { return static_cast<size_t>(id + device * stride); }
};

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
  SeriesRow row{.series = {.signal = first.signal,
                           .device = first.device,
                           .of_node = first.of_node,
                           .times = {},
                           .values = {}},
                .id = static_cast<int64_t>(place)};
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

/// Files of before hold each series for itself.
Result<std::vector<SeriesRow>> read_rows(const Database& database) {
  const bool has_devices =
      TPT_TRY(database.ask(
          "SELECT count(*) FROM pragma_table_info('series') WHERE name = 'devices'")) > 0;
  Statement row = TPT_TRY(database.prepare(
      has_devices
          ? "SELECT id, signal, device, of_node, axis, devices, stride FROM series ORDER BY id"
          : "SELECT id, signal, device, of_node, axis, 1, 1 FROM series ORDER BY id"));
  constexpr int64_t most = 1 << 24;
  std::vector<SeriesRow> rows;
  while (TPT_TRY(row.next())) {
    SeriesRow& read = rows.emplace_back();
    read.id = row.integer(0);
    read.series.signal = row.text(1);
    read.series.of_node = row.integer(3) != 0;
    read.axis = row.integer(4);
    read.devices = row.integer(5);
    read.stride = row.integer(6);
    int32_t last = 0;
    if (!set_narrow(read.series.device, row.integer(2)) || read.devices < 1 || read.stride < 1 ||
        read.devices > most || read.stride > most ||
        (read.devices > 1 && (read.id < 0 || read.id > most)) ||
        !set_narrow(last, read.series.device + read.devices))
      return damaged(database,
                     fmt::format("series \"{}\" is of no possible devices", read.series.signal));
  }
  return rows;
}

/// Cuts the values of a row into the series of its devices.
Result<std::vector<Series>> read_values(const Database& database, ColumnReader& reader,
                                        const SeriesRow& row) {
  std::vector<double> values = TPT_TRY(reader.doubles({"series", row.id, "value"}));
  const size_t times = row.series.times.size(), devices = static_cast<size_t>(row.devices);
  if (values.size() != times * devices || (devices > 1 && times == 0))
    return damaged(database, fmt::format("series \"{}\" has {} values at {} times",
                                         row.series.signal, values.size(), times));
  std::vector<Series> own(devices, row.series);
  for (size_t device = 0; device < devices; ++device) {
    own[device].device = row.series.device + static_cast<int32_t>(device);
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(device * times);
    if (devices > 1) own[device].values.assign(begin, begin + static_cast<std::ptrdiff_t>(times));
  }
  if (devices == 1) own.front().values = std::move(values);
  return own;
}

}  // namespace

Result<bool> write_series(const Database& database, ColumnWriter& writer,
                          const std::vector<Series>& all, Layout layout) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO series VALUES(?,?,?,?,?,?,?)"));
  Axes axes(writer);
  std::vector<bool> written(all.size(), false);
  for (size_t i = 0; i < all.size(); ++i) {
    if (written[i]) continue;
    const SeriesRow row = row_from(all, i, layout, written);
    const int64_t axis = TPT_TRY(axes.number_of(all[i].times));
    TPT_TRY(insert.bind(row.id)
                .bind(std::string_view(row.series.signal))
                .bind(int64_t{row.series.device})
                .bind(int64_t{row.series.of_node ? 1 : 0})
                .bind(axis)
                .bind(row.devices)
                .bind(row.stride)
                .run());
    TPT_TRY(write_values(writer, all, row));
    for (int64_t device = 0; device < row.devices; ++device)
      written[row.place_of(device)] = true;
  }
  return true;
}

Result<bool> read_series(const Database& database, ColumnReader& reader, std::vector<Series>& all) {
  std::vector<SeriesRow> rows = TPT_TRY(read_rows(database));
  int64_t count = 0;
  for (const SeriesRow& row : rows)
    count += row.devices;
  std::map<int64_t, std::vector<Instant>> axes;
  std::vector<std::vector<Series>> of_rows;
  for (SeriesRow& row : rows) {
    if (axes.count(row.axis) == 0)
      axes[row.axis] = TPT_TRY(read_axis(reader, row.axis, database.name()));
    row.series.times = axes[row.axis];
    of_rows.push_back(TPT_TRY(read_values(database, reader, row)));
    row.series.times = {};
  }
  // Places count only where a row has several devices; else rows are in the order of their ids.
  const bool has_places = count > static_cast<int64_t>(rows.size());
  all.resize(static_cast<size_t>(count));
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

namespace {

// clang-format off
const std::array<IntegerField<Span>, 7> span_integers = {{
    {"begin_ns", [](const Span& s) { return s.begin.nanoseconds(); }, [](Span& s, int64_t v) { return set_instant(s.begin, v); }},
    {"length_ns", [](const Span& s) { return s.end.nanoseconds() - s.begin.nanoseconds(); },
     [](Span& s, int64_t v) { return v >= 0 && v < farthest_nanoseconds && set_instant(s.end, s.begin.nanoseconds() + v); }},
    {"type", [](const Span& s) { return int64_t{s.type}; }, [](Span& s, int64_t v) { return set_narrow(s.type, v); }},
    {"rank", [](const Span& s) { return int64_t{s.rank}; }, [](Span& s, int64_t v) { return set_narrow(s.rank, v); }},
    {"stage", [](const Span& s) { return int64_t{s.stage}; }, [](Span& s, int64_t v) { return set_narrow(s.stage, v); }},
    {"microbatch", [](const Span& s) { return int64_t{s.microbatch}; }, [](Span& s, int64_t v) { return set_narrow(s.microbatch, v); }},
    {"layer", [](const Span& s) { return int64_t{s.layer}; }, [](Span& s, int64_t v) { return set_narrow(s.layer, v); }}}};
const std::array<DoubleField<Span>, 3> span_doubles = {{
    {"wait_s", [](const Span& s) { return s.wait.in_base_units(); }, [](Span& s, double v) { s.wait = Seconds(v); }},
    {"bytes", [](const Span& s) { return s.bytes.in_base_units(); }, [](Span& s, double v) { s.bytes = Bytes(v); }},
    {"flops", [](const Span& s) { return s.flops.in_base_units(); }, [](Span& s, double v) { s.flops = Flops(v); }}}};
const std::array<IntegerField<PatternInstance>, 5> instance_integers = {{
    {"begin_ns", [](const PatternInstance& i) { return i.begin.nanoseconds(); },
     [](PatternInstance& i, int64_t v) { return set_instant(i.begin, v); }},
    {"pattern", [](const PatternInstance& i) { return int64_t{i.pattern}; },
     [](PatternInstance& i, int64_t v) { return set_narrow(i.pattern, v); }},
    {"rank", [](const PatternInstance& i) { return int64_t{i.rank}; },
     [](PatternInstance& i, int64_t v) { return set_narrow(i.rank, v); }},
    {"stage", [](const PatternInstance& i) { return int64_t{i.stage}; },
     [](PatternInstance& i, int64_t v) { return set_narrow(i.stage, v); }},
    {"microbatch", [](const PatternInstance& i) { return int64_t{i.microbatch}; },
     [](PatternInstance& i, int64_t v) { return set_narrow(i.microbatch, v); }}}};
// clang-format on
const std::array<DoubleField<PatternInstance>, 0> no_doubles = {};

template <class Enum>
std::optional<int64_t> number_of(const std::optional<Enum>& value) {
  if (!value) return std::nullopt;
  return static_cast<int64_t>(*value);
}

Result<bool> write_types(const Database& database, const std::vector<SpanType>& types) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO span_type VALUES(?,?,?,?,?,?,?)"));
  for (size_t i = 0; i < types.size(); ++i)
    TPT_TRY(insert.bind(static_cast<int64_t>(i))
                .bind(std::string_view(types[i].name))
                .bind(static_cast<int64_t>(types[i].kind))
                .bind(static_cast<int64_t>(types[i].stream))
                .bind(static_cast<int64_t>(types[i].op_class))
                .bind(number_of(types[i].collective))
                .bind(number_of(types[i].group))
                .run());
  return true;
}

Result<bool> write_patterns(const Database& database, ColumnWriter& writer,
                            const std::vector<Pattern>& patterns) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO pattern VALUES(?,?)"));
  Statement insert_piece = TPT_TRY(database.prepare("INSERT INTO piece VALUES(NULL,?,?,?,?,?)"));
  std::vector<Span> spans;
  for (size_t i = 0; i < patterns.size(); ++i) {
    TPT_TRY(insert.bind(static_cast<int64_t>(i)).bind(std::string_view(patterns[i].name)).run());
    for (const PatternPiece& piece : patterns[i].pieces) {
      TPT_TRY(insert_piece.bind(static_cast<int64_t>(i))
                  .bind(int64_t{piece.repeat})
                  .bind(piece.length.in_base_units())
                  .bind(int64_t{piece.first_layer})
                  .bind(static_cast<int64_t>(piece.spans.size()))
                  .run());
      spans.insert(spans.end(), piece.spans.begin(), piece.spans.end());
    }
  }
  return write_items(writer, "piece_span", spans, span_integers, span_doubles);
}

/// An enumerator of an enum that counts from 0 to `count` - 1.
template <class Enum>
bool set_enum(Enum& target, int64_t number, int64_t count) {
  target = static_cast<Enum>(number);
  return number >= 0 && number < count;
}

Result<bool> read_types(const Database& database, std::vector<SpanType>& types) {
  Statement row = TPT_TRY(database.prepare(
      "SELECT name, kind, stream, op_class, collective, group_kind FROM span_type ORDER BY id"));
  while (TPT_TRY(row.next())) {
    SpanType type{.name = row.text(0)};
    bool known = set_enum(type.kind, row.integer(1), span_kind_count) &&
                 set_enum(type.stream, row.integer(2), 3) &&
                 set_enum(type.op_class, row.integer(3), spec::op_class_count);
    if (const auto number = row.integer_or_nothing(4))
      known = set_enum(type.collective.emplace(), *number, spec::collective_count) && known;
    if (const auto number = row.integer_or_nothing(5))
      known = set_enum(type.group.emplace(), *number, spec::group_kind_count) && known;
    if (!known) return damaged(database, "a span type is of no known kind");
    types.push_back(std::move(type));
  }
  return true;
}

bool is_sorted_by_rank_and_begin(const std::vector<Span>& spans) {
  return std::is_sorted(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.rank, a.begin) < std::pair(b.rank, b.begin);
  });
}

/// A piece whose length and repetitions are possible.
Result<PatternPiece> read_piece(const Database& database, const Statement& row) {
  constexpr double longest_s = 1e9;
  constexpr int32_t most_repetitions = 1 << 20;
  PatternPiece piece;
  piece.length = Seconds(row.real(2));
  const bool whole = set_narrow(piece.repeat, row.integer(1)) &&
                     set_narrow(piece.first_layer, row.integer(3)) && piece.repeat >= 0 &&
                     piece.repeat <= most_repetitions;
  const double total = piece.repeat * (piece.length / unit::s);
  if (!whole || !(total >= 0 && total < longest_s) || !(piece.length / unit::s < longest_s))
    return damaged(database, "a pattern has an impossible length");
  return piece;
}

Result<bool> read_patterns(const Database& database, ColumnReader& reader,
                           std::vector<Pattern>& patterns) {
  Statement pattern = TPT_TRY(database.prepare("SELECT name FROM pattern ORDER BY id"));
  while (TPT_TRY(pattern.next()))
    patterns.push_back({.name = pattern.text(0)});
  const std::vector<Span> spans =
      TPT_TRY(read_items<Span>(reader, "piece_span", span_integers, span_doubles));
  size_t used = 0;
  Statement row = TPT_TRY(database.prepare(
      "SELECT pattern, repeat, length_s, first_layer, spans FROM piece ORDER BY id"));
  while (TPT_TRY(row.next())) {
    const int64_t owner = row.integer(0), count = row.integer(4);
    if (owner < 0 || owner >= static_cast<int64_t>(patterns.size()) || count < 0 ||
        count > static_cast<int64_t>(spans.size() - used))
      return damaged(database, "a pattern's spans are missing");
    PatternPiece piece = TPT_TRY(read_piece(database, row));
    const auto first = spans.begin() + static_cast<std::ptrdiff_t>(used);
    piece.spans.assign(first, first + count);
    used += static_cast<size_t>(count);
    patterns[static_cast<size_t>(owner)].pieces.push_back(std::move(piece));
  }
  return true;
}

}  // namespace

Result<bool> write_timeline(const Database& database, ColumnWriter& writer,
                            const Timeline& timeline) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO manifest VALUES(?,?)"));
  TPT_TRY(insert.bind(std::string_view("num_ranks")).bind(int64_t{timeline.num_ranks}).run());
  TPT_TRY(insert.bind(std::string_view("kernel_names"))
              .bind(static_cast<int64_t>(timeline.names))
              .run());
  TPT_TRY(write_types(database, timeline.types));
  TPT_TRY(write_items(writer, "span", timeline.spans, span_integers, span_doubles));
  TPT_TRY(write_patterns(database, writer, timeline.patterns));
  TPT_TRY(write_items(writer, "instance", timeline.instances, instance_integers, no_doubles));
  return write_timeline_details(database, writer, timeline);
}

Result<bool> write_spans(ColumnWriter& writer, const std::vector<Span>& spans) {
  return write_items(writer, "span", spans, span_integers, span_doubles);
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
  TPT_TRY(read_types(database, timeline.types));
  timeline.spans = TPT_TRY(read_items<Span>(reader, "span", span_integers, span_doubles));
  TPT_TRY(read_patterns(database, reader, timeline.patterns));
  timeline.instances =
      TPT_TRY(read_items<PatternInstance>(reader, "instance", instance_integers, no_doubles));
  TPT_TRY(read_timeline_details(database, reader, timeline));
  // A recorder writes spans as they end.
  if (!is_sorted_by_rank_and_begin(timeline.spans)) sort(timeline);
  if (const auto fault = find_fault(timeline)) return damaged(database, *fault);
  return true;
}

namespace {

// clang-format off
const std::array<IntegerField<SpanDetail>, 8> detail_integers = {{
    {"lane", [](const SpanDetail& d) { return int64_t{d.lane}; }, [](SpanDetail& d, int64_t v) { return set_narrow(d.lane, v); }},
    {"communicator", [](const SpanDetail& d) { return int64_t{d.communicator}; },
     [](SpanDetail& d, int64_t v) { return set_narrow(d.communicator, v); }},
    {"sequence", [](const SpanDetail& d) { return d.sequence; }, [](SpanDetail& d, int64_t v) { d.sequence = v; return true; }},
    {"correlation", [](const SpanDetail& d) { return d.correlation; }, [](SpanDetail& d, int64_t v) { d.correlation = v; return true; }},
    {"blocks", [](const SpanDetail& d) { return d.blocks; }, [](SpanDetail& d, int64_t v) { d.blocks = v; return true; }},
    {"threads_per_block", [](const SpanDetail& d) { return int64_t{d.threads_per_block}; },
     [](SpanDetail& d, int64_t v) { return set_narrow(d.threads_per_block, v); }},
    {"in_elements", [](const SpanDetail& d) { return d.in_elements; }, [](SpanDetail& d, int64_t v) { d.in_elements = v; return true; }},
    {"out_elements", [](const SpanDetail& d) { return d.out_elements; }, [](SpanDetail& d, int64_t v) { d.out_elements = v; return true; }}}};
const std::array<DoubleField<SpanDetail>, 1> detail_doubles = {{
    {"occupancy", [](const SpanDetail& d) { return double{d.occupancy}; },
     [](SpanDetail& d, double v) { d.occupancy = static_cast<float>(v); }}}};
// clang-format on

/// Runs of before there were such tables have none.
Result<bool> has_table(const Database& database, const char* name) {
  const std::string question =
      fmt::format("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '{}'", name);
  return TPT_TRY(database.ask(question.c_str())) > 0;
}

Result<bool> write_lanes(const Database& database, const std::vector<Lane>& lanes) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO lane VALUES(?,?,?,?,?)"));
  for (size_t i = 0; i < lanes.size(); ++i)
    TPT_TRY(insert.bind(static_cast<int64_t>(i))
                .bind(int64_t{lanes[i].rank})
                .bind(static_cast<int64_t>(lanes[i].stream))
                .bind(lanes[i].number)
                .bind(std::string_view(lanes[i].name))
                .run());
  return true;
}

Result<bool> read_lanes(const Database& database, std::vector<Lane>& lanes) {
  if (!TPT_TRY(has_table(database, "lane"))) return true;
  Statement row =
      TPT_TRY(database.prepare("SELECT rank, stream, number, name FROM lane ORDER BY id"));
  while (TPT_TRY(row.next())) {
    const int64_t stream = row.integer(1);
    Lane lane{.number = row.integer(2), .name = row.text(3)};
    if (!set_narrow(lane.rank, row.integer(0)) || stream < 0 ||
        stream > static_cast<int64_t>(Stream::host))
      return damaged(database, "a lane is of no known kind");
    lane.stream = static_cast<Stream>(stream);
    lanes.push_back(std::move(lane));
  }
  return true;
}

Result<bool> write_communicators(const Database& database, ColumnWriter& writer,
                                 const std::vector<Communicator>& communicators) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO communicator VALUES(?,?,?,?,?)"));
  for (size_t i = 0; i < communicators.size(); ++i) {
    const auto id = static_cast<int64_t>(i);
    TPT_TRY(insert.bind(id)
                .bind(std::string_view(communicators[i].name))
                .bind(int64_t{communicators[i].size})
                .bind(static_cast<int64_t>(communicators[i].end))
                .bind(int64_t{communicators[i].peer})
                .run());
    const std::vector<int64_t> ranks(communicators[i].ranks.begin(), communicators[i].ranks.end());
    TPT_TRY(writer.write({"communicator", id, "rank"}, std::span<const int64_t>(ranks)));
  }
  return true;
}

Result<bool> read_communicators(const Database& database, ColumnReader& reader,
                                std::vector<Communicator>& communicators) {
  if (!TPT_TRY(has_table(database, "communicator"))) return true;
  const bool has_messages =
      TPT_TRY(database.ask("SELECT count(*) FROM pragma_table_info('communicator') "
                           "WHERE name = 'peer'")) > 0;
  Statement row = TPT_TRY(database.prepare(
      has_messages ? "SELECT name, size, message_end, peer FROM communicator ORDER BY id"
                   : "SELECT name, size, 0, -1 FROM communicator ORDER BY id"));
  while (TPT_TRY(row.next())) {
    const auto id = static_cast<int64_t>(communicators.size());
    Communicator communicator{.name = row.text(0)};
    const int64_t end = row.integer(2);
    bool sound = set_narrow(communicator.size, row.integer(1)) &&
                 set_narrow(communicator.peer, row.integer(3)) && end >= 0 &&
                 end <= static_cast<int64_t>(MessageEnd::receiver);
    communicator.end = sound ? static_cast<MessageEnd>(end) : MessageEnd::none;
    for (const int64_t rank : TPT_TRY(reader.integers({"communicator", id, "rank"})))
      sound = set_narrow(communicator.ranks.emplace_back(), rank) && sound;
    if (!sound) return damaged(database, "a communicator has an impossible rank or size");
    communicators.push_back(std::move(communicator));
  }
  return true;
}

}  // namespace

Result<bool> write_timeline_details(const Database& database, ColumnWriter& writer,
                                    const Timeline& timeline) {
  TPT_TRY(write_lanes(database, timeline.lanes));
  TPT_TRY(write_communicators(database, writer, timeline.communicators));
  return write_items(writer, "detail", timeline.details, detail_integers, detail_doubles);
}

Result<bool> read_timeline_details(const Database& database, ColumnReader& reader,
                                   Timeline& timeline) {
  TPT_TRY(read_lanes(database, timeline.lanes));
  TPT_TRY(read_communicators(database, reader, timeline.communicators));
  timeline.details =
      TPT_TRY(read_items<SpanDetail>(reader, "detail", detail_integers, detail_doubles));
  return true;
}

}  // namespace triplepoint::run
