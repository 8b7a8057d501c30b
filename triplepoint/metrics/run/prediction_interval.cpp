// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/prediction_interval.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "triplepoint/base/files.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/sources.h"
#include "triplepoint/spec/table_reader.h"

namespace triplepoint::metrics {
namespace {

constexpr const char* other = "other";

struct Widening {
  std::string feature, level;
  double factor = 1;
  int64_t rows = 0;
};

void visit_fields(auto& visit, Widening& widening) {
  visit("feature", widening.feature, spec::Need::required);
  visit("level", widening.level, spec::Need::required);
  visit("factor", widening.factor, spec::Need::required);
  visit("rows", widening.rows);
}

struct SpreadTable {
  double low = 1, high = 1, within_job = 0, large_high = 1;
  int64_t rows = 0;
  std::vector<Widening> widening;
};

void visit_fields(auto& visit, SpreadTable& spread) {
  visit("low", spread.low, spec::Need::required);
  visit("high", spread.high, spec::Need::required);
  visit("within_job", spread.within_job);
  visit("large_high", spread.large_high);
  visit("rows", spread.rows);
  visit("widening", spread.widening);
}

Result<SpreadTable> read_spread(const spec::TomlValue& root, const std::string& path,
                                const char* quantity) {
  const spec::TomlValue* table = root.find(quantity);
  if (table == nullptr)
    return error("{}:1: no [{}] (it holds the prediction errors); run lab/make_intervals.py", path,
                 quantity);
  spec::ReadScope scope;
  scope.file = path;
  SpreadTable spread;
  if (auto read = spec::read_table(scope.at(quantity), *table, spread); !read)
    return tl::unexpected(read.error());
  if (spread.low > 0 && spread.low < spread.high) return spread;
  return error(
      "{}:{}: {}.low is not between 0 and high (they are percentiles of "
      "measured over predicted); run lab/make_intervals.py",
      path, table->line, quantity);
}

/// Whether a GPU's products were fitted to a table of measured kernels. Files are read once.
bool has_measured_kernels(const spec::Library& library, const std::string& gpu) {
  static std::mutex mutex;
  static std::map<std::string, bool> known;
  const std::string path = fmt::format("{}/calibrations/{}/kernels.toml", library.root, gpu);
  const std::lock_guard lock(mutex);
  const auto [found, is_new] = known.try_emplace(path, false);
  if (!is_new || !path_exists(path)) return found->second;
  const auto numbers = spec::provenance(library, "calibrations/" + gpu + "/kernels");
  const auto is_fitted = [](const spec::Provenance& number) {
    return number.key == "kernels.gemm_peak_share" && number.kind == spec::NumberKind::fitted;
  };
  return found->second = numbers && std::ranges::any_of(*numbers, is_fitted);
}

std::string bits_of(spec::Precision precision) {
  if (precision == spec::Precision::nvfp4) return "4";
  return spec::is_quantized(precision) ? "8" : "16";
}

std::string nodes_of(int64_t nodes) {
  constexpr int64_t most_of_a_few = 16;
  if (nodes == 1) return "1";
  return nodes <= most_of_a_few ? "2-16" : "17+";
}

/// Sequences whose attention core takes most of the time.
std::string sequence_of(int64_t tokens) {
  constexpr int64_t long_sequence = 131072;
  return tokens < long_sequence ? "under 128k" : "128k+";
}

/// Nothing was measured of inference, nor of clusters that are processes of one machine.
bool has_rows(const spec::Job& job) {
  return !spec::is_inference(job.task) && job.cluster.shared_cores == 0;
}

double normal_distribution(double x) {
  return 0.5 * std::erfc(-x / std::sqrt(2.0));
}

}  // namespace

Interval PredictionIntervals::Spread::around(double predicted, const Regime& regime) const {
  double width = 1;
  for (const auto& [feature, level] : regime) {
    auto found = widening.find({feature, level});
    if (found == widening.end()) found = widening.find({feature, other});
    if (found != widening.end()) width *= found->second;
  }
  return {predicted * std::pow(low, width), predicted * std::pow(high, width)};
}

Result<PredictionIntervals> PredictionIntervals::load(const spec::Library& library) {
  const std::string path = library.root + "/calibrations/accuracy.toml";
  const std::string text = TPT_TRY(read_file(path));
  const spec::TomlValue root = TPT_TRY(spec::parse_toml(text, path));
  const auto spread_of = [](const SpreadTable& table) {
    Spread spread{.low = table.low, .high = table.high, .rows = table.rows};
    for (const Widening& wider : table.widening)
      spread.widening[{wider.feature, wider.level}] = wider.factor;
    return spread;
  };
  const SpreadTable step_time = TPT_TRY(read_spread(root, path, "step_time"));
  PredictionIntervals intervals;
  intervals.step_time_ = spread_of(step_time);
  intervals.within_job_ = step_time.within_job;
  const SpreadTable memory = TPT_TRY(read_spread(root, path, "memory"));
  intervals.memory_ = spread_of(memory);
  intervals.large_memory_ = std::max(1., memory.large_high);
  intervals.library_ = library;
  return intervals;
}

Regime PredictionIntervals::regime_of(const spec::Job& job) const {
  const spec::Gpu& gpu = job.cluster.gpu;
  const bool measured = has_measured_kernels(library_, gpu.name);
  return {{"stack", job.stack.name},
          {"experts", job.model.moe ? "moe" : "dense"},
          {"bits", bits_of(job.plan.precision)},
          {"kernels", measured ? "measured" : "not measured"},
          {"nodes", nodes_of(job.cluster.num_nodes)},
          {"sequence", sequence_of(job.model.sequence_length)},
          {"vendor", gpu.vendor},
          {"task", std::string(spec::name_of(job.task))}};
}

std::optional<Interval> PredictionIntervals::step_time(const spec::Job& job,
                                                       double predicted) const {
  if (!has_rows(job)) return std::nullopt;
  return step_time_.around(predicted, regime_of(job));
}

std::optional<Interval> PredictionIntervals::rate(const spec::Job& job, double predicted) const {
  const auto time = step_time(job, 1);
  if (!time) return std::nullopt;
  return Interval{predicted / time->high, predicted / time->low};
}

std::optional<Interval> PredictionIntervals::memory(const spec::Job& job, double predicted) const {
  if (!has_rows(job)) return std::nullopt;
  return memory_.around(predicted, regime_of(job));
}

double PredictionIntervals::probability_longer(double predicted_b, double predicted_a) const {
  return normal_distribution(std::log(predicted_b / predicted_a) / (std::sqrt(2.0) * within_job_));
}

bool is_tie(double probability) {
  const double percent = std::round(100 * probability);  // as it is printed
  return percent < 80 && percent > 20;
}

}  // namespace triplepoint::metrics
