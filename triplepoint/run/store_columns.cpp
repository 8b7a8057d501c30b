// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/store_columns.h"

#include <algorithm>

#include <fmt/format.h>

namespace triplepoint::run {

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
