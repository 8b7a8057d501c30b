// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/run/store_items.h"
#include "triplepoint/run/store_tables.h"

namespace triplepoint::run {

namespace {

constexpr int64_t scope_count = 9, reading_kind_count = 4, most_nodes = 1 << 20;

Result<bool> has_table(const Database& database, std::string_view name) {
  Statement row = TPT_TRY(
      database.prepare("SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = ?"));
  row.bind(name);
  return TPT_TRY(row.next()) && row.integer(0) > 0;
}

std::optional<double> in_seconds(const std::optional<Seconds>& time) {
  if (!time) return std::nullopt;
  return *time / unit::s;
}
std::optional<Seconds> as_seconds(const std::optional<double>& number) {
  if (!number) return std::nullopt;
  return *number * unit::s;
}

tl::unexpected<Error> damaged(const Database& database, std::string_view why) {
  return error(
      fmt::format("{} is damaged ({}); try the copy it was made from", database.name(), why));
}

Result<bool> read_source_rows(const Database& database, std::vector<SeriesSource>& sources) {
  Statement row = TPT_TRY(database.prepare(
      "SELECT signal, device, of_node, scope, kind, sensor, period_s, window_s FROM source "
      "ORDER BY position"));
  while (TPT_TRY(row.next())) {
    const int64_t scope = row.integer(3), kind = row.integer(4);
    SeriesSource source{.signal = row.text(0),
                        .of_node = row.integer(2) != 0,
                        .sensor = row.text(5),
                        .period = as_seconds(row.real_or_nothing(6)),
                        .window = as_seconds(row.real_or_nothing(7))};
    if (!set_narrow(source.device, row.integer(1)) || scope < 0 || scope >= scope_count ||
        kind < 0 || kind >= reading_kind_count)
      return damaged(database, "a series comes from a source of no known kind");
    source.scope = static_cast<Scope>(scope);
    source.kind = static_cast<ReadingKind>(kind);
    sources.push_back(std::move(source));
  }
  return true;
}

Result<bool> read_anchors(const Database& database, std::vector<ClockAnchor>& anchors) {
  Statement row = TPT_TRY(
      database.prepare("SELECT node, instant_ns, unix_ns FROM clock_anchor ORDER BY position"));
  while (TPT_TRY(row.next())) {
    ClockAnchor anchor{.unix_ns = row.integer(2)};
    if (!set_narrow(anchor.node, row.integer(0)) || !set_instant(anchor.instant, row.integer(1)))
      return damaged(database, "a clock anchor lies at an impossible time");
    anchors.push_back(anchor);
  }
  return true;
}

}  // namespace

Result<bool> write_sources(const Database& database, const Run& run) {
  Statement source = TPT_TRY(database.prepare("INSERT INTO source VALUES(?,?,?,?,?,?,?,?,?)"));
  for (size_t i = 0; i < run.sources.size(); ++i) {
    const SeriesSource& from = run.sources[i];
    TPT_TRY(source.bind(static_cast<int64_t>(i))
                .bind(std::string_view(from.signal))
                .bind(int64_t{from.device})
                .bind(int64_t{from.of_node ? 1 : 0})
                .bind(static_cast<int64_t>(from.scope))
                .bind(static_cast<int64_t>(from.kind))
                .bind(std::string_view(from.sensor))
                .bind(in_seconds(from.period))
                .bind(in_seconds(from.window))
                .run());
  }
  Statement host = TPT_TRY(database.prepare("INSERT INTO host VALUES(?,?)"));
  for (size_t i = 0; i < run.manifest.hosts.size(); ++i)
    TPT_TRY(host.bind(static_cast<int64_t>(i)).bind(std::string_view(run.manifest.hosts[i])).run());
  Statement anchor = TPT_TRY(database.prepare("INSERT INTO clock_anchor VALUES(NULL,?,?,?)"));
  for (const ClockAnchor& at : run.manifest.anchors)
    TPT_TRY(anchor.bind(int64_t{at.node}).bind(at.instant.nanoseconds()).bind(at.unix_ns).run());
  return true;
}

Result<bool> read_sources(const Database& database, Run& run) {
  if (!TPT_TRY(has_table(database, "source"))) return true;
  TPT_TRY(read_source_rows(database, run.sources));
  TPT_TRY(read_anchors(database, run.manifest.anchors));
  Statement host = TPT_TRY(database.prepare("SELECT name FROM host ORDER BY node"));
  while (TPT_TRY(host.next()) && run.manifest.hosts.size() < static_cast<size_t>(most_nodes))
    run.manifest.hosts.push_back(host.text(0));
  return true;
}

}  // namespace triplepoint::run
