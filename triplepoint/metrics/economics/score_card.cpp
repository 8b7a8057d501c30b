// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/economics/score_card.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"
#include "triplepoint/base/text.h"

#include "triplepoint/run/series_index.h"
#include "triplepoint/spec/names.h"
#include "triplepoint/spec/table_reader.h"

#include "triplepoint/metrics/metrics.h"

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

namespace {

Json number(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

Json job_json(const JobResult& job) {
  Json values = Json::object();
  for (std::size_t m = 0; m < score_metric_count; ++m)
    values[std::string(info_of(static_cast<ScoreMetric>(m)).key)] = number(job.values[m]);
  return {{"name", job.name},          {"verdict", job.verdict},
          {"plan", job.plan},          {"repeats", job.repeats},
          {"values", values},          {"repeat_spread", number(job.repeat_spread)},
          {"broken_rules", job.broken}};
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<double> number_of(const Json& json, std::string_view key) {
  const auto found = json.find(std::string(key));
  if (found == json.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

int64_t count_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

JobResult job_from(const Json& json) {
  JobResult job;
  job.name = text_of(json, "name");
  job.verdict = text_of(json, "verdict");
  job.plan = text_of(json, "plan");
  job.repeats = count_of(json, "repeats");
  job.repeat_spread = number_of(json, "repeat_spread");
  if (const auto values = json.find("values"); values != json.end() && values->is_object())
    for (std::size_t m = 0; m < score_metric_count; ++m)
      job.values[m] = number_of(*values, info_of(static_cast<ScoreMetric>(m)).key);
  if (const auto broken = json.find("broken_rules"); broken != json.end() && broken->is_array())
    for (const Json& rule : *broken)
      if (rule.is_string()) job.broken.push_back(rule.get<std::string>());
  return job;
}

}  // namespace

Json card_json(const ScoreCard& card, const CardScore* score) {
  Json json = {{"schema", 1},     {"suite", card.suite},       {"name", card.name},
               {"gpu", card.gpu}, {"num_gpus", card.num_gpus}, {"origin", card.origin}};
  if (!card.source.empty()) json["source"] = card.source;
  json["duration_s"] = card.duration_s;
  if (score != nullptr) {
    json["score"] = number(score->score);
    json["jobs_scored"] = score->scored;
    json["jobs_wanted"] = score->wanted;
    json["official"] = score->is_official;
  }
  json["jobs"] = Json::array();
  for (std::size_t i = 0; i < card.jobs.size(); ++i) {
    json["jobs"].push_back(job_json(card.jobs[i]));
    if (score != nullptr) json["jobs"].back()["score"] = number(score->jobs[i]);
  }
  return json;
}

Result<ScoreCard> card_from_json(const Json& json, const std::string& file) {
  const auto jobs = json.is_object() ? json.find("jobs") : json.end();
  if (!json.is_object() || text_of(json, "suite").empty() || jobs == json.end() ||
      !jobs->is_array())
    return error(
        fmt::format("{} is no score card (it names no suite and jobs); make one with "
                    "triplepoint bench SUITE --format json",
                    file));
  ScoreCard card;
  card.suite = text_of(json, "suite");
  card.name = text_of(json, "name");
  card.gpu = text_of(json, "gpu");
  card.origin = text_of(json, "origin");
  card.source = text_of(json, "source");
  card.num_gpus = count_of(json, "num_gpus");
  card.duration_s = number_of(json, "duration_s").value_or(0);
  for (const Json& job : *jobs)
    card.jobs.push_back(job_from(job));
  return card;
}

namespace {

constexpr std::size_t fewest_steps = 2, fewest_steps_for_drift = 8;

std::size_t index_of(ScoreMetric metric) {
  return static_cast<std::size_t>(metric);
}

double mean_time(const std::vector<run::StepRecord>& steps, std::size_t from, std::size_t count) {
  double sum = 0;
  for (std::size_t i = from; i < from + count; ++i)
    sum += (steps[i].end - steps[i].begin) / unit::s;
  return sum / static_cast<double>(count);
}

double variation(const std::vector<run::StepRecord>& steps) {
  const double mean = mean_time(steps, 0, steps.size());
  double squares = 0;
  for (const run::StepRecord& step : steps) {
    const double off = (step.end - step.begin) / unit::s - mean;
    squares += off * off;
  }
  return std::sqrt(squares / static_cast<double>(steps.size() - 1)) / mean;
}

double drift(const std::vector<run::StepRecord>& steps) {
  const std::size_t quarter = steps.size() / 4;
  return std::abs(mean_time(steps, steps.size() - quarter, quarter) / mean_time(steps, 0, quarter) -
                  1);
}

/// The same run, of which only these steps are known and what the series show of them.
run::Run part_of(const run::Run& whole, const ScoredWindow& window) {
  run::Run part;
  part.manifest = whole.manifest;
  part.devices = whole.devices;
  part.steps = window.steps;
  part.series = whole.series;
  return part;
}

/// A simulated run knows the share itself, a recording the reasons.
std::optional<double> throttled_share(const run::Run& run, const run::StepRecord& first,
                                      const run::StepRecord& last) {
  constexpr uint32_t no_throttling = 1U | 2U | 256U;  // idle, application and display clocks
  double sum = 0;
  const run::SeriesIndex series(run);
  for (const run::Device& device : run.devices) {
    const run::Series* share = series.find("throttled_share", device.index);
    const run::Series* reasons = series.find("throttle_reasons", device.index);
    std::optional<double> known;
    if (share != nullptr) known = run::statistics(*share, first.begin, last.end).time_weighted_mean;
    if (!known && reasons != nullptr)
      known = run::share_of_time(*reasons, ~no_throttling, first.begin, last.end);
    if (!known) return std::nullopt;
    sum += *known;
  }
  if (run.devices.empty()) return std::nullopt;
  return sum / static_cast<double>(run.devices.size());
}

/// Hottest less coolest; only if every device knows.
std::optional<double> spread_of(const std::vector<double>& temperatures) {
  if (temperatures.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(temperatures.begin(), temperatures.end());
  if (std::any_of(temperatures.begin(), temperatures.end(),
                  [](double t) { return !std::isfinite(t); }))
    return std::nullopt;
  return *high - *low;
}

/// A driver's window is shorter than the means of a simulated series; its summaries know both.
std::optional<double> peak_power(const run::Run& run, const Metrics& part) {
  std::optional<double> peak = part.power_peak_w;
  for (const run::DeviceSummary& device : run.summaries)
    if (device.power_peak_w) peak = std::max(peak.value_or(0), *device.power_peak_w);
  return peak;
}

bool same_model(spec::Model a, spec::Model b) {
  a.name = b.name;
  a.published_parameters = b.published_parameters;
  a.published_active_parameters = b.published_active_parameters;
  a.dropout = b.dropout;  // no part of the work that is counted
  if (a.moe && b.moe) {   // how an implementation runs its experts
    a.moe->grouped_gemm = b.moe->grouped_gemm;
    a.moe->load_imbalance = b.moe->load_imbalance;
  }
  return a == b;
}

void check_job(std::vector<std::string>& broken, const SuiteJob& wanted, const spec::Job& job) {
  if (wanted.model.sequence_length != job.model.sequence_length)
    broken.push_back(fmt::format("sequence length is {}, not {}", job.model.sequence_length,
                                 wanted.model.sequence_length));
  spec::Model model = job.model;
  model.sequence_length = wanted.model.sequence_length;
  if (!same_model(model, wanted.model))
    broken.push_back(fmt::format("the model is not {} (its sizes differ)", wanted.model.name));
  const int64_t batch = wanted.sequences_per_gpu * job.cluster.num_gpus();
  if (job.plan.global_batch_size != batch)
    broken.push_back(fmt::format("a step has {} sequences, not {} ({} a GPU)",
                                 job.plan.global_batch_size, batch, wanted.sequences_per_gpu));
  if (job.plan.precision != wanted.precision)
    broken.push_back(fmt::format("precision is {}, not {}", spec::name_of(job.plan.precision),
                                 spec::name_of(wanted.precision)));
  if (job.task != spec::Task::pretrain || job.plan.lora)
    broken.emplace_back("not all weights are trained");
  if (job.records) broken.emplace_back("records do not fill their sequences");
  if (job.plan.packed_length) broken.emplace_back("sequences are packed");
}

}  // namespace

Seconds ScoredWindow::duration() const {
  return steps.empty() ? Seconds() : steps.back().end - steps.front().begin;
}

ScoredWindow scored_window(const run::Run& run, Seconds warm_up) {
  ScoredWindow window;
  if (run.steps.empty()) return window;
  const Instant first = run.steps.front().begin;
  for (const run::StepRecord& step : run.steps)
    if (step.begin - first >= warm_up) window.steps.push_back(step);
  return window;
}

ScoreValues measure_for_score(const run::Run& run, Seconds warm_up) {
  ScoreValues values;
  const auto put = [&](ScoreMetric metric, std::optional<double> value) {
    values[index_of(metric)] = value;
  };
  const ScoredWindow window = scored_window(run, warm_up);
  if (window.steps.size() < fewest_steps) return values;
  const Metrics part = measure(part_of(run, window));
  put(ScoreMetric::tokens_per_second_per_gpu, part.tokens_per_second_per_gpu);
  put(ScoreMetric::joules_per_token, part.joules_per_token);
  put(ScoreMetric::power_peak_w, peak_power(run, part));
  put(ScoreMetric::temperature_peak_c, part.temperature_peak_c);
  put(ScoreMetric::throttled_share,
      throttled_share(run, window.steps.front(), window.steps.back()));
  put(ScoreMetric::thermal_spread_k, spread_of(part.temperature_per_gpu_c));
  put(ScoreMetric::step_time_variation, variation(window.steps));
  if (window.steps.size() >= fewest_steps_for_drift)
    put(ScoreMetric::step_time_drift, drift(window.steps));
  return values;
}

std::vector<std::string> broken_rules(const Suite& suite, const SuiteJob& wanted,
                                      const run::Run& run) {
  std::vector<std::string> broken;
  if (run.manifest.job)
    check_job(broken, wanted, *run.manifest.job);
  else
    broken.emplace_back("the run does not say which job it is");
  const Seconds played = scored_window(run, suite.warm_up).duration();
  // The last step ends when it ends: what is missing of a whole duration is less than a step.
  const Seconds step =
      run.steps.empty() ? Seconds() : run.steps.back().end - run.steps.back().begin;
  if (played + step + step < suite.duration)
    broken.push_back(fmt::format("{:.0f} s are left after {:.0f} s of warm-up, not {:.0f} s",
                                 played / unit::s, suite.warm_up / unit::s,
                                 suite.duration / unit::s));
  const ScoreValues values = measure_for_score(run, suite.warm_up);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!values[i] && suite.weights[i].weight > 0 && played > Seconds())
      broken.push_back(
          fmt::format("{} is not known of every GPU", info_of(static_cast<ScoreMetric>(i)).key));
  return broken;
}

JobResult combine_repeats(const SuiteJob& job, const std::vector<ScoreValues>& repeats) {
  JobResult result;
  result.name = job.name;
  result.verdict = repeats.empty() ? "missing" : "ok";
  result.repeats = static_cast<int64_t>(repeats.size());
  for (std::size_t m = 0; m < score_metric_count; ++m) {
    std::vector<double> known;
    for (const ScoreValues& values : repeats)
      if (values[m]) known.push_back(*values[m]);
    if (known.empty() || known.size() < repeats.size()) continue;
    std::sort(known.begin(), known.end());
    const std::size_t half = known.size() / 2;
    const double median =
        known.size() % 2 == 1 ? known[half] : 0.5 * (known[half - 1] + known[half]);
    result.values[m] = median;
    if (m == index_of(ScoreMetric::tokens_per_second_per_gpu) && known.size() > 1)
      result.repeat_spread = (known.back() - known.front()) / median;
  }
  return result;
}

double factor(const ScoreWeight& weight, ScoreMetric metric, double value, double reference) {
  const bool more = info_of(metric).more_is_better;
  if (weight.halves)
    return std::exp2((more ? value - reference : reference - value) / *weight.halves);
  return more ? value / reference : reference / value;
}

namespace {

/// Absent where a number is missing, or no ratio can be made of it.
std::optional<double> job_score(const Suite& suite, const JobResult& job,
                                const JobResult& reference) {
  double logs = 0, weights = 0;
  for (std::size_t m = 0; m < score_metric_count; ++m) {
    const ScoreWeight& weight = suite.weights[m];
    if (weight.weight <= 0) continue;
    const auto &value = job.values[m], &other = reference.values[m];
    if (!value || !other) return std::nullopt;
    if (!weight.halves && (*value <= 0 || *other <= 0)) return std::nullopt;
    logs += weight.weight * std::log(factor(weight, static_cast<ScoreMetric>(m), *value, *other));
    weights += weight.weight;
  }
  return std::exp(logs / weights);
}

const JobResult* find_job(const ScoreCard& card, const std::string& name) {
  const auto found = std::find_if(card.jobs.begin(), card.jobs.end(),
                                  [&](const JobResult& job) { return job.name == name; });
  return found == card.jobs.end() ? nullptr : &*found;
}

}  // namespace

CardScore score(const ScoreCard& card, const ScoreCard& reference, const Suite& suite) {
  CardScore result;
  result.jobs.resize(card.jobs.size());
  result.wanted = suite.jobs.size();
  bool broken = false;
  for (std::size_t i = 0; i < card.jobs.size(); ++i) {
    broken = broken || !card.jobs[i].broken.empty();
    if (const JobResult* other = find_job(reference, card.jobs[i].name))
      result.jobs[i] = job_score(suite, card.jobs[i], *other);
  }
  // In the suite's order, whatever the card's is: the same bits.
  double logs = 0;
  for (const SuiteJob& wanted : suite.jobs) {
    const JobResult* job = find_job(card, wanted.name);
    if (job == nullptr) continue;
    const auto& own = result.jobs[static_cast<std::size_t>(job - card.jobs.data())];
    if (!own) continue;
    logs += std::log(*own);
    ++result.scored;
  }
  if (result.scored > 0) result.score = std::exp(logs / static_cast<double>(result.scored));
  result.is_official = result.scored == result.wanted && !broken;
  return result;
}

}  // namespace triplepoint::metrics
