// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernel_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_simplex.h"
#include "triplepoint/calibrate/kernel_tables.h"

namespace triplepoint::calibrate {
namespace {

using spec::OpClass;

/// The chip and the benchmark while numbers are tried.
struct Trial {
  spec::Gpu gpu;
  KernelBenchmark benchmark;
};

struct Knob {
  Parameter parameter;
  bool is_time_us;
  std::function<void(Trial&, double)> set;
};

struct Sample {
  const KernelRow* row;
  KernelBenchmark benchmark;  // the library's own numbers
  double weight;
  uint64_t fold;
};

/// One class of kernels: which rows, which numbers.
struct FitClass {
  std::string name;
  std::vector<Knob> knobs;
  std::function<bool(const KernelRow&)> holds;
  bool of_benchmark = false;  // its numbers belong to the benchmark, not to the chip
};

Knob number(const char* key, double start, double low, double high,
            double spec::KernelCoefficients::*member) {
  return {{key, start, low, high}, false, [member](Trial& t, double value) {
            t.gpu.kernels.*member = value;
          }};
}

Knob time(const char* key, double start, double high, Seconds spec::KernelCoefficients::*member) {
  return {{key, start, 0, high}, true, [member](Trial& t, double us) {
            t.gpu.kernels.*member = us * unit::us;
          }};
}

bool says_much(const KernelRow& row) {
  constexpr int64_t longest = 32768;
  const spec::GemmShape& shape = row.op.gemm;
  return !row.best_of_many && shape.k <= longest && shape.n <= longest &&
         row.op.attention.head_dim <= 256;
}

bool is_product(const KernelRow& row, bool quantized) {
  return row.op.op_class == OpClass::gemm && says_much(row) &&
         spec::is_quantized(row.op.precision) == quantized;
}

bool is_attention(const KernelRow& row, bool backward) {
  return row.op.op_class == OpClass::attention && row.op.backward == backward && says_much(row) &&
         !spec::is_quantized(row.op.precision);
}

FitClass products() {
  using K = spec::KernelCoefficients;
  return {.name = "gemm_16bit",
          .knobs = {number("gemm_peak_share", 1.1, 0.5, 1.2, &K::gemm_peak_share),
                    number("gemm_half_k", 100, 0, 400, &K::gemm_half_k),
                    number("gemm_half_tile", 45, 0, 120, &K::gemm_half_tile),
                    number("wave_quantization", 0.1, 0, 1, &K::wave_quantization),
                    time("kernel_start", 2.5, 10, &K::kernel_start)},
          .holds = [](const KernelRow& row) { return is_product(row, false); }};
}

FitClass attention_forward() {
  using K = spec::KernelCoefficients;
  return {.name = "attention_forward",
          .knobs = {number("attention_forward_share", 0.65, 0.2, 1.2, &K::attention_forward_share),
                    number("attention_half_length", 400, 0, 2000, &K::attention_half_length),
                    number("attention_half_head_dim", 64, 10, 200, &K::attention_half_head_dim),
                    number("attention_wave_quantization", 0.3, 0.1, 0.6,
                           &K::attention_wave_quantization),
                    time("attention_start", 6, 15, &K::attention_start)},
          .holds = [](const KernelRow& row) { return is_attention(row, false); }};
}

FitClass attention_backward() {
  using K = spec::KernelCoefficients;
  return {
      .name = "attention_backward",
      .knobs = {number("attention_backward_share", 0.6, 0.2, 1.2, &K::attention_backward_share)},
      .holds = [](const KernelRow& row) { return is_attention(row, true); }};
}

FitClass casts(const std::string& source, const std::string& dtype) {
  FitClass c{.name = fmt::format("cast {} {}", source, dtype), .of_benchmark = true};
  c.knobs = {
      {{"gemm_share", 1, 0.4, 1.4}, false, [](Trial& t, double v) { t.benchmark.gemm_share = v; }},
      {{"cast_bytes", 6, 0, 20}, false, [](Trial& t, double v) { t.benchmark.cast_bytes = v; }},
      {{"cast_start", 5, 0, 30},
       true,
       [](Trial& t, double v) { t.benchmark.cast_start = v * unit::us; }},
      {{"host_pace", 20, 0, 250}, true, [](Trial& t, double v) {
         t.benchmark.host_pace = v * unit::us;
       }}};
  c.holds = [source, dtype](const KernelRow& row) {
    return is_product(row, true) && row.source == source && row.dtype == dtype;
  };
  return c;
}

/// Rows of one shape are in one fold, whatever library ran them.
uint64_t fold_of(const KernelRow& row) {
  const spec::GemmShape& g = row.op.gemm;
  const spec::AttentionShape& a = row.op.attention;
  uint64_t mixed = 1469598103934665603ULL;
  for (const int64_t size :
       {g.m, g.n, g.k, a.batch, a.heads, a.query_groups, a.head_dim, a.query_length}) {
    mixed ^= static_cast<uint64_t>(size);
    mixed *= 1099511628211ULL;
    mixed ^= mixed >> 29U;
  }
  constexpr uint64_t folds = 5;
  return (mixed >> 32U) % folds;
}

double predicted(const Trial& trial, const Sample& sample, bool of_benchmark) {
  const KernelBenchmark& benchmark = of_benchmark ? trial.benchmark : sample.benchmark;
  return predicted_time(trial.gpu, *sample.row, benchmark) / unit::s;
}

double log_error(const Trial& trial, const Sample& sample, bool of_benchmark) {
  return std::log(predicted(trial, sample, of_benchmark) / (sample.row->measured / unit::s));
}

Trial with(Trial trial, const FitClass& c, const std::vector<double>& at) {
  for (std::size_t i = 0; i < at.size(); ++i)
    c.knobs[i].set(trial, at[i]);
  if (c.of_benchmark) trial.gpu = with_library_of(trial.gpu, trial.benchmark);
  return trial;
}

/// What an error costs. A product at the power limit is as fast as its operands let it be, and
/// benchmarks leave weights unwritten: some rows multiply zeros. These shall not pull on all
/// others, so beyond the usual error their weight falls.
double cost(const Sample& sample, double error) {
  constexpr double usual = 0.04;
  const bool by_operands =
      sample.row->op.op_class == OpClass::gemm && sample.row->repetition == Repetition::looped;
  return by_operands ? usual * std::log1p(std::abs(error) / usual) : std::abs(error);
}

/// Every library counts alike: a table of many shapes must not outvote a smaller one.
void weigh(std::vector<Sample>& samples) {
  std::map<std::string, double> count;
  for (const Sample& sample : samples)
    count[sample.row->source] += 1;
  for (Sample& sample : samples)
    sample.weight = 1 / count[sample.row->source] / static_cast<double>(count.size());
}

Minimum fit_class(const Trial& start, const FitClass& c, const std::vector<Sample>& samples,
                  std::optional<uint64_t> without_fold, int evaluations) {
  std::vector<Parameter> parameters;
  parameters.reserve(c.knobs.size());
  for (const Knob& knob : c.knobs)
    parameters.push_back(knob.parameter);
  const auto loss = [&](const std::vector<double>& at) {
    const Trial trial = with(start, c, at);
    double sum = 0;
    for (const Sample& sample : samples)
      if (sample.fold != without_fold)
        sum += sample.weight * cost(sample, log_error(trial, sample, c.of_benchmark));
    return sum;
  };
  return minimize(parameters, loss, evaluations);
}

Residuals residuals_of(std::vector<double> errors_pct) {
  if (errors_pct.empty()) return {};
  std::sort(errors_pct.begin(), errors_pct.end());
  const auto at = [&](double share) {
    return errors_pct[static_cast<std::size_t>(share * static_cast<double>(errors_pct.size() - 1))];
  };
  return {static_cast<int64_t>(errors_pct.size()), at(0.5), at(0.9)};
}

using ErrorOf = std::function<double(const Sample&)>;

/// Of long and of short kernels.
std::pair<Residuals, Residuals> by_size(const std::vector<Sample>& samples, const ErrorOf& error) {
  std::vector<double> large, small;
  for (const Sample& sample : samples) {
    const bool is_large = sample.row->measured >= 100 * unit::us;
    (is_large ? large : small).push_back(100 * std::abs(std::exp(error(sample)) - 1));
  }
  return {residuals_of(std::move(large)), residuals_of(std::move(small))};
}

void score_held_out(ClassFit& fit, const Trial& start, FitClass c, const Minimum& whole,
                    const std::vector<Sample>& samples) {
  for (std::size_t i = 0; i < c.knobs.size(); ++i)
    c.knobs[i].parameter.start = whole.at[i];
  std::vector<Trial> trials;
  trials.reserve(5);
  for (uint64_t fold = 0; fold < 5; ++fold)
    trials.push_back(with(start, c, fit_class(start, c, samples, fold, 160).at));
  std::tie(fit.held_out_large, fit.held_out_small) = by_size(samples, [&](const Sample& sample) {
    return log_error(trials[sample.fold], sample, c.of_benchmark);
  });
}

/// The fitted GPUs that are not of the same die: what one would know of a GPU without a table.
std::vector<spec::Gpu> other_gpus(const spec::Library& library, const std::string& gpu) {
  std::vector<spec::Gpu> others;
  for (const char* name : {"a100-80gb", "h100", "b200"}) {
    const bool same_die = gpu.substr(0, 2) == std::string(name).substr(0, 2);
    if (const auto other = spec::load_gpu(library, name); other && !same_die)
      others.push_back(*other);
  }
  return others;
}

void score_without_gpu(ClassFit& fit, const Trial& start, const FitClass& c,
                       const std::vector<Sample>& samples, const spec::Library& library) {
  const std::vector<spec::Gpu> others = other_gpus(library, start.gpu.name);
  if (others.empty() || c.of_benchmark) return;
  std::tie(fit.other_gpus_large, fit.other_gpus_small) =
      by_size(samples, [&](const Sample& sample) {
        double mean = 0;
        for (const spec::Gpu& other : others) {
          Trial trial = start;
          trial.gpu.kernels = other.kernels;
          trial.gpu.kernels.hbm_share = start.gpu.kernels.hbm_share;
          mean += log_error(trial, sample, false) / static_cast<double>(others.size());
        }
        return mean;
      });
}

FittedNumber fitted(const Knob& knob, double value) {
  const Parameter& p = knob.parameter;
  const double edge = (p.high - p.low) * 0.005;
  // Four digits: more would pretend.
  const double digits = std::pow(10, 3 - std::floor(std::log10(std::max(1e-3, std::abs(value)))));
  return {p.name, std::round(value * digits) / digits, knob.is_time_us,
          value < p.low + edge || value > p.high - edge};
}

std::vector<Sample> samples_of(const FitClass& c, const std::vector<KernelRow>& rows,
                               const std::string& gpu,
                               const std::vector<KernelBenchmark>& benchmarks) {
  std::vector<Sample> samples;
  for (const KernelRow& row : rows) {
    if (row.gpu != gpu || !c.holds(row)) continue;
    const KernelBenchmark benchmark = benchmark_of(row, benchmarks);
    // A library with shares of its own is not the one that trains.
    if (!c.of_benchmark && benchmark.attention_share) continue;
    samples.push_back({&row, benchmark, 1, fold_of(row)});
  }
  weigh(samples);
  return samples;
}

/// Fits the class, puts its numbers into the chip, and tells how well they do.
std::optional<ClassFit> fit_one(Trial& trial, const FitClass& c, const std::vector<Sample>& samples,
                                const spec::Library& library) {
  constexpr std::size_t fewest = 12;
  if (samples.size() < fewest) return std::nullopt;
  ClassFit fit{.name = c.name, .rows = static_cast<int64_t>(samples.size())};
  const Minimum best = fit_class(trial, c, samples, std::nullopt, 700);
  std::vector<double> rounded;
  for (std::size_t i = 0; i < best.at.size(); ++i) {
    fit.numbers.push_back(fitted(c.knobs[i], best.at[i]));
    rounded.push_back(fit.numbers.back().value);
  }
  const Trial found = with(trial, c, rounded);
  std::tie(fit.large, fit.small) = by_size(
      samples, [&](const Sample& sample) { return log_error(found, sample, c.of_benchmark); });
  score_held_out(fit, trial, c, best, samples);
  score_without_gpu(fit, trial, c, samples, library);
  if (!c.of_benchmark) trial = found;
  return fit;
}

/// What is known before the fit. The power limit acts in a benchmark as its operands make it act.
Trial start_of(Trial trial, const FitClass& c, const std::vector<Sample>& samples) {
  if (samples.empty()) return trial;
  const KernelBenchmark& benchmark = samples.front().benchmark;
  if (c.of_benchmark)
    trial.benchmark = benchmark;
  else
    trial.gpu = with_library_of(trial.gpu, {.energy_share = benchmark.energy_share});
  return trial;
}

/// A figure of a paper tells a rate, not how blocks end; the first three numbers are the rates.
void keep_what_rows_can_tell(FitClass& c, std::size_t rows) {
  constexpr std::size_t many = 200, rates = 3;
  if (rows < many && c.knobs.size() > rates) c.knobs.erase(c.knobs.begin() + rates, c.knobs.end());
}

/// The libraries whose quantized products the rows hold, in the order of the alphabet.
std::vector<FitClass> cast_classes(const std::vector<KernelRow>& rows, const std::string& gpu) {
  std::map<std::pair<std::string, std::string>, int> seen;
  for (const KernelRow& row : rows)
    if (row.gpu == gpu && is_product(row, true) && !row.source.empty())
      ++seen[{row.source, row.dtype}];
  std::vector<FitClass> classes;
  for (const auto& [library, count] : seen)
    if (count > 500) classes.push_back(casts(library.first, library.second));
  return classes;
}

}  // namespace

Result<KernelFit> fit_kernels(const std::vector<KernelRow>& rows, const spec::Library& library,
                              const std::string& gpu) {
  const std::vector<KernelBenchmark> benchmarks = TPT_TRY(load_benchmarks(library));
  Trial trial{.gpu = TPT_TRY(spec::load_gpu(library, gpu))};
  KernelFit fit{.gpu = gpu};
  std::vector<FitClass> classes = {products(), attention_forward(), attention_backward()};
  for (FitClass& c : cast_classes(rows, gpu))
    classes.push_back(std::move(c));
  for (FitClass& c : classes) {
    const std::vector<Sample> samples = samples_of(c, rows, gpu, benchmarks);
    keep_what_rows_can_tell(c, samples.size());
    Trial start = start_of(trial, c, samples);
    if (auto found = fit_one(start, c, samples, library)) {
      fit.classes.push_back(*std::move(found));
      if (!c.of_benchmark) trial.gpu.kernels = start.gpu.kernels;
    }
  }
  if (fit.classes.empty())
    return error(
        fmt::format("no kernel of {} is in the tables (at least 12 rows of a class are "
                    "needed); try another GPU or another table",
                    gpu));
  fit.kernels = trial.gpu.kernels;
  return fit;
}

}  // namespace triplepoint::calibrate
