// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/store_schema.h"

#include <fmt/format.h>

namespace triplepoint::run {

namespace {

constexpr const char* tables = R"sql(
CREATE TABLE manifest(key TEXT PRIMARY KEY, value);
CREATE TABLE note(position INTEGER PRIMARY KEY, text TEXT);
CREATE TABLE fact(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE metric(name TEXT PRIMARY KEY, value REAL);
CREATE TABLE device(position INTEGER PRIMARY KEY, number INTEGER, node INTEGER, local INTEGER, seat INTEGER,
  name TEXT, rank INTEGER, uuid TEXT DEFAULT '', pci TEXT DEFAULT '');
CREATE TABLE step(position INTEGER PRIMARY KEY, begin_ns INTEGER, end_ns INTEGER, samples INTEGER, tokens INTEGER);
CREATE TABLE memory(stage INTEGER PRIMARY KEY, weights_b REAL, gradients_b REAL, optimizer_b REAL, activations_b REAL,
  logits_b REAL, buffers_b REAL, reserve_b REAL);
CREATE TABLE summary(position INTEGER PRIMARY KEY, power_mean_w REAL, power_peak_w REAL, power_kernel_peak_w REAL,
  energy_j REAL, die_mean_c REAL, die_peak_c REAL, sm_clock_mean_mhz REAL, sm_clock_min_mhz REAL, scale_up_b REAL,
  scale_out_b REAL);
CREATE TABLE summary_share(position INTEGER, what TEXT, name TEXT, value REAL);
CREATE TABLE series(id INTEGER PRIMARY KEY, signal TEXT, device INTEGER, of_node INTEGER, axis INTEGER);
CREATE TABLE source(position INTEGER PRIMARY KEY, signal TEXT, device INTEGER, of_node INTEGER, scope INTEGER,
  kind INTEGER, sensor TEXT, period_s REAL, window_s REAL);
CREATE TABLE host(node INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE clock_anchor(position INTEGER PRIMARY KEY, node INTEGER, instant_ns INTEGER, unix_ns INTEGER);
CREATE TABLE span_type(id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, stream INTEGER, op_class INTEGER,
  collective INTEGER, group_kind INTEGER);
CREATE TABLE pattern(id INTEGER PRIMARY KEY, name TEXT);
CREATE TABLE piece(id INTEGER PRIMARY KEY, pattern INTEGER, repeat INTEGER, length_s REAL, first_layer INTEGER,
  spans INTEGER);
CREATE TABLE lane(id INTEGER PRIMARY KEY, rank INTEGER, stream INTEGER, number INTEGER, name TEXT);
CREATE TABLE communicator(id INTEGER PRIMARY KEY, name TEXT, size INTEGER);
CREATE TABLE chunk(id INTEGER PRIMARY KEY, part TEXT, owner INTEGER, name TEXT, n INTEGER, minimum REAL, maximum REAL,
  sum REAL, codec INTEGER, decimals INTEGER, data BLOB);
)sql";

}  // namespace

Result<bool> create_tables(Database& database) {
  TPT_TRY(database.execute(tables));
  const std::string marks = fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}",
                                        application_id, format_version);
  return database.execute(marks.c_str());
}

Result<bool> check_format(const Database& database) {
  if (TPT_TRY(database.ask("PRAGMA application_id")) != application_id)
    return error(
        fmt::format("{} is no run file (it is a SQLite database of another program); give a file "
                    "that simulate or record wrote",
                    database.name()));
  const int64_t version = TPT_TRY(database.ask("PRAGMA user_version"));
  if (version > format_version)
    return error(fmt::format(
        "{} has format version {} (this program reads up to {}); use a newer triplepoint",
        database.name(), version, format_version));
  if (version < 1)
    return error(fmt::format("{} has format version {} (there is none before 1); it is damaged",
                             database.name(), version));
  return true;
}

}  // namespace triplepoint::run
