// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/store_database.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <sqlite3.h>

namespace triplepoint::run {

namespace {

// Reading takes a few steps of SQLite's machine per byte. Pages that point to each other in circles
// take for ever.
constexpr int steps_between_looks = 1'000'000;
constexpr int64_t least_looks = 10;
constexpr uint64_t bytes_per_look = 10'000;
constexpr int most_blob_bytes = 64 << 20;

tl::unexpected<Error> damaged(sqlite3* handle, const std::string& name) {
  const int code = sqlite3_errcode(handle);
  if (code == SQLITE_FULL || code == SQLITE_NOMEM || code == SQLITE_TOOBIG)
    return error(
        fmt::format("{}: cannot go on ({}); free some space", name, sqlite3_errmsg(handle)));
  if (code == SQLITE_CANTOPEN || code == SQLITE_PERM || code == SQLITE_AUTH)
    return error(fmt::format("cannot read {} ({}); check the path and its permissions", name,
                             sqlite3_errmsg(handle)));
  return error(fmt::format("{} is damaged or no run file ({}); try the copy it was made from", name,
                           sqlite3_errmsg(handle)));
}

tl::unexpected<Error> damaged(sqlite3_stmt* statement) {
  sqlite3* handle = sqlite3_db_handle(statement);
  const char* file = sqlite3_db_filename(handle, "main");
  return damaged(handle, file != nullptr && *file != '\0' ? file : "the run file");
}

int stop_after_too_many_steps(void* looks_left) {
  return --*static_cast<int64_t*>(looks_left) < 0 ? 1 : 0;
}

int to_size(std::string_view text) {
  return static_cast<int>(text.size());
}

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), bound_(other.bound_) {}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

Statement& Statement::bind(int64_t value) {
  sqlite3_bind_int64(statement_, ++bound_, value);
  return *this;
}
Statement& Statement::bind(double value) {
  sqlite3_bind_double(statement_, ++bound_, value);  // not-a-number becomes null
  return *this;
}
Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text(statement_, ++bound_, text.data() == nullptr ? "" : text.data(), to_size(text),
                    SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind(const std::optional<double>& value) {
  if (value) return bind(*value);
  ++bound_;
  return *this;
}
Statement& Statement::bind(const std::optional<int64_t>& value) {
  if (value) return bind(*value);
  ++bound_;
  return *this;
}
Statement& Statement::bind_blob(std::string_view bytes) {
  sqlite3_bind_blob(statement_, ++bound_, bytes.data(), to_size(bytes), SQLITE_TRANSIENT);
  return *this;
}

Result<bool> Statement::run() {
  const int code = sqlite3_step(statement_);
  if (code != SQLITE_DONE && code != SQLITE_ROW) return damaged(statement_);
  reset();
  return true;
}

Result<bool> Statement::next() {
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return damaged(statement_);
}

void Statement::reset() {
  sqlite3_reset(statement_);
  sqlite3_clear_bindings(statement_);
  bound_ = 0;
}

bool Statement::is_null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
double Statement::real(int column) const {
  return sqlite3_column_double(statement_, column);
}
std::string Statement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (text == nullptr || size <= 0) return {};
  std::string copy(static_cast<size_t>(size), '\0');
  std::memcpy(copy.data(), text, copy.size());
  return copy;
}
std::string_view Statement::blob(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  if (bytes == nullptr || size <= 0) return {};
  return {static_cast<const char*>(bytes), static_cast<size_t>(size)};
}
std::optional<double> Statement::real_or_nothing(int column) const {
  if (is_null(column)) return std::nullopt;
  return real(column);
}
std::optional<int64_t> Statement::integer_or_nothing(int column) const {
  if (is_null(column)) return std::nullopt;
  return integer(column);
}

Database::Database(Database&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)),
      name_(std::move(other.name_)),
      looks_left_(std::move(other.looks_left_)) {}

Database::~Database() {
  sqlite3_close_v2(handle_);
}

Result<bool> Database::harden(uint64_t file_bytes) {
  looks_left_ =
      std::make_unique<int64_t>(least_looks + static_cast<int64_t>(file_bytes / bytes_per_look));
  sqlite3_progress_handler(handle_, steps_between_looks, stop_after_too_many_steps,
                           looks_left_.get());
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(handle_, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, most_blob_bytes);
  return execute("PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY");
}

Result<Database> Database::create() {
  Database database("the run file");
  if (sqlite3_open(":memory:", &database.handle_) != SQLITE_OK)
    return damaged(database.handle_, database.name_);
  return database;
}

Result<Database> Database::create_file(const std::string& path) {
  Database database(path);
  constexpr int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database.handle_, flags, nullptr) != SQLITE_OK)
    return damaged(database.handle_, path);
  TPT_TRY(database.execute(
      "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE; "
      "PRAGMA cache_size = -1000; PRAGMA temp_store = MEMORY"));
  return database;
}

Result<Database> Database::open(const std::string& path) {
  Database database(path);
  constexpr int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database.handle_, flags, nullptr) != SQLITE_OK)
    return damaged(database.handle_, path);
  std::error_code unknown;
  const auto size = std::filesystem::file_size(path, unknown);
  TPT_TRY(database.harden(unknown ? 0 : size));
  return database;
}

Result<Database> Database::from_bytes(std::string_view bytes, const std::string& name) {
  Database database(name);
  if (sqlite3_open(":memory:", &database.handle_) != SQLITE_OK)
    return damaged(database.handle_, name);
  // SQLite takes the copy over and frees it, also when it refuses it.
  auto* copy = static_cast<unsigned char*>(sqlite3_malloc64(bytes.size()));
  if (copy == nullptr) return error(fmt::format("{}: no memory for {} bytes", name, bytes.size()));
  std::memcpy(copy, bytes.data(), bytes.size());
  const auto size = static_cast<sqlite3_int64>(bytes.size());
  constexpr unsigned flags = SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_READONLY;
  if (sqlite3_deserialize(database.handle_, "main", copy, size, size, flags) != SQLITE_OK)
    return damaged(database.handle_, name);
  TPT_TRY(database.harden(bytes.size()));
  return database;
}

Result<bool> Database::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK)
    return damaged(handle_, name_);
  return true;
}

Result<Statement> Database::prepare(const char* sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql, -1, &statement, nullptr) != SQLITE_OK)
    return damaged(handle_, name_);
  return Statement(statement);
}

Result<int64_t> Database::ask(const char* sql) const {
  Statement statement = TPT_TRY(prepare(sql));
  if (!TPT_TRY(statement.next())) return int64_t{0};
  return statement.integer(0);
}

Result<std::string> Database::bytes() const {
  sqlite3_int64 size = 0;
  unsigned char* image = sqlite3_serialize(handle_, "main", &size, 0);
  if (image == nullptr) return damaged(handle_, name_);
  std::string copy(static_cast<size_t>(size), '\0');
  std::memcpy(copy.data(), image, copy.size());
  sqlite3_free(image);
  return copy;
}

}  // namespace triplepoint::run
