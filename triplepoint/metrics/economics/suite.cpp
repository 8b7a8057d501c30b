// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/suite.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/table_reader.h"

namespace triplepoint::metrics {
namespace {

using spec::ReadScope;
using spec::TableReader;
using spec::TomlValue;

constexpr std::array<ScoreMetricInfo, score_metric_count> infos = {
    {{"tokens_per_second_per_gpu", "tokens/s a GPU", "tokens/s", true, 1},
     {"joules_per_token", "J/token", "J", false, 1},
     {"power_peak_w", "peak (W)", "W", false, 1},
     {"temperature_peak_c", "peak (°C)", "°C", false, 1},
     {"throttled_share", "throttled (%)", "%", false, 100},
     {"thermal_spread_k", "spread (K)", "K", false, 1},
     {"step_time_variation", "variation (%)", "%", false, 100},
     {"step_time_drift", "drift (%)", "%", false, 100}}};

Result<void> check_job(const ReadScope& scope, const TomlValue& table, const SuiteJob& job) {
  if (job.sequences_per_gpu >= 1 && job.model.sequence_length >= 1) return {};
  return error(
      fmt::format("{}:{}: job \"{}\" has no tokens in a step (sequences_per_gpu and "
                  "sequence_length are at least 1); correct them",
                  scope.file, table.line, job.name));
}

Result<SuiteJob> read_suite_job(const ReadScope& scope, const TomlValue& table) {
  SuiteJob job;
  std::optional<int64_t> sequence;
  TableReader reader(table, scope);
  reader("name", job.name, spec::Need::required);
  reader("model", job.model, spec::Need::required);
  reader("sequence_length", sequence);
  reader("sequences_per_gpu", job.sequences_per_gpu, spec::Need::required);
  reader("precision", job.precision);
  TPT_TRY(reader.finish());
  job.model.sequence_length = sequence.value_or(job.model.sequence_length);
  TPT_TRY(check_job(scope, table, job));
  return job;
}

Result<void> read_metric(const ReadScope& scope, const TomlValue& table, Suite& suite) {
  std::string name;
  ScoreWeight weight;
  TableReader reader(table, scope);
  reader("name", name, spec::Need::required);
  reader("weight", weight.weight, spec::Need::required);
  reader("halves", weight.halves);
  TPT_TRY(reader.finish());
  const std::optional<ScoreMetric> metric = score_metric_named(name);
  if (!metric) {
    std::vector<std::string> known;
    known.reserve(infos.size());
    for (const ScoreMetricInfo& info : infos)
      known.emplace_back(info.key);
    return error(fmt::format("{}:{}: there is no metric \"{}\" (nothing would be weighed); {}",
                             scope.file, table.line, name, did_you_mean(name, known)));
  }
  const double halves = weight.halves.value_or(1);
  const bool sane = weight.weight >= 0 && halves > 0 && std::isfinite(weight.weight) &&
                    std::isfinite(halves);  // TOML knows nan and inf
  if (!sane)
    return error(
        fmt::format("{}:{}: a weight is not below and `halves` is above zero (better would "
                    "count as worse); correct \"{}\"",
                    scope.file, table.line, name));
  suite.weights[static_cast<std::size_t>(*metric)] = weight;
  return {};
}

Result<void> read_head(const ReadScope& scope, const TomlValue& root, Suite& suite) {
  const TomlValue* head = root.find("suite");
  if (head == nullptr)
    return error(fmt::format("{}:1: no [suite] in the file (it has name and version); write one",
                             scope.file));
  TableReader reader(*head, scope.at("suite"));
  reader("name", suite.name, spec::Need::required);
  reader("version", suite.version, spec::Need::required);
  reader("title", suite.title, spec::Need::required);
  reader("warm_up", suite.warm_up, spec::Need::required);
  reader("duration", suite.duration, spec::Need::required);
  reader("repeats", suite.repeats);
  reader("stack", suite.stack, spec::Need::required);
  TPT_TRY(reader.finish());
  if (suite.duration > Seconds() && suite.repeats >= 1) return {};
  return error(
      fmt::format("{}:{}: nothing would be simulated (duration is above 0, repeats is at "
                  "least 1); correct them",
                  scope.file, head->line));
}

Result<void> check_whole(const ReadScope& scope, const Suite& suite) {
  std::set<std::string> names;
  for (const SuiteJob& job : suite.jobs)
    if (!names.insert(job.name).second)
      return error(fmt::format("{}: two jobs are named \"{}\" (names identify runs); rename one",
                               scope.file, job.name));
  double sum = 0;
  for (const ScoreWeight& weight : suite.weights)
    sum += weight.weight;
  if (!suite.jobs.empty() && sum > 0) return {};
  return error(fmt::format("{}: the suite has no {} (there is nothing to score); add [[{}]]",
                           scope.file, suite.jobs.empty() ? "job" : "weight",
                           suite.jobs.empty() ? "job" : "metric"));
}

std::vector<TomlValue> items_of(const TomlValue& root, std::string_view key) {
  const TomlValue* list = root.find(key);
  return list == nullptr ? std::vector<TomlValue>{} : list->items;
}

}  // namespace

const ScoreMetricInfo& info_of(ScoreMetric metric) {
  return infos[static_cast<std::size_t>(metric)];
}

std::optional<ScoreMetric> score_metric_named(std::string_view key) {
  for (std::size_t i = 0; i < infos.size(); ++i)
    if (infos[i].key == key) return static_cast<ScoreMetric>(i);
  return std::nullopt;
}

std::string Suite::label() const {
  return fmt::format("{}-v{}", name, version);
}

Result<Suite> parse_suite(const spec::Library& library, std::string_view text,
                          const std::string& file) {
  const TomlValue root = TPT_TRY(spec::parse_toml(text, file));
  ReadScope scope;
  scope.library = &library;
  scope.file = file;
  static const std::vector<std::string> known = {"suite", "job", "metric"};
  for (const spec::TomlEntry& entry : root.entries)
    if (std::find(known.begin(), known.end(), entry.key) == known.end())
      return error(fmt::format("{}:{}: unknown key '{}' (it would be ignored); {}", file,
                               entry.value.line, entry.key, did_you_mean(entry.key, known)));
  Suite suite;
  TPT_TRY(read_head(scope, root, suite));
  for (const TomlValue& table : items_of(root, "job"))
    suite.jobs.push_back(TPT_TRY(read_suite_job(scope.at("job"), table)));
  for (const TomlValue& table : items_of(root, "metric"))
    TPT_TRY(read_metric(scope.at("metric"), table, suite));
  TPT_TRY(check_whole(scope, suite));
  return suite;
}

std::vector<std::string> list_suites(const spec::Library& library) {
  std::vector<std::string> names;
  const auto files = list_files(Path(library.root) / "suites", ".toml");
  if (!files) return names;
  for (const Path& file : *files)
    names.push_back(file.stem().string());
  return names;
}

Result<Suite> load_suite(const spec::Library& library, std::string_view name_or_path) {
  const std::vector<std::string> known = list_suites(library);
  const bool listed = std::find(known.begin(), known.end(), name_or_path) != known.end();
  if (!listed && !name_or_path.ends_with(".toml"))
    return error(fmt::format("no suite \"{0}\" (there is no suites/{0}.toml in {1}); {2}",
                             name_or_path, library.root, did_you_mean(name_or_path, known)));
  const Path path = listed ? Path(library.root) / "suites" / (std::string(name_or_path) + ".toml")
                           : Path(name_or_path);
  const std::string text = TPT_TRY(read_file(path));
  return parse_suite(library, text, path.string());
}

spec::Job job_for(const SuiteJob& wanted, const spec::Cluster& cluster, const spec::Stack& stack) {
  spec::Job job;
  job.name = wanted.name;
  job.model = wanted.model;
  job.cluster = cluster;
  job.stack = stack;
  job.plan.precision = wanted.precision;
  job.plan.global_batch_size = wanted.sequences_per_gpu * cluster.num_gpus();
  job.plan.sharding = cluster.num_gpus() > 1 ? spec::Sharding::optimizer : spec::Sharding::none;
  return job;
}

}  // namespace triplepoint::metrics
