// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/run/store_tables.h"

namespace triplepoint::run {
namespace {

constexpr int64_t kind_count = 4;

tl::unexpected<Error> damaged(const Database& database) {
  return error(
      fmt::format("{} is damaged (who sets the pace is no device); try the copy it was made from",
                  database.name()));
}

}  // namespace

Result<bool> write_pace_setters(const Database& database, const Run& run) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO pace_setter VALUES(?,?,?,?,?,?,?,?,?)"));
  Statement who = TPT_TRY(database.prepare("INSERT INTO pace_setter_who VALUES(?,?,?)"));
  for (size_t i = 0; i < run.pace_setters.size(); ++i) {
    const PaceSetter& setter = run.pace_setters[i];
    const auto position = static_cast<int64_t>(i);
    TPT_TRY(insert.bind(position)
                .bind(static_cast<int64_t>(setter.by))
                .bind(int64_t{setter.of_nodes ? 1 : 0})
                .bind(setter.value)
                .bind(setter.peers)
                .bind(setter.cost / unit::s)
                .bind(int64_t{setter.at_most ? 1 : 0})
                .bind(std::string_view(setter.limit))
                .bind(std::string_view(setter.detail))
                .run());
    for (size_t place = 0; place < setter.who.size(); ++place)
      TPT_TRY(who.bind(position)
                  .bind(static_cast<int64_t>(place))
                  .bind(int64_t{setter.who[place]})
                  .run());
  }
  return true;
}

Result<bool> read_pace_setters(const Database& database, Run& run) {
  if (TPT_TRY(database.ask("SELECT count(*) FROM sqlite_master WHERE name = 'pace_setter'")) == 0)
    return true;
  Statement row = TPT_TRY(
      database.prepare("SELECT cause, of_nodes, value, peers, cost_s, at_most, what, detail FROM "
                       "pace_setter ORDER BY position"));
  while (TPT_TRY(row.next())) {
    const int64_t by = row.integer(0);
    if (by < 0 || by >= kind_count) return damaged(database);
    run.pace_setters.push_back({.by = static_cast<PaceSetter::By>(by),
                                .of_nodes = row.integer(1) != 0,
                                .who = {},
                                .value = row.real(2),
                                .peers = row.real(3),
                                .cost = row.real(4) * unit::s,
                                .at_most = row.integer(5) != 0,
                                .limit = row.text(6),
                                .detail = row.text(7)});
  }
  Statement who = TPT_TRY(
      database.prepare("SELECT position, number FROM pace_setter_who ORDER BY position, place"));
  while (TPT_TRY(who.next())) {
    const int64_t position = who.integer(0);
    int32_t number = 0;
    if (position < 0 || position >= static_cast<int64_t>(run.pace_setters.size()) ||
        !set_narrow(number, who.integer(1)) || number < 0)
      return damaged(database);
    run.pace_setters[static_cast<size_t>(position)].who.push_back(number);
  }
  return true;
}

}  // namespace triplepoint::run
