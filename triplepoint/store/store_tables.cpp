// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/store_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>

namespace triplepoint::run {

tl::unexpected<Error> damaged(const Database& database, std::string_view why) {
  return error("{} is damaged ({}); try the copy it was made from", database.name(), why);
}

Result<std::set<std::string>> columns_of(const Database& database, const char* table) {
  Statement row = TPT_TRY(database.prepare("SELECT name FROM pragma_table_info(?)"));
  row.bind(std::string_view(table));
  std::set<std::string> names;
  while (TPT_TRY(row.next()))
    names.insert(row.text(0));
  return names;
}

namespace {

/// Of a bottleneck its first evidence; its devices are rows of another table.
struct BottleneckRow {
  int64_t part = 0;
  bool of_nodes = false;
  double value = 0, peers = 0;
  Seconds cost;
};
struct WhoRow {
  int64_t position = 0, place = 0;
  int32_t number = 0;
};

struct CoreWaitRow {
  int32_t rank = 0;
  Seconds wait;
};

}  // namespace

template <>
inline constexpr std::tuple fields_of<BottleneckRow>{
    Field{"part", &BottleneckRow::part}, Field{"of_nodes", &BottleneckRow::of_nodes},
    Field{"value", &BottleneckRow::value}, Field{"peers", &BottleneckRow::peers},
    Field{"cost_s", &BottleneckRow::cost}};
template <>
inline constexpr std::tuple fields_of<WhoRow>{Field{"position", &WhoRow::position},
                                              Field{"place", &WhoRow::place},
                                              Field{"number", &WhoRow::number}};
template <>
inline constexpr std::tuple fields_of<CoreWaitRow>{Field{"rank", &CoreWaitRow::rank},
                                                   Field{"wait_s", &CoreWaitRow::wait}};

Result<bool> write_bottlenecks(const Database& database, const Run& run) {
  std::vector<BottleneckRow> rows;
  std::vector<WhoRow> all;
  for (const Bottleneck& bottleneck : run.bottlenecks) {
    const Evidence& part = bottleneck.evidence.front();
    for (size_t place = 0; place < bottleneck.who.size(); ++place)
      all.push_back(
          {static_cast<int64_t>(rows.size()), static_cast<int64_t>(place), bottleneck.who[place]});
    rows.push_back({static_cast<int64_t>(part.kind), bottleneck.of == Bottleneck::Of::node,
                    part.value, part.peers, *bottleneck.cost});
  }
  TPT_TRY(write_rows(database, "bottleneck", "position", rows));
  TPT_TRY(write_rows(database, "bottleneck_who", nullptr, all));
  return true;
}

Result<bool> read_bottlenecks(const Database& database, Run& run) {
  for (const BottleneckRow& row :
       TPT_TRY(read_rows<BottleneckRow>(database, "bottleneck", "position"))) {
    if (row.part < 0 || row.part > static_cast<int64_t>(Evidence::Kind::host))
      return damaged(database, "a bottleneck is of no known kind");
    run.bottlenecks.push_back(
        {.of = row.of_nodes ? Bottleneck::Of::node : Bottleneck::Of::gpu,
         .evidence = {{static_cast<Evidence::Kind>(row.part), row.value, row.peers}},
         .cost = row.cost});
  }
  for (const WhoRow& who :
       TPT_TRY(read_rows<WhoRow>(database, "bottleneck_who", "position, place"))) {
    if (who.position < 0 || who.position >= static_cast<int64_t>(run.bottlenecks.size()) ||
        who.number < 0)
      return damaged(database, "a bottleneck is no device");
    run.bottlenecks[as_size(who.position)].who.push_back(who.number);
  }
  return true;
}

namespace {

constexpr const char* throttle_share = "throttle";
constexpr const char* energy_share = "energy_j";

int64_t wide(size_t position) {
  return static_cast<int64_t>(position);
}

Result<bool> write_shares(const Database& database, const std::vector<DeviceSummary>& all) {
  Statement share = TPT_TRY(database.prepare("INSERT INTO summary_share VALUES(?,?,?,?)"));
  for (size_t i = 0; i < all.size(); ++i) {
    for (const auto& [name, value] : all[i].throttle)
      TPT_TRY(insert_row(share, i, throttle_share, name, value));
    for (const auto& [name, value] : all[i].energy_ledger_j)
      TPT_TRY(insert_row(share, i, energy_share, name, value));
  }
  return true;
}

Result<bool> read_shares(const Database& database, std::vector<DeviceSummary>& all) {
  Statement share =
      TPT_TRY(database.prepare("SELECT position, what, name, value FROM summary_share"));
  while (TPT_TRY(share.next())) {
    const int64_t position = share.integer(0);
    if (position < 0 || position >= wide(all.size())) continue;
    DeviceSummary& summary = all[as_size(position)];
    const std::string what = share.text(1);
    if (what == throttle_share) summary.throttle[share.text(2)] = share.real(3);
    if (what == energy_share) summary.energy_ledger_j[share.text(2)] = share.real(3);
  }
  return true;
}

constexpr std::array share_lists = {std::pair(throttle_share, &DeviceSummary::throttle),
                                    std::pair(energy_share, &DeviceSummary::energy_ledger_j)};

std::string text_of(const ColumnKey& key) {
  return fmt::format("{} {} {}", key.part, key.owner, key.name);
}

/// A chunk's header, from a row that begins with n, codec, decimals.
Chunk header_of(const Statement& row) {
  const int64_t codec = row.integer(1), decimals = row.integer(2);
  const bool known = codec >= 0 && codec <= 255 && decimals >= 0 && decimals <= 9;
  return {.count = known ? row.integer(0) : 0,
          .codec = static_cast<ChunkCodec>(codec & 255),
          .decimals = static_cast<int>(decimals & 15)};
}

}  // namespace

Result<bool> write_devices(const Database& database, const Run& run, Layout layout) {
  TPT_TRY(write_rows(database, "device", "position", run.devices));
  TPT_TRY(write_rows(database, "summary", "position", run.summaries));
  return layout == Layout::of_many_devices ? true : write_shares(database, run.summaries);
}

Result<bool> read_devices(const Database& database, Run& run) {
  run.devices = TPT_TRY(read_rows<Device>(database, "device", "position"));
  run.summaries = TPT_TRY(read_rows<DeviceSummary>(database, "summary", "position"));
  return read_shares(database, run.summaries);
}

Result<bool> write_steps(const Database& database, const Run& run) {
  TPT_TRY(write_rows(database, "step", "position", run.steps));
  TPT_TRY(write_rows(database, "memory", "stage", run.memory));
  std::vector<CoreWaitRow> waits;
  for (const auto& [rank, wait] : run.core_waits)
    waits.push_back({rank, wait});
  TPT_TRY(write_rows(database, "core_wait", nullptr, waits));
  return true;
}

Result<bool> read_steps(const Database& database, Run& run) {
  run.steps = TPT_TRY(read_rows<StepRecord>(database, "step", "position"));
  run.memory = TPT_TRY(read_rows<MemoryUse>(database, "memory", "stage"));
  for (const CoreWaitRow& row : TPT_TRY(read_rows<CoreWaitRow>(database, "core_wait", "rank")))
    run.core_waits[row.rank] = row.wait;
  return true;
}

Result<bool> write_share_columns(ColumnWriter& writer, const std::vector<DeviceSummary>& all) {
  for (size_t list = 0; list < share_lists.size(); ++list) {
    const auto member = share_lists[list].second;
    std::set<std::string> names;
    for (const DeviceSummary& summary : all)
      for (const auto& [name, value] : summary.*member)
        names.emplace(name);
    for (const std::string& name : names) {
      std::vector<double> column;
      for (const DeviceSummary& summary : all) {
        const auto found = (summary.*member).find(name);
        column.push_back(found == (summary.*member).end() ? std::numeric_limits<double>::quiet_NaN()
                                                          : found->second);
      }
      TPT_TRY(writer.write({"summary_share", wide(list), name}, std::span<const double>(column)));
    }
  }
  return true;
}

Result<bool> read_share_columns(const Database& database, ColumnReader& reader,
                                std::vector<DeviceSummary>& all) {
  Statement row = TPT_TRY(database.prepare(
      "SELECT DISTINCT owner, name FROM chunk WHERE part = 'summary_share' ORDER BY owner, name"));
  while (TPT_TRY(row.next())) {
    const int64_t list = row.integer(0);
    const std::string name = row.text(1);
    const std::vector<double> column = TPT_TRY(reader.read<double>({"summary_share", list, name}));
    if (list < 0 || list >= wide(share_lists.size()) || column.size() != all.size())
      return bad_column("summary_share", name.c_str());
    for (size_t i = 0; i < all.size(); ++i)
      if (!std::isnan(column[i])) (all[i].*share_lists[as_size(list)].second)[name] = column[i];
  }
  return true;
}

Result<ColumnWriter> ColumnWriter::create(const Database& database) {
  return ColumnWriter(TPT_TRY(database.prepare(
      "INSERT INTO chunk(part, owner, name, n, minimum, maximum, sum, codec, decimals, data) "
      "VALUES(?,?,?,?,?,?,?,?,?,?)")));
}

Result<bool> ColumnWriter::write_chunk(const ColumnKey& key, const Chunk& chunk) {
  return insert_.bind(key.part)
      .bind(key.owner)
      .bind(key.name)
      .bind(chunk.count)
      .bind(chunk.minimum)
      .bind(chunk.maximum)
      .bind(chunk.sum)
      .bind(static_cast<int64_t>(chunk.codec))
      .bind(static_cast<int64_t>(chunk.decimals))
      .bind_blob(chunk.data)
      .run();
}

template <class Number>
Result<bool> ColumnWriter::write_chunks(const ColumnKey& key, std::span<const Number> values) {
  for (size_t i = 0; i < values.size(); i += most_values_per_chunk) {
    const size_t count = std::min<size_t>(most_values_per_chunk, values.size() - i);
    TPT_TRY(write_chunk(key, encoder_.encode(values.subspan(i, count))));
  }
  return true;
}

Result<bool> ColumnWriter::write(const ColumnKey& key, std::span<const int64_t> values) {
  return write_chunks(key, values);
}
Result<bool> ColumnWriter::write(const ColumnKey& key, std::span<const double> values) {
  return write_chunks(key, values);
}

Result<ColumnReader> ColumnReader::create(const Database& database) {
  Statement list = TPT_TRY(database.prepare("SELECT id, part, owner, name FROM chunk ORDER BY id"));
  Statement select =
      TPT_TRY(database.prepare("SELECT n, codec, decimals, data FROM chunk WHERE id = ?"));
  ColumnReader reader(std::move(select), database.name());
  while (TPT_TRY(list.next())) {
    const std::string part = list.text(1), name = list.text(3);
    reader.chunks_[text_of({part, list.integer(2), name})].push_back(list.integer(0));
  }
  return reader;
}

template <class Number>
Result<std::vector<Number>> ColumnReader::read(const ColumnKey& key) {
  std::vector<Number> values;
  const auto chunks = chunks_.find(text_of(key));
  if (chunks == chunks_.end()) return values;
  for (int64_t id : chunks->second) {
    select_.reset();
    select_.bind(id);
    const bool found = TPT_TRY(select_.next());
    if (!found || !decode(header_of(select_), select_.blob(3), values))
      return error(
          "{} is damaged (a chunk of column \"{}\" does not decode); try the copy it was made from",
          file_, text_of(key));
  }
  return values;
}

template Result<std::vector<int64_t>> ColumnReader::read(const ColumnKey&);
template Result<std::vector<double>> ColumnReader::read(const ColumnKey&);

}  // namespace triplepoint::run
