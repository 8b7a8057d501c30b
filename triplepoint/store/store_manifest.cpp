// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "triplepoint/spec/load.h"

#include "triplepoint/store/store_tables.h"

namespace triplepoint::run {
namespace {

constexpr int64_t most_nodes = 1 << 20;

}  // namespace

Result<bool> write_sources(const Database& database, const Run& run) {
  TPT_TRY(write_rows(database, "source", "position", run.sources));
  Statement host = TPT_TRY(database.prepare("INSERT INTO host VALUES(?,?)"));
  for (size_t i = 0; i < run.manifest.hosts.size(); ++i)
    TPT_TRY(insert_row(host, i, run.manifest.hosts[i]));
  TPT_TRY(write_rows(database, "clock_anchor", "position", run.manifest.anchors));
  return true;
}

Result<bool> read_sources(const Database& database, Run& run) {
  run.sources = TPT_TRY(read_rows<SeriesSource>(database, "source", "position"));
  run.manifest.anchors = TPT_TRY(read_rows<ClockAnchor>(database, "clock_anchor", "position"));
  if (TPT_TRY(columns_of(database, "host")).empty()) return true;
  Statement host = TPT_TRY(database.prepare("SELECT name FROM host ORDER BY node"));
  while (TPT_TRY(host.next()) && run.manifest.hosts.size() < as_size(most_nodes))
    run.manifest.hosts.push_back(host.text(0));
  return true;
}

namespace {

/// The key under which a job is kept that this program cannot read.
constexpr const char* unread_job = "unread_job";

/// Calls visit(key, member) for the members that are rows of the table manifest as they are.
void visit_manifest(auto& run, const auto& visit) {
  visit("name", run.manifest.name);
  visit("producer", run.manifest.producer);
  visit("numbers", run.manifest.numbers);
  visit("epoch_unix_ns", run.manifest.epoch_unix_ns);
  visit("job_digest", run.manifest.job_digest);
  visit("fits_memory", run.manifest.fits_memory);
  visit("failure", run.manifest.failure);
  visit("memory_limit_b", run.memory_limit);
  visit("model_flops", run.model_flops);
  visit("hardware_flops", run.hardware_flops);
  visit("peak_flops_per_s", run.peak_flops);
  visit_numbers(run.numbers, visit);
}

template <class Value>
bool is_absent(const std::optional<Value>& value) {
  return !value;
}
bool is_absent(const auto&) {
  return false;
}

/// The enumerator of this name, of those that `candidates` lists.
template <class Enum, size_t N>
Result<Enum> named(const std::array<Enum, N>& candidates, const std::string& name,
                   const std::string& file) {
  for (Enum candidate : candidates)
    if (name_of(candidate) == name) return candidate;
  return error(
      "{}: \"{}\" is not an origin or fidelity of a run (of this version); use a newer triplepoint",
      file, name);
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

Result<bool> take(Run& run, const std::string& key, const Statement& row,
                  const Database& database) {
  const std::string& file = database.name();
  Manifest& manifest = run.manifest;
  if (key == "origin")
    manifest.origin = TPT_TRY(named(
        std::array{Origin::simulated, Origin::measured, Origin::imported}, row.text(1), file));
  if (key == "fidelity")
    manifest.fidelity = TPT_TRY(named(
        std::array{Fidelity::step, Fidelity::steady_state, Fidelity::transient, Fidelity::real},
        row.text(1), file));
  bool sound = true;
  visit_manifest(run, [&](const char* name, auto& member) {
    if (key == name) sound = take_value(row, 1, member);
  });
  if (!sound) return damaged(database, key + " is none that can be");
  if (key.starts_with("shutdown_")) take_shutdown(run, key, row);
  return true;
}

Result<bool> write_notes_and_facts(const Database& database, const Manifest& manifest) {
  Statement note = TPT_TRY(database.prepare("INSERT INTO note VALUES(?,?)"));
  for (size_t i = 0; i < manifest.notes.size(); ++i)
    TPT_TRY(insert_row(note, i, manifest.notes[i]));
  Statement fact = TPT_TRY(database.prepare("INSERT INTO fact VALUES(?,?)"));
  for (const auto& [key, value] : manifest.facts)
    TPT_TRY(insert_row(fact, key, value));
  return true;
}

}  // namespace

Result<bool> write_manifest(const Database& database, const Run& run) {
  const Manifest& manifest = run.manifest;
  Statement insert = TPT_TRY(database.prepare("INSERT INTO manifest VALUES(?,?)"));
  Result<bool> written = true;
  const auto write = [&](std::string_view key, const auto& value) {
    if (written && !is_absent(value)) written = insert_row(insert, key, value);
  };
  write("origin", name_of(manifest.origin));
  write("fidelity", name_of(manifest.fidelity));
  visit_manifest(run, write);
  if (run.shutdown) {
    write("shutdown_gpu", run.shutdown->device);
    write("shutdown_die_c", run.shutdown->die_c);
    write("shutdown_time_s", run.shutdown->time);
  }
  if (manifest.job) write("job", spec::write_job(*manifest.job));
  TPT_TRY(std::move(written));
  return write_notes_and_facts(database, manifest);
}

Result<bool> read_manifest(const Database& database, Run& run) {
  Statement row = TPT_TRY(database.prepare("SELECT key, value FROM manifest"));
  std::optional<std::string> job;
  while (TPT_TRY(row.next())) {
    const std::string key = row.text(0);
    if (key == "job") job = row.text(1);
    TPT_TRY(take(run, key, row, database));
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

}  // namespace triplepoint::run
