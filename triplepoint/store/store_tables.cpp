// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/store_tables.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

namespace triplepoint::run {
namespace {

tl::unexpected<Error> damaged(const Database& database) {
  return error(fmt::format(
      "{} is damaged (a bottleneck is no device); try the copy it was made from", database.name()));
}

}  // namespace

Result<bool> write_bottlenecks(const Database& database, const Run& run) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO bottleneck VALUES(?,?,?,?,?,?)"));
  Statement who = TPT_TRY(database.prepare("INSERT INTO bottleneck_who VALUES(?,?,?)"));
  for (size_t i = 0; i < run.bottlenecks.size(); ++i) {
    const Bottleneck& bottleneck = run.bottlenecks[i];
    const Evidence& part = bottleneck.evidence.front();
    const auto position = static_cast<int64_t>(i);
    TPT_TRY(insert.bind(position)
                .bind(static_cast<int64_t>(part.kind))
                .bind(int64_t{bottleneck.of == Bottleneck::Of::node ? 1 : 0})
                .bind(part.value)
                .bind(part.peers)
                .bind(*bottleneck.cost / unit::s)
                .run());
    for (size_t place = 0; place < bottleneck.who.size(); ++place)
      TPT_TRY(who.bind(position)
                  .bind(static_cast<int64_t>(place))
                  .bind(int64_t{bottleneck.who[place]})
                  .run());
  }
  return true;
}

Result<bool> read_bottlenecks(const Database& database, Run& run) {
  if (TPT_TRY(database.ask("SELECT count(*) FROM sqlite_master WHERE name = 'bottleneck'")) == 0)
    return true;
  Statement row = TPT_TRY(database.prepare(
      "SELECT part, of_nodes, value, peers, cost_s FROM bottleneck ORDER BY position"));
  while (TPT_TRY(row.next())) {
    const int64_t part = row.integer(0);
    if (part < 0 || part > static_cast<int64_t>(Evidence::Kind::host)) return damaged(database);
    run.bottlenecks.push_back(
        {.of = row.integer(1) != 0 ? Bottleneck::Of::node : Bottleneck::Of::gpu,
         .evidence = {{static_cast<Evidence::Kind>(part), row.real(2), row.real(3)}},
         .cost = row.real(4) * unit::s});
  }
  Statement who = TPT_TRY(
      database.prepare("SELECT position, number FROM bottleneck_who ORDER BY position, place"));
  while (TPT_TRY(who.next())) {
    const int64_t position = who.integer(0);
    int32_t number = 0;
    if (position < 0 || position >= static_cast<int64_t>(run.bottlenecks.size()) ||
        !set_narrow(number, who.integer(1)) || number < 0)
      return damaged(database);
    run.bottlenecks[static_cast<size_t>(position)].who.push_back(number);
  }
  return true;
}

namespace {

/// The columns of the table `summary`, behind its position.
constexpr std::array summary_fields = {
    &DeviceSummary::power_mean_w,        &DeviceSummary::power_peak_w,
    &DeviceSummary::power_kernel_peak_w, &DeviceSummary::energy_j,
    &DeviceSummary::die_mean_c,          &DeviceSummary::die_peak_c,
    &DeviceSummary::sm_clock_mean_mhz,   &DeviceSummary::sm_clock_min_mhz,
    &DeviceSummary::scale_up_bytes,      &DeviceSummary::scale_out_bytes};

constexpr const char* throttle_share = "throttle";
constexpr const char* energy_share = "energy_j";

/// The columns of the table `memory`, behind its stage.
constexpr std::array memory_fields = {
    &MemoryUse::weights, &MemoryUse::gradients, &MemoryUse::optimizer, &MemoryUse::activations,
    &MemoryUse::logits,  &MemoryUse::buffers,   &MemoryUse::reserve};

int64_t wide(size_t position) {
  return static_cast<int64_t>(position);
}

/// An INTEGER cell where ours has 32 bits. What does not fit was not written by us.
Result<int32_t> narrow(const Statement& row, int column, const Database& database) {
  const int64_t value = row.integer(column);
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max())
    return error(
        fmt::format("{} is damaged (a number of {} is out of range); try the copy it was "
                    "made from",
                    database.name(), value));
  return static_cast<int32_t>(value);
}

Result<bool> write_shares(Statement& insert, size_t position, std::string_view what,
                          const std::map<std::string, double>& shares) {
  for (const auto& [name, value] : shares)
    TPT_TRY(insert.bind(wide(position)).bind(what).bind(std::string_view(name)).bind(value).run());
  return true;
}

Result<bool> write_summaries(const Database& database, const std::vector<DeviceSummary>& all,
                             Layout layout) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO summary VALUES(?,?,?,?,?,?,?,?,?,?,?)"));
  Statement share = TPT_TRY(database.prepare("INSERT INTO summary_share VALUES(?,?,?,?)"));
  for (size_t i = 0; i < all.size(); ++i) {
    insert.bind(wide(i));
    for (auto field : summary_fields)
      insert.bind(all[i].*field);
    TPT_TRY(insert.run());
    if (layout == Layout::of_many_devices) continue;
    TPT_TRY(write_shares(share, i, throttle_share, all[i].throttle));
    TPT_TRY(write_shares(share, i, energy_share, all[i].energy_ledger_j));
  }
  return true;
}

Result<bool> read_summaries(const Database& database, std::vector<DeviceSummary>& all) {
  Statement row = TPT_TRY(database.prepare("SELECT * FROM summary ORDER BY position"));
  while (TPT_TRY(row.next())) {
    DeviceSummary summary;
    for (size_t i = 0; i < summary_fields.size(); ++i)
      summary.*summary_fields[i] = row.real_or_nothing(static_cast<int>(i) + 1);
    all.push_back(std::move(summary));
  }
  Statement share =
      TPT_TRY(database.prepare("SELECT position, what, name, value FROM summary_share"));
  while (TPT_TRY(share.next())) {
    const int64_t position = share.integer(0);
    if (position < 0 || position >= wide(all.size())) continue;
    DeviceSummary& summary = all[static_cast<size_t>(position)];
    const std::string what = share.text(1);
    if (what == throttle_share) summary.throttle[share.text(2)] = share.real(3);
    if (what == energy_share) summary.energy_ledger_j[share.text(2)] = share.real(3);
  }
  return true;
}

}  // namespace

Result<bool> write_devices(const Database& database, const Run& run, Layout layout) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO device VALUES(?,?,?,?,?,?,?,?,?)"));
  for (size_t i = 0; i < run.devices.size(); ++i) {
    const Device& device = run.devices[i];
    const std::optional<int64_t> rank = device.rank;
    TPT_TRY(insert.bind(wide(i))
                .bind(int64_t{device.index})
                .bind(int64_t{device.node})
                .bind(int64_t{device.local})
                .bind(int64_t{device.slot})
                .bind(std::string_view(device.name))
                .bind(rank)
                .bind(std::string_view(device.uuid))
                .bind(std::string_view(device.pci))
                .run());
  }
  return write_summaries(database, run.summaries, layout);
}

Result<bool> read_devices(const Database& database, Run& run) {
  // Runs of before have no such columns; a text in place of a column's name is its value.
  const bool has_uuid =
      TPT_TRY(
          database.ask("SELECT count(*) FROM pragma_table_info('device') WHERE name = 'uuid'")) > 0;
  Statement row = TPT_TRY(database.prepare(
      has_uuid
          ? "SELECT number, node, local, slot, name, rank, uuid, pci FROM device ORDER BY position"
          : "SELECT number, node, local, slot, name, rank, '', '' FROM device ORDER BY position"));
  while (TPT_TRY(row.next())) {
    Device device{.index = TPT_TRY(narrow(row, 0, database)),
                  .node = TPT_TRY(narrow(row, 1, database)),
                  .local = TPT_TRY(narrow(row, 2, database)),
                  .slot = TPT_TRY(narrow(row, 3, database)),
                  .name = row.text(4),
                  .uuid = row.text(6),
                  .pci = row.text(7)};
    if (!row.is_null(5)) device.rank = TPT_TRY(narrow(row, 5, database));
    run.devices.push_back(std::move(device));
  }
  return read_summaries(database, run.summaries);
}

Result<bool> write_steps(const Database& database, const Run& run) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO step VALUES(?,?,?,?,?)"));
  for (size_t i = 0; i < run.steps.size(); ++i)
    TPT_TRY(insert.bind(wide(i))
                .bind(run.steps[i].begin.nanoseconds())
                .bind(run.steps[i].end.nanoseconds())
                .bind(run.steps[i].samples)
                .bind(run.steps[i].tokens)
                .run());
  Statement memory = TPT_TRY(database.prepare("INSERT INTO memory VALUES(?,?,?,?,?,?,?,?)"));
  for (size_t i = 0; i < run.memory.size(); ++i) {
    memory.bind(wide(i));
    for (auto field : memory_fields)
      memory.bind((run.memory[i].*field).in_base_units());
    TPT_TRY(memory.run());
  }
  return true;
}

Result<bool> read_steps(const Database& database, Run& run) {
  Statement row = TPT_TRY(
      database.prepare("SELECT begin_ns, end_ns, samples, tokens FROM step ORDER BY position"));
  while (TPT_TRY(row.next()))
    run.steps.push_back({.begin = Instant(row.integer(0)),
                         .end = Instant(row.integer(1)),
                         .samples = row.integer(2),
                         .tokens = row.integer(3)});
  Statement memory = TPT_TRY(database.prepare("SELECT * FROM memory ORDER BY stage"));
  while (TPT_TRY(memory.next())) {
    MemoryUse use;
    for (size_t i = 0; i < memory_fields.size(); ++i)
      use.*memory_fields[i] = Bytes(memory.real(static_cast<int>(i) + 1));
    run.memory.push_back(use);
  }
  return true;
}

namespace {

constexpr std::array share_lists = {std::pair(throttle_share, &DeviceSummary::throttle),
                                    std::pair(energy_share, &DeviceSummary::energy_ledger_j)};

}  // namespace

Result<bool> write_share_columns(ColumnWriter& writer, const std::vector<DeviceSummary>& all) {
  for (size_t list = 0; list < share_lists.size(); ++list) {
    const auto member = share_lists[list].second;
    std::set<std::string> names;
    for (const DeviceSummary& summary : all)
      for (const auto& [name, value] : summary.*member)
        names.insert(name);
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
    const std::vector<double> column = TPT_TRY(reader.doubles({"summary_share", list, name}));
    if (list < 0 || list >= wide(share_lists.size()) || column.size() != all.size())
      return bad_column("summary_share", name.c_str());
    for (size_t i = 0; i < all.size(); ++i)
      if (!std::isnan(column[i]))
        (all[i].*share_lists[static_cast<size_t>(list)].second)[name] = column[i];
  }
  return true;
}

namespace {

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
      return error(fmt::format(
          "{} is damaged (a chunk of column \"{}\" does not decode); try the copy it was made from",
          file_, text_of(key)));
  }
  return values;
}

Result<std::vector<int64_t>> ColumnReader::integers(const ColumnKey& key) {
  return read<int64_t>(key);
}
Result<std::vector<double>> ColumnReader::doubles(const ColumnKey& key) {
  return read<double>(key);
}

}  // namespace triplepoint::run
