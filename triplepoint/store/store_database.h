// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace triplepoint::run {

/// One prepared statement. Parameters and columns count from 0, in the order of the SQL.
class Statement {
 public:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&&) = delete;
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement();

  Statement& bind(int64_t value);
  Statement& bind(double value);
  Statement& bind(std::string_view text);
  Statement& bind(const std::optional<double>& value);
  Statement& bind(const std::optional<int64_t>& value);
  Statement& bind_blob(std::string_view bytes);

  /// Runs a statement that yields nothing, and makes it ready for the next binding.
  Result<bool> run();
  /// Goes to the next row; false after the last one.
  Result<bool> next();
  void reset();

  bool is_null(int column) const;
  int64_t integer(int column) const;
  double real(int column) const;
  std::string text(int column) const;
  std::string_view blob(int column) const;  // valid until the next row
  std::optional<int64_t> integer_or_nothing(int column) const;

 private:
  sqlite3_stmt* statement_;
  int bound_ = 0;
};

/// An untrusted SQLite database: no statement runs for ever, no SQL of
/// the file is trusted. Errors say which file and what is wrong with it.
class Database {
 public:
  /// An empty one in memory.
  static Result<Database> create();
  /// A new file, written without a journal: an incomplete file is unusable. Memory stays small.
  static Result<Database> create_file(const std::string& path);
  /// An existing file, only to read.
  static Result<Database> open(const std::string& path);
  /// The bytes of a file; `name` is used in messages.
  static Result<Database> from_bytes(std::string_view bytes, const std::string& name);

  Database(Database&& other) noexcept;
  Database& operator=(Database&&) = delete;
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database();

  const std::string& name() const { return name_; }
  Result<bool> execute(const char* sql);
  Result<Statement> prepare(const char* sql) const;
  /// The one number a statement yields.
  Result<int64_t> ask(const char* sql) const;
  /// The whole file, as it would lie on disk.
  Result<std::string> bytes() const;

 private:
  explicit Database(std::string name) : name_(std::move(name)) {}
  Result<bool> harden(uint64_t file_bytes);

  sqlite3* handle_ = nullptr;
  std::string name_;
  std::unique_ptr<int64_t> looks_left_;  // of the watchdog; the handle points to it
};

/// Marks a SQLite file as a run: "TPnt". Written into the file's header, where `file` finds it.
inline constexpr int application_id = 0x54506E74;

/// Of the format. A reader takes this version and older ones; what an older one did not know keeps
/// its default. Version 2 keeps series and lists of summaries of many devices together; runs of
/// fewer devices are written as version 1.
inline constexpr int format_version = 2;
enum class Layout : uint8_t { of_each_device = 1, of_many_devices = 2 };
inline constexpr size_t fewest_of_many = 4097;

/// Makes the tables of docs/run-format.md.
Result<bool> create_tables(Database&, Layout = Layout::of_each_device);

/// Whether this is a run whose version we can read; a sentence if not.
Result<bool> check_format(const Database&);

}  // namespace triplepoint::run
