// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/store/store_tables.h"

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
      return damaged(database, "a series has a source of an unknown kind");
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
      return damaged(database, "a clock anchor has an impossible time");
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

namespace {

/// The key under which a job is kept that this program cannot read.
constexpr const char* unread_job = "unread_job";

/// Rows of the manifest table; absent values get no row.
class ManifestWriter {
 public:
  static Result<ManifestWriter> create(const Database& database) {
    return ManifestWriter(TPT_TRY(database.prepare("INSERT INTO manifest VALUES(?,?)")));
  }
  template <class Value>
  Result<bool> write(std::string_view key, const Value& value) {
    return insert_.bind(key).bind(value).run();
  }
  template <class Value>
  Result<bool> write_if(std::string_view key, const std::optional<Value>& value) {
    return value ? write(key, *value) : Result<bool>(true);
  }

 private:
  explicit ManifestWriter(Statement insert) : insert_(std::move(insert)) {}
  Statement insert_;
};

template <class Quantity>
std::optional<double> base_units(const std::optional<Quantity>& quantity) {
  if (!quantity) return std::nullopt;
  return quantity->in_base_units();
}

/// The enumerator of this name, of those that `candidates` lists.
template <class Enum, size_t N>
Result<Enum> named(const std::array<Enum, N>& candidates, const std::string& name,
                   const std::string& file) {
  for (Enum candidate : candidates)
    if (name_of(candidate) == name) return candidate;
  return error(fmt::format(
      "{}: \"{}\" is not an origin or fidelity of a run (of this version); use a newer triplepoint",
      file, name));
}

/// A job of another version may not be readable; the rest of the run still is.
void take_job(Manifest& manifest, const std::string& toml) {
  auto job = spec::parse_job(spec::Library{}, toml, manifest.name + ".run");
  if (job) {
    manifest.job = std::move(*job);
    return;
  }
  manifest.facts[unread_job] = toml;
  manifest.notes.push_back(
      fmt::format("the job kept in this run could not be read ({})", job.error().what));
}

void take_shutdown(Run& run, const std::string& key, const Statement& row) {
  if (!run.shutdown) run.shutdown.emplace();
  if (key == "shutdown_gpu") run.shutdown->device = static_cast<int32_t>(row.integer(1));
  if (key == "shutdown_die_c") run.shutdown->die_c = row.real(1);
  if (key == "shutdown_time_s") run.shutdown->time = row.real(1) * unit::s;
}

Result<bool> take(Run& run, const std::string& key, const Statement& row, const std::string& file) {
  Manifest& manifest = run.manifest;
  const auto quantity = [&](auto& target) {
    target = std::decay_t<decltype(*target)>(row.real(1));
  };
  if (key == "origin")
    manifest.origin = TPT_TRY(named(
        std::array{Origin::simulated, Origin::measured, Origin::imported}, row.text(1), file));
  if (key == "fidelity")
    manifest.fidelity = TPT_TRY(named(
        std::array{Fidelity::step, Fidelity::steady_state, Fidelity::transient, Fidelity::real},
        row.text(1), file));
  if (key == "name") manifest.name = row.text(1);
  if (key == "producer") manifest.producer = row.text(1);
  if (key == "numbers") manifest.numbers = row.text(1);
  if (key == "epoch_unix_ns") manifest.epoch_unix_ns = row.integer(1);
  if (key == "fits_memory") manifest.fits_memory = row.integer(1) != 0;
  if (key == "memory_limit_b") quantity(run.memory_limit);
  if (key == "model_flops") quantity(run.model_flops);
  if (key == "hardware_flops") quantity(run.hardware_flops);
  if (key == "peak_flops_per_s") quantity(run.peak_flops);
  visit_numbers(run.numbers, [&]<class Number>(const char* name, std::optional<Number>& number) {
    if (key != name) return;
    if constexpr (std::is_integral_v<Number>)
      number = row.integer(1);
    else
      number = row.real(1);
  });
  if (key.starts_with("shutdown_")) take_shutdown(run, key, row);
  return true;
}

Result<bool> write_notes_and_facts(const Database& database, const Manifest& manifest) {
  Statement note = TPT_TRY(database.prepare("INSERT INTO note VALUES(?,?)"));
  for (size_t i = 0; i < manifest.notes.size(); ++i)
    TPT_TRY(note.bind(static_cast<int64_t>(i)).bind(manifest.notes[i]).run());
  Statement fact = TPT_TRY(database.prepare("INSERT INTO fact VALUES(?,?)"));
  for (const auto& [key, value] : manifest.facts)
    TPT_TRY(fact.bind(key).bind(value).run());
  return true;
}

}  // namespace

Result<bool> write_manifest(const Database& database, const Run& run) {
  const Manifest& manifest = run.manifest;
  ManifestWriter writer = TPT_TRY(ManifestWriter::create(database));
  TPT_TRY(writer.write("origin", name_of(manifest.origin)));
  TPT_TRY(writer.write("fidelity", name_of(manifest.fidelity)));
  TPT_TRY(writer.write("name", std::string_view(manifest.name)));
  TPT_TRY(writer.write("producer", std::string_view(manifest.producer)));
  if (!manifest.numbers.empty())
    TPT_TRY(writer.write("numbers", std::string_view(manifest.numbers)));
  TPT_TRY(writer.write_if("epoch_unix_ns", manifest.epoch_unix_ns));
  TPT_TRY(writer.write("fits_memory", int64_t{manifest.fits_memory ? 1 : 0}));
  TPT_TRY(writer.write_if("memory_limit_b", base_units(run.memory_limit)));
  TPT_TRY(writer.write_if("model_flops", base_units(run.model_flops)));
  TPT_TRY(writer.write_if("hardware_flops", base_units(run.hardware_flops)));
  TPT_TRY(writer.write_if("peak_flops_per_s", base_units(run.peak_flops)));
  Result<bool> written = true;
  visit_numbers(run.numbers, [&](const char* name, const auto& number) {
    if (written) written = writer.write_if(name, number);
  });
  TPT_TRY(std::move(written));
  if (run.shutdown) {
    TPT_TRY(writer.write("shutdown_gpu", int64_t{run.shutdown->device}));
    TPT_TRY(writer.write("shutdown_die_c", run.shutdown->die_c));
    TPT_TRY(writer.write_if("shutdown_time_s", base_units(run.shutdown->time)));
  }
  if (manifest.job) {
    const std::string toml = spec::write_job(*manifest.job);
    TPT_TRY(writer.write("job", std::string_view(toml)));
  }
  return write_notes_and_facts(database, manifest);
}

Result<bool> read_manifest(const Database& database, Run& run) {
  Statement row = TPT_TRY(database.prepare("SELECT key, value FROM manifest"));
  std::optional<std::string> job;
  while (TPT_TRY(row.next())) {
    const std::string key = row.text(0);
    if (key == "job") job = row.text(1);
    TPT_TRY(take(run, key, row, database.name()));
  }
  Statement note = TPT_TRY(database.prepare("SELECT text FROM note ORDER BY position"));
  while (TPT_TRY(note.next()))
    run.manifest.notes.push_back(note.text(0));
  Statement fact = TPT_TRY(database.prepare("SELECT key, value FROM fact"));
  while (TPT_TRY(fact.next()))
    run.manifest.facts[fact.text(0)] = fact.text(1);
  if (job) take_job(run.manifest, *job);
  return true;
}

Result<bool> write_metrics(const Database& database, const std::map<std::string, double>& metrics) {
  Statement insert = TPT_TRY(database.prepare("INSERT INTO metric VALUES(?,?)"));
  for (const auto& [name, value] : metrics)
    TPT_TRY(insert.bind(name).bind(value).run());
  return true;
}

Result<std::map<std::string, double>> read_metrics(const Database& database) {
  Statement row = TPT_TRY(database.prepare("SELECT name, value FROM metric"));
  std::map<std::string, double> metrics;
  while (TPT_TRY(row.next()))
    if (!row.is_null(1)) metrics[row.text(0)] = row.real(1);
  return metrics;
}

}  // namespace triplepoint::run
