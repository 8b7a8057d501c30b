// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "triplepoint/run/store_tables.h"
#include "triplepoint/run/store_timeline.h"

namespace triplepoint::run {

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

tl::unexpected<Error> damaged(const Database& database, std::string_view why) {
  return error(
      fmt::format("{} is damaged ({}); try the copy it was made from", database.name(), why));
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
