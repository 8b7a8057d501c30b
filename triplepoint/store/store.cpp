// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/store.h"

#include <array>
#include <fstream>
#include <utility>

#include "triplepoint/base/files.h"

#include "triplepoint/store/growing_run.h"
#include "triplepoint/store/store_database.h"
#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {

namespace {

constexpr std::string_view sqlite_magic("SQLite format 3\0", 16);
constexpr size_t header_bytes = 100;

uint64_t big_endian(std::string_view bytes) {
  uint64_t number = 0;
  for (char byte : bytes)
    number = number << 8U | static_cast<uint8_t>(byte);
  return number;
}

/// Looks at the first bytes, which say more plainly than SQLite what is wrong with a file.
/// Source: sqlite.org/fileformat.html, section 1.3: page size at byte 16, number of pages at
/// byte 28.
Result<bool> check_header(std::string_view head, uint64_t file_bytes, const std::string& name) {
  if (head.substr(0, sqlite_magic.size()) != sqlite_magic)
    return error(
        "{} is no run file (it does not begin as one); give a file that simulate or record wrote",
        name);
  if (head.size() < header_bytes)
    return error("{} is truncated (it ends inside its header); copy it again", name);
  const uint64_t coded = big_endian(head.substr(16, 2));
  const uint64_t page_bytes = coded == 1 ? 65536 : coded;
  const uint64_t expected = page_bytes * big_endian(head.substr(28, 4));
  if (file_bytes < expected)
    return error("{} is truncated (it has {} of {} bytes); copy it again", name, file_bytes,
                 expected);
  return true;
}

Result<Database> open_run(const std::string& path) {
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown))
    return error("cannot read {} (it is a folder); give a .run file", path);
  std::ifstream file(path, std::ios::binary);
  std::string head(header_bytes, '\0');
  if (!file) TPT_TRY(read_file(path));  // fails as well, and says why
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(as_size(file.gcount()));
  const auto size = std::filesystem::file_size(path, unknown);
  TPT_TRY(check_header(head, unknown ? 0 : size, path));
  Database database = TPT_TRY(Database::open(path));
  TPT_TRY(check_format(database));
  return database;
}

Result<Run> read_plain_tables(const Database& database, ColumnReader& reader) {
  Run run;
  TPT_TRY(read_manifest(database, run));
  TPT_TRY(read_devices(database, run));
  TPT_TRY(read_share_columns(database, reader, run.summaries));
  TPT_TRY(read_sources(database, run));
  TPT_TRY(read_bottlenecks(database, run));
  TPT_TRY(read_steps(database, run));
  return run;
}

Result<Run> read_run(const Database& database) {
  ColumnReader reader = TPT_TRY(ColumnReader::create(database));
  Run run = TPT_TRY(read_plain_tables(database, reader));
  TPT_TRY(read_timeline(database, reader, run.timeline));
  TPT_TRY(read_series(database, reader, run.series));
  return run;
}

bool is_growing(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 8> head{};
  file.read(head.data(), head.size());
  return file && is_journal({head.data(), head.size()});
}

}  // namespace

Result<std::string> to_bytes(const Run& run) {
  const Layout layout =
      run.devices.size() < fewest_of_many ? Layout::of_each_device : Layout::of_many_devices;
  Database database = TPT_TRY(Database::create());
  TPT_TRY(create_tables(database, layout));
  TPT_TRY(database.execute("BEGIN"));
  TPT_TRY(write_manifest(database, run));
  TPT_TRY(write_devices(database, run, layout));
  TPT_TRY(write_sources(database, run));
  TPT_TRY(write_bottlenecks(database, run));
  TPT_TRY(write_steps(database, run));
  ColumnWriter writer = TPT_TRY(ColumnWriter::create(database));
  if (layout == Layout::of_many_devices) TPT_TRY(write_share_columns(writer, run.summaries));
  TPT_TRY(write_timeline(database, writer, run.timeline));
  TPT_TRY(write_series(database, writer, run.series, layout));
  TPT_TRY(database.execute("COMMIT"));
  return database.bytes();
}

Result<bool> save(const Run& run, const std::string& path) {
  const std::string bytes = TPT_TRY(to_bytes(run));
  TPT_TRY(write_file_atomically(path, bytes));
  return true;
}

Result<Run> from_bytes(std::string_view bytes, const std::string& name) {
  if (is_journal(bytes)) return growing_from_bytes(bytes, name);
  TPT_TRY(check_header(bytes.substr(0, header_bytes), bytes.size(), name));
  const Database database = TPT_TRY(Database::from_bytes(bytes, name));
  TPT_TRY(check_format(database));
  return read_run(database);
}

Result<Run> load(const std::string& path) {
  if (is_growing(path)) return load_growing(path);
  const Database database = TPT_TRY(open_run(path));
  return read_run(database);
}

Result<Manifest> load_manifest(const std::string& path) {
  if (is_growing(path)) return TPT_TRY(load_growing(path)).manifest;
  const Database database = TPT_TRY(open_run(path));
  Run run;
  TPT_TRY(read_manifest(database, run));
  return std::move(run.manifest);
}

Result<Run> peek(const std::string& path) {
  if (is_growing(path)) {
    Run run = TPT_TRY(load_growing(path));
    run.timeline = {};
    run.series.clear();
    return run;
  }
  const Database database = TPT_TRY(open_run(path));
  ColumnReader reader = TPT_TRY(ColumnReader::create(database));
  return read_plain_tables(database, reader);
}

}  // namespace triplepoint::run
