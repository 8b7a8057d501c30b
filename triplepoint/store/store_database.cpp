// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/store/store_database.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <sqlite3.h>

namespace triplepoint::run {
namespace {

constexpr const char* tables = R"sql(
CREATE TABLE manifest(key TEXT PRIMARY KEY, value);
CREATE TABLE note(position INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE fact(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE device(position INTEGER PRIMARY KEY, number INTEGER, node INTEGER, local INTEGER, slot INTEGER,
  name TEXT, rank INTEGER, uuid TEXT DEFAULT '', pci TEXT DEFAULT '', power_counted_on INTEGER);
CREATE TABLE step(position INTEGER PRIMARY KEY, begin_ns INTEGER, end_ns INTEGER, samples INTEGER, tokens INTEGER);
CREATE TABLE core_wait(rank INTEGER PRIMARY KEY, wait_s REAL);
CREATE TABLE memory(stage INTEGER PRIMARY KEY, weights_b REAL, gradients_b REAL, optimizer_b REAL, activations_b REAL,
  logits_b REAL, buffers_b REAL, reserve_b REAL);
CREATE TABLE summary(position INTEGER PRIMARY KEY, power_mean_w REAL, power_peak_w REAL, power_kernel_peak_w REAL,
  energy_j REAL, die_mean_c REAL, die_peak_c REAL, sm_clock_mean_mhz REAL, sm_clock_min_mhz REAL, scale_up_b REAL,
  scale_out_b REAL);
CREATE TABLE summary_share(position INTEGER, what TEXT, name TEXT, value REAL);
CREATE TABLE series(id INTEGER PRIMARY KEY, signal TEXT, device INTEGER, of_node INTEGER, axis INTEGER,
  devices INTEGER DEFAULT 1, stride INTEGER DEFAULT 1);
CREATE TABLE source(position INTEGER PRIMARY KEY, signal TEXT, device INTEGER, of_node INTEGER, scope INTEGER,
  kind INTEGER, sensor TEXT, period_s REAL, window_s REAL);
CREATE TABLE host(node INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE bottleneck(position INTEGER PRIMARY KEY, part INTEGER, of_nodes INTEGER, value REAL, peers REAL, cost_s REAL);
CREATE TABLE bottleneck_who(position INTEGER, place INTEGER, number INTEGER);
CREATE TABLE clock_anchor(position INTEGER PRIMARY KEY, node INTEGER, instant_ns INTEGER, unix_ns INTEGER);
CREATE TABLE span_type(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, stream INTEGER, op_class INTEGER,
  collective INTEGER, group_kind INTEGER);
CREATE TABLE pattern(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE piece(id INTEGER PRIMARY KEY, pattern INTEGER, repeat INTEGER, length_s REAL, first_layer INTEGER,
  spans INTEGER);
CREATE TABLE lane(id INTEGER PRIMARY KEY, rank INTEGER, stream INTEGER, number INTEGER, name TEXT);
CREATE TABLE communicator(id INTEGER PRIMARY KEY, name TEXT, size INTEGER,
                          message_end INTEGER, peer INTEGER);
CREATE TABLE chunk(id INTEGER PRIMARY KEY, part TEXT, owner INTEGER, name TEXT, n INTEGER, minimum REAL, maximum REAL,
  sum REAL, codec INTEGER, decimals INTEGER, data BLOB);
)sql";

// Reading takes a few steps of SQLite's machine per byte. Pages that point to each other in circles
// take for ever.
constexpr int steps_between_looks = 1'000'000;
constexpr int64_t least_looks = 10;
constexpr uint64_t bytes_per_look = 10'000;
constexpr int most_blob_bytes = 64 << 20;

tl::unexpected<Error> damaged(sqlite3* handle, const std::string& name) {
  const int code = sqlite3_errcode(handle);
  if (code == SQLITE_FULL || code == SQLITE_NOMEM || code == SQLITE_TOOBIG)
    return error("{}: cannot go on ({}); free some space", name, sqlite3_errmsg(handle));
  if (code == SQLITE_CANTOPEN || code == SQLITE_PERM || code == SQLITE_AUTH)
    return error("cannot read {} ({}); check the path and its permissions", name,
                 sqlite3_errmsg(handle));
  return error("{} is damaged or no run file ({}); try the copy it was made from", name,
               sqlite3_errmsg(handle));
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

Result<bool> create_tables(Database& database, Layout layout) {
  TPT_TRY(database.execute(tables));
  const std::string marks = fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                        application_id, static_cast<int>(layout));
  return database.execute(marks.c_str());
}

Result<bool> check_format(const Database& database) {
  if (TPT_TRY(database.ask("PRAGMA application_id")) != application_id)
    return error(
        "{} is no run file (it is a SQLite database of another program); give a file "
        "that simulate or record wrote",
        database.name());
  const int64_t version = TPT_TRY(database.ask("PRAGMA user_version"));
  if (version > format_version)
    return error("{} has format version {} (this program reads up to {}); use a newer triplepoint",
                 database.name(), version, format_version);
  if (version < 1)
    return error("{} has format version {} (there is none before 1); it is damaged",
                 database.name(), version);
  return true;
}

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
  if (copy == nullptr) return error("{}: no memory for {} bytes", name, bytes.size());
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
