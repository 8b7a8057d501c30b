// SPDX-License-Identifier: Apache-2.0
// Fits the coefficients of perf/ to measured tables and says how well they do, by folds over
// shapes.
//
//   fit_perf gemm       GPU SYSTEM DTYPE CSV [key=value ...]
//   fit_perf attention  GPU SYSTEM       CSV [key=value ...]
//   fit_perf collective CLUSTER SYSTEM NCCL_VERSION CSV [key=value ...]
//
// GPU, CLUSTER: names in data/; SYSTEM, DTYPE, NCCL_VERSION: as the table spells them.
// key=value fixes a coefficient; max_power=0.9 keeps rows below 90 % of the power limit only,
// min_us=100 keeps rows of 100 us and more;
// max_head_dim, max_us, min_power likewise; quick leaves out the cross-validation, dump prints each
// row.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "triplepoint/spec/load.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/kernel_time.h"

#include "fit_rows.h"
#include "nelder_mead.h"

namespace triplepoint::fit {
namespace {

using Settings = std::map<std::string, double>;

/// How the numbers that are looked for get into the thing they describe, and what it then predicts.
struct Problem {
  std::vector<Parameter> parameters;
  std::function<std::function<double(const Row&)>(const std::vector<double>&)>
      predictor;  // seconds
};

/// A chip being tried. The fp8 tables time the quantization of the left operand with the product;
/// it is a kernel of its own in training, so it must not end up in the product's efficiency.
struct Trial {
  spec::Gpu gpu;
  double quantize_bytes = 0;  // per element of the left operand
  Seconds quantize_start;
};

struct Knob {
  Parameter parameter;
  std::function<void(Trial&, double)> set;
};

double predicted_seconds(const Trial& trial, const Row& row) {
  const Seconds product = perf::kernel_time(trial.gpu, row.op).at(1);
  if (row.op.op_class != spec::OpClass::gemm || row.op.precision != spec::Precision::fp8)
    return product / unit::s;
  const double elements = static_cast<double>(row.op.gemm.m) * static_cast<double>(row.op.gemm.k);
  const Bytes touched = trial.quantize_bytes * elements * unit::B;
  const BytesPerSecond rate = *trial.gpu.hbm_bandwidth * trial.gpu.kernels.hbm_share;
  return (product + touched / rate + trial.quantize_start) / unit::s;
}

std::vector<Knob> gemm_knobs(bool fp8) {
  using K = Trial;
  return {
      {{fp8 ? "gemm_fp8_share" : "gemm_peak_share", 0.8, 0.3, 1.15},
       [fp8](K& k, double v) {
         (fp8 ? k.gpu.kernels.gemm_fp8_share : k.gpu.kernels.gemm_peak_share) = v;
       }},
      {{"gemm_half_k", 60, 0, 800}, [](K& k, double v) { k.gpu.kernels.gemm_half_k = v; }},
      {{"gemm_half_tile", 40, 0, 250}, [](K& k, double v) { k.gpu.kernels.gemm_half_tile = v; }},
      {{"wave_quantization", 0.5, 0, 1},
       [](K& k, double v) { k.gpu.kernels.wave_quantization = v; }},
      {{"roofline_norm", 4, 1.2, 10}, [](K& k, double v) { k.gpu.kernels.roofline_norm = v; }},
      {{"hbm_share", 0.85, 0.5, 0.95}, [](K& k, double v) { k.gpu.kernels.hbm_share = v; }},
      {{"kernel_start_us", 2, 0, 10},
       [](K& k, double v) { k.gpu.kernels.kernel_start = v * unit::us; }}};
}

std::vector<Knob> fp8_knobs() {
  std::vector<Knob> knobs = gemm_knobs(true);
  knobs.push_back({{"quantize_bytes", 5, 0, 20}, [](Trial& t, double v) { t.quantize_bytes = v; }});
  knobs.push_back({{"quantize_start_us", 5, 0, 200},
                   [](Trial& t, double v) { t.quantize_start = v * unit::us; }});
  return knobs;
}

std::vector<Knob> attention_knobs() {
  using K = Trial;
  return {{{"attention_forward_share", 0.5, 0.1, 1.1},
           [](K& k, double v) { k.gpu.kernels.attention_forward_share = v; }},
          {{"attention_half_length", 700, 0, 3000},
           [](K& k, double v) { k.gpu.kernels.attention_half_length = v; }},
          {{"attention_half_head_dim", 80, 0, 300},
           [](K& k, double v) { k.gpu.kernels.attention_half_head_dim = v; }},
          {{"attention_wave_quantization", 0.5, 0, 1},
           [](K& k, double v) { k.gpu.kernels.attention_wave_quantization = v; }},
          {{"attention_start_us", 3, 0, 12},
           [](K& k, double v) { k.gpu.kernels.attention_start = v * unit::us; }}};
}

void apply_fixed(const Settings& fixed, spec::KernelCoefficients& kernels) {
  const auto set = [&](const char* key, auto& member) {
    if (const auto found = fixed.find(key); found != fixed.end())
      member = static_cast<std::decay_t<decltype(member)>>(found->second);
  };
  set("tile_m", kernels.tile_m);
  set("tile_n", kernels.tile_n);
  set("attention_tile", kernels.attention_tile);
  set("hbm_share", kernels.hbm_share);
  set("roofline_norm", kernels.roofline_norm);
}

template <class KnobType>
std::vector<KnobType> free_knobs(std::vector<KnobType> knobs, const Settings& fixed,
                                 const std::function<void(KnobType&, double)>& fix) {
  std::vector<KnobType> free;
  for (KnobType& knob : knobs) {
    const auto found = fixed.find(knob.parameter.name);
    if (found == fixed.end())
      free.push_back(knob);
    else
      fix(knob, found->second);
  }
  return free;
}

Problem kernel_problem(spec::Gpu gpu, std::vector<Knob> all, const Settings& fixed) {
  gpu.kernels.kernel_floor = Seconds();
  apply_fixed(fixed, gpu.kernels);
  Trial trial{.gpu = std::move(gpu), .quantize_start = {}};
  const auto knobs = free_knobs<Knob>(std::move(all), fixed,
                                      [&](Knob& knob, double value) { knob.set(trial, value); });
  Problem problem;
  for (const Knob& knob : knobs)
    problem.parameters.push_back(knob.parameter);
  problem.predictor = [trial, knobs](const std::vector<double>& at) {
    Trial tried = trial;
    for (std::size_t i = 0; i < at.size(); ++i)
      knobs[i].set(tried, at[i]);
    return [tried](const Row& row) { return predicted_seconds(tried, row); };
  };
  return problem;
}

struct LinkKnob {
  Parameter parameter;
  std::function<void(spec::ScaleUp&, double)> set;
};

std::vector<LinkKnob> link_knobs() {
  using S = spec::ScaleUp;
  return {{{"efficiency", 0.8, 0.3, 1}, [](S& s, double v) { s.efficiency = v; }},
          {{"all_to_all_efficiency", 0.75, 0.3, 1},
           [](S& s, double v) { s.all_to_all_efficiency = v; }},
          {{"low_latency_efficiency", 0.2, 0.005, 0.6},
           [](S& s, double v) { s.low_latency_efficiency = v; }},
          {{"launch_us", 7, 1, 20}, [](S& s, double v) { s.launch = v * unit::us; }},
          {{"latency_us", 1, 0, 5}, [](S& s, double v) { s.latency = v * unit::us; }},
          {{"bulk_latency_us", 1, 0, 10}, [](S& s, double v) { s.bulk_latency = v * unit::us; }},
          {{"half_size_mb", 2, 0, 20}, [](S& s, double v) { s.half_size = v * unit::MB; }},
          {{"local_copy_factor", 1.8, 0.5, 6}, [](S& s, double v) { s.local_copy_factor = v; }},
          {{"nvls_efficiency", 0.57, 0.5, 0.65}, [](S& s, double v) { s.nvls_efficiency = v; }},
          {{"nvls_latency_us", 40, 0, 100}, [](S& s, double v) { s.nvls_latency = v * unit::us; }}};
}

Problem link_problem(spec::Cluster cluster, const Settings& fixed) {
  if (fixed.contains("nvls")) cluster.scale_up.nvls = fixed.at("nvls") > 0;
  const auto knobs = free_knobs<LinkKnob>(link_knobs(), fixed, [&](LinkKnob& knob, double value) {
    knob.set(cluster.scale_up, value);
  });
  Problem problem;
  for (const LinkKnob& knob : knobs)
    problem.parameters.push_back(knob.parameter);
  problem.predictor = [cluster, knobs](const std::vector<double>& at) {
    spec::Cluster tried = cluster;
    for (std::size_t i = 0; i < at.size(); ++i)
      knobs[i].set(tried.scale_up, at[i]);
    return [tried](const Row& row) {
      const perf::GroupPlacement group{.ranks = row.ranks, .nodes = 1, .ranks_per_node = row.ranks};
      return perf::collective_time(tried, row.op.collective, row.op.payload, group).total() /
             unit::s;
    };
  };
  return problem;
}

double mean_error(const Problem& problem, const std::vector<Row>& rows,
                  const std::vector<double>& at) {
  const auto predict = problem.predictor(at);
  double sum = 0;
  for (const Row& row : rows)
    sum += std::abs(std::log(predict(row) / (row.measured / unit::s)));
  return sum / static_cast<double>(rows.size());
}

Minimum fit_rows(const Problem& problem, const std::vector<Row>& rows, int evaluations) {
  return minimize(
      problem.parameters,
      [&](const std::vector<double>& at) { return mean_error(problem, rows, at); }, evaluations);
}

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

struct Residual {
  const Row* row;
  double log_ratio;
};

void print_class(const char* name, const std::vector<Residual>& all,
                 const std::function<bool(const Row&)>& belongs) {
  std::vector<double> size, sign;
  for (const Residual& r : all)
    if (belongs(*r.row)) {
      size.push_back(std::abs(std::exp(r.log_ratio) - 1));
      sign.push_back(std::exp(r.log_ratio) - 1);
    }
  if (size.empty()) return;
  fmt::print("  {:<24} rows {:>5}  median {:>5.1f} %  p90 {:>5.1f} %  signed median {:>+5.1f} %\n",
             name, size.size(), 100 * quantile(size, 0.5), 100 * quantile(size, 0.9),
             100 * quantile(sign, 0.5));
}

void print_residuals(const std::vector<Residual>& all) {
  if (all[0].row->op.is_communication()) {
    const auto payload = [](const Row& r) { return r.op.payload / unit::MiB; };
    print_class("below 1 MiB", all, [&](const Row& r) { return payload(r) < 1; });
    print_class("1 to 16 MiB", all,
                [&](const Row& r) { return payload(r) >= 1 && payload(r) < 16; });
    print_class("16 MiB and more", all, [&](const Row& r) { return payload(r) >= 16; });
    return;
  }
  const auto us = [](const Row& r) { return r.measured / unit::us; };
  print_class("below 30 us", all, [&](const Row& r) { return us(r) < 30; });
  print_class("30 to 100 us", all, [&](const Row& r) { return us(r) >= 30 && us(r) < 100; });
  print_class("small: below 100 us", all, [&](const Row& r) { return us(r) < 100; });
  print_class("100 us to 1 ms", all, [&](const Row& r) { return us(r) >= 100 && us(r) < 1000; });
  print_class("1 ms and more", all, [&](const Row& r) { return us(r) >= 1000; });
  print_class("large: 100 us and more", all, [&](const Row& r) { return us(r) >= 100; });
}

std::vector<Residual> held_out(Problem problem, const std::vector<Row>& rows,
                               const Minimum& whole) {
  constexpr uint64_t folds = 5;
  for (std::size_t i = 0; i < problem.parameters.size(); ++i)
    problem.parameters[i].start = whole.at[i];
  std::vector<Residual> all;
  for (uint64_t fold = 0; fold < folds; ++fold) {
    std::vector<Row> seen;
    for (const Row& row : rows)
      if ((row.shape >> 32U) % folds != fold) seen.push_back(row);
    const auto predict = problem.predictor(fit_rows(problem, seen, 300).at);
    for (const Row& row : rows)
      if ((row.shape >> 32U) % folds == fold)
        all.push_back({&row, std::log(predict(row) / (row.measured / unit::s))});
  }
  return all;
}

void solve(const Problem& problem, const std::vector<Row>& rows, const Settings& settings) {
  const int evaluations =
      settings.contains("evaluations") ? static_cast<int>(settings.at("evaluations")) : 1200;
  const Minimum best = problem.parameters.empty() ? Minimum{{}, mean_error(problem, rows, {})}
                                                  : fit_rows(problem, rows, evaluations);
  fmt::print("{} rows, mean |log error| {:.4f}\n", rows.size(), best.value);
  for (std::size_t i = 0; i < best.at.size(); ++i) {
    const Parameter& p = problem.parameters[i];
    const double edge = (p.high - p.low) * 0.005;
    const bool on_bound = best.at[i] < p.low + edge || best.at[i] > p.high - edge;
    fmt::print("  {:<26} {:.5g}{}\n", p.name, best.at[i], on_bound ? "   (on its bound)" : "");
  }
  std::vector<Residual> all;
  all.reserve(rows.size());
  const auto predict = problem.predictor(best.at);
  for (const Row& row : rows)
    all.push_back({&row, std::log(predict(row) / (row.measured / unit::s))});
  fmt::print("in sample\n");
  print_residuals(all);
  if (settings.contains("dump")) {
    for (const Residual& r : all)
      fmt::print("row {} {} {} {} {} {} {} {} {:.6g} {:.4f} {:.3f}\n",
                 static_cast<int>(r.row->op.collective), r.row->ranks, r.row->op.payload / unit::B,
                 r.row->op.gemm.m, r.row->op.gemm.n, r.row->op.gemm.k,
                 r.row->op.attention.key_length, r.row->op.attention.head_dim,
                 r.row->measured / unit::us, r.log_ratio, r.row->power_share);
  }
  if (problem.parameters.empty() || settings.contains("quick")) return;
  fmt::print("held out, 5 folds over shapes\n");
  print_residuals(held_out(problem, rows, best));
}

std::vector<Row> chosen(std::vector<Row> rows, const Settings& settings) {
  const auto limit = [&](const char* key, double otherwise) {
    return settings.contains(key) ? settings.at(key) : otherwise;
  };
  const double most_power = limit("max_power", 10), least_power = limit("min_power", -1);
  const double least_us = limit("min_us", 0), most_us = limit("max_us", 1e12);
  const auto most_head_dim = static_cast<int64_t>(limit("max_head_dim", 1e6));
  std::erase_if(rows, [&](const Row& row) {
    const double us = row.measured / unit::us;
    return row.power_share > most_power || row.power_share < least_power || us < least_us ||
           us > most_us || row.op.attention.head_dim > most_head_dim;
  });
  return rows;
}

Settings settings_from(int argc, char** argv, int first) {
  Settings settings;
  for (int i = first; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto equals = argument.find('=');
    settings[argument.substr(0, equals)] =
        equals == std::string::npos ? 1 : std::strtod(argument.c_str() + equals + 1, nullptr);
  }
  return settings;
}

Result<void> run(int argc, char** argv) {
  const auto argument = [&](int i) { return std::string(i < argc ? argv[i] : ""); };
  const std::string what = argument(1);
  const spec::Library library = spec::default_library();
  if (what == "gemm") {
    const Settings settings = settings_from(argc, argv, 6);
    const auto rows = TPT_TRY(read_gemms(argument(5), argument(3), argument(4)));
    const auto gpu = TPT_TRY(spec::load_gpu(library, argument(2)));
    const bool fp8 = argument(4) != "bfloat16";
    solve(kernel_problem(gpu, fp8 ? fp8_knobs() : gemm_knobs(false), settings),
          chosen(rows, settings), settings);
    return {};
  }
  if (what == "attention") {
    const Settings settings = settings_from(argc, argv, 5);
    const auto rows = TPT_TRY(read_attentions(argument(4), argument(3)));
    const auto gpu = TPT_TRY(spec::load_gpu(library, argument(2)));
    solve(kernel_problem(gpu, attention_knobs(), settings), chosen(rows, settings), settings);
    return {};
  }
  if (what == "collective") {
    const Settings settings = settings_from(argc, argv, 6);
    const auto rows = TPT_TRY(read_collectives(argument(5), argument(3), argument(4)));
    const auto cluster = TPT_TRY(spec::load_cluster(library, argument(2)));
    solve(link_problem(cluster, settings), chosen(rows, settings), settings);
    return {};
  }
  return error("no such fit '" + what +
               "' (it is the first argument); try gemm, attention or collective");
}

}  // namespace
}  // namespace triplepoint::fit

int main(int argc, char** argv) {
  const auto done = triplepoint::fit::run(argc, argv);
  if (done) return 0;
  fmt::print(stderr, "{}\n", done.error().what);
  return 1;
}
