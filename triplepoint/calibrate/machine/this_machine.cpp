// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/machine/this_machine.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/spec/names.h"
#include "triplepoint/spec/table_writer.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::calibrate {
namespace {

/// One number that is looked for.
struct FitParameter {
  double start, low, high;
};

using Point = std::vector<double>;

/// Smallest value of a function in a box: from the start to the best neighbour along an axis, in
/// steps that are halved where there is none (Hooke and Jeeves, 1961).
Point minimize(const std::vector<FitParameter>& parameters,
               const std::function<double(const Point&)>& f) {
  Point at;
  for (const FitParameter& parameter : parameters)
    at.push_back(parameter.start);
  double least = f(at);
  for (double step = 0.25; step > 1e-4;) {
    const double before = least;
    for (std::size_t i = 0; i < at.size(); ++i)
      for (const double way : {-step, step}) {
        const auto [start, low, high] = parameters[i];
        Point tried = at;
        tried[i] = std::clamp(at[i] + way * (high - low), low, high);
        const double found = f(tried);
        if (found < least) least = found, at = tried;
      }
    if (least == before) step /= 2;
  }
  return at;
}

struct Kernel {
  spec::Op op;
  double seconds;
};

struct Link {
  spec::Collective collective;
  int64_t ranks;
  double bytes, seconds;
};

struct Training {
  spec::Job job;
  double seconds;
};

struct Rows {
  std::string processor;
  int64_t cores = 1;
  double memory_bytes = 0, call_seconds = 0;
  std::vector<Kernel> gemms, attentions;
  std::vector<Link> links;
  std::vector<Training> trainings;
};

spec::Op gemm_op(const Json& row) {
  spec::Op op;
  op.op_class = spec::OpClass::gemm;
  op.precision = spec::Precision::fp32;
  op.gemm = {.m = row.at("m").get<int64_t>(),
             .n = row.at("n").get<int64_t>(),
             .k = row.at("k").get<int64_t>()};
  op.flops = 2.0 * as_real(op.gemm.m * op.gemm.n * op.gemm.k) * unit::FLOP;
  return op;
}

spec::Op attention_op(const Json& row) {
  spec::Op op;
  op.op_class = spec::OpClass::attention;
  op.precision = spec::Precision::fp32;
  op.backward = row.at("backward").get<bool>();
  op.attention.batch = row.at("batch").get<int64_t>();
  op.attention.heads = op.attention.query_groups = row.at("heads").get<int64_t>();
  op.attention.query_length = op.attention.key_length = row.at("length").get<int64_t>();
  op.attention.head_dim = row.at("head_dim").get<int64_t>();
  op.flops = row.at("flops").get<double>() * unit::FLOP;
  return op;
}

Result<Link> link_of(const Json& row) {
  const auto word = row.at("collective").get<std::string>();
  const auto collective = spec::enum_from_name<spec::Collective>(word);
  if (!collective) return error("'{}' is no collective (of a row under links)", word);
  return Link{*collective, row.at("ranks").get<int64_t>(), row.at("bytes").get<double>(),
              row.at("core_seconds").get<double>()};
}

/// One rank alone, as triplepoint-machine trains it.
Result<spec::Job> training_job(const Json& row, const spec::Library& library) {
  spec::Job job = TPT_TRY(spec::parse_job(
      library,
      fmt::format("model = \"{}\"\ncluster = \"laptop\"\nstack = \"triplepoint-train\"\n[plan]\n"
                  "micro_batch_size = {}\nglobal_batch_size = {}\nprecision = \"fp32\"\n"
                  "optimizer = \"fp32_adamw\"\n",
                  row.at("model").get<std::string>(), row.at("micro_batch_size").get<int64_t>(),
                  row.at("global_batch_size").get<int64_t>()),
      "training row"));
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  return job;
}

Result<Rows> read_rows(const Json& json, const spec::Library& library) {
  Rows rows;
  try {
    rows.processor = json.at("processor").get<std::string>();
    rows.cores = json.at("cores").get<int64_t>();
    rows.memory_bytes = json.at("memory_bytes").get<double>();
    rows.call_seconds = json.at("call_seconds").get<double>();
    for (const Json& row : json.at("gemm"))
      rows.gemms.push_back({gemm_op(row), row.at("seconds").get<double>()});
    for (const Json& row : json.at("attention"))
      rows.attentions.push_back({attention_op(row), row.at("seconds").get<double>()});
    for (const Json& row : json.at("links"))
      rows.links.push_back(TPT_TRY(link_of(row)));
    for (const Json& row : json.at("training"))
      rows.trainings.push_back(
          {TPT_TRY(training_job(row, library)), row.at("core_seconds").get<double>()});
  } catch (const Json::exception& problem) {
    return error("the measurement is not what triplepoint-machine writes ({}); measure again",
                 problem.what());
  }
  if (rows.gemms.empty() || rows.attentions.empty() || rows.links.empty() || rows.trainings.empty())
    return error("a class of rows is missing (products, attention, links, steps); measure again");
  return rows;
}

double log_error(double predicted, double measured) {
  const double x = std::log(predicted / measured);
  return x * x;
}

double kernel_seconds(const spec::Gpu& gpu, const spec::Op& op) {
  return perf::kernel_time(gpu, op).at(1) / unit::s;
}

spec::Gpu bare_core(const Rows& rows) {
  spec::Gpu gpu;
  gpu.name = "core";
  gpu.vendor = "cpu";
  gpu.title = "A rank's part of " + rows.processor;
  const double peak = most_of(
      rows.gemms, [](const Kernel& row) { return row.op.flops / unit::FLOP / row.seconds; });
  gpu.peak_fp32 = gpu.peak_bf16 = peak * (unit::FLOP / unit::s);
  gpu.hbm_bandwidth = 1e15 * (unit::B / unit::s);  // until steps are fitted
  gpu.compute_units = 1;
  gpu.memory = rows.memory_bytes * unit::B;
  spec::KernelCoefficients& kernels = gpu.kernels;
  kernels.hbm_share = 1;
  kernels.wave_quantization = 0;
  kernels.tile_m = kernels.tile_n = 16;
  kernels.attention_wave_quantization = 0;
  kernels.attention_tile = 64;
  kernels.grouped_gemm_share = 1;
  kernels.kernel_start = kernels.attention_start = kernels.kernel_floor =
      rows.call_seconds * unit::s;
  return gpu;
}

double sum_of_errors(const spec::Gpu& gpu, const std::vector<Kernel>& rows) {
  return sum_of(
      rows, [&](const Kernel& row) { return log_error(kernel_seconds(gpu, row.op), row.seconds); });
}

void fit_gemms(spec::Gpu& gpu, const std::vector<Kernel>& rows) {
  const auto with = [&](const Point& x) {
    spec::Gpu tried = gpu;
    tried.kernels.gemm_peak_share = x[0];
    tried.kernels.gemm_half_k = x[1];
    return tried;
  };
  const auto misses = [&](const Point& x) { return sum_of_errors(with(x), rows); };
  gpu = with(minimize({{0.9, 0.3, 1.3}, {20, 0, 400}}, misses));
}

void fit_attention(spec::Gpu& gpu, const std::vector<Kernel>& rows) {
  const auto with = [&](const Point& x) {
    spec::Gpu tried = gpu;
    tried.kernels.attention_forward_share = x[0];
    tried.kernels.attention_backward_share = x[1];
    tried.kernels.attention_half_length = x[2];
    tried.kernels.attention_half_head_dim = x[3];
    return tried;
  };
  const auto misses = [&](const Point& x) { return sum_of_errors(with(x), rows); };
  gpu = with(minimize({{0.4, 0.02, 1}, {0.5, 0.02, 1}, {60, 0, 500}, {20, 0, 120}}, misses));
}

double link_seconds(const spec::Cluster& cluster, const Link& row) {
  return perf::collective_time(cluster, row.collective, row.bytes * unit::B,
                               {.ranks = row.ranks, .nodes = 1, .ranks_per_node = row.ranks})
             .total() /
         unit::s;
}

spec::Cluster bare_cluster(int64_t ranks, const Rows& rows) {
  spec::Cluster cluster;
  cluster.name = "this-machine";
  cluster.title = "Processes on " + rows.processor;
  cluster.gpus_per_node = ranks;
  cluster.shared_cores = rows.cores;
  spec::ScaleUp& up = cluster.scale_up;
  up.kind =
      spec::ScaleUpKind::pcie;  // one memory: a rank's rate does not depend on whom it talks to
  up.efficiency = 1;
  up.domain_size = ranks;
  up.local_copy_factor = 0;
  up.low_latency_efficiency = 0.01;  // there is one protocol
  // Between machines, which were not measured: gigabit Ethernet.
  cluster.scale_out.nics_per_node = 1;
  cluster.scale_out.nic_bandwidth = 0.125 * (unit::GB / unit::s);
  cluster.scale_out.latency = 50 * unit::us;
  return cluster;
}

void fit_links(spec::Cluster& cluster, const std::vector<Link>& rows) {
  const auto with = [&](const Point& x) {
    spec::Cluster tried = cluster;
    spec::ScaleUp& up = tried.scale_up;
    up.bandwidth = x[0] * (unit::GB / unit::s);
    up.latency = x[1] * unit::us;
    up.launch = x[2] * unit::us;
    up.point_to_point_efficiency = x[3];
    return tried;
  };
  const auto misses = [&](const Point& x) {
    const spec::Cluster tried = with(x);
    return sum_of(
        rows, [&](const Link& row) { return log_error(link_seconds(tried, row), row.seconds); });
  };
  cluster =
      with(minimize({{8, 0.1, 200}, {0.5, 0.01, 100}, {0.5, 0.01, 100}, {1, 0.1, 4}}, misses));
  cluster.scale_out.launch = cluster.scale_up.launch;
}

double step_seconds(spec::Job job, const spec::Gpu& gpu, const spec::Stack& stack) {
  job.cluster.gpu = gpu;
  job.stack = stack;
  const run::Run run = sim::simulate(job, {.timeline = false});
  return run.steps.empty() ? 1e9 : (run.steps[0].end - run.steps[0].begin) / unit::s;
}

/// What streams, and what a step adds to kernels that were measured alone.
void fit_steps(spec::Gpu& gpu, spec::Stack& stack, const std::vector<Training>& rows) {
  const spec::Gpu alone = gpu;
  const spec::Stack plain = stack;
  const auto set = [&](const Point& x) {
    gpu = alone;
    stack = plain;
    gpu.hbm_bandwidth = x[0] * (unit::GB / unit::s);
    gpu.kernels.in_context_slowdown = x[1];
    // Everything a step costs once goes here; calls cost what they cost.
    stack.step_overhead = x[2] * unit::ms;
  };
  const auto misses = [&](const Point& x) {
    set(x);
    return sum_of(rows, [&](const Training& row) {
      return std::abs(std::log(step_seconds(row.job, gpu, stack) / row.seconds));
    });
  };
  set(minimize({{15, 1, 60}, {1, 0.9, 1.5}, {0.5, 0, 5}}, misses));
}

/// From a core as each device to the equal parts of `shared_cores` that its ranks get where they
/// are more: whatever a core does takes so much longer.
void share_cores(spec::Cluster& cluster) {
  const double share = std::min(1.0, as_real(cluster.shared_cores) / as_real(cluster.num_gpus()));
  spec::Gpu& gpu = cluster.gpu;
  gpu.peak_fp32 = gpu.peak_bf16 = share * *gpu.peak_fp32;
  gpu.hbm_bandwidth = share * *gpu.hbm_bandwidth;
  gpu.memory = *gpu.memory / as_real(cluster.num_gpus());
  spec::KernelCoefficients& kernels = gpu.kernels;
  for (Seconds* start :
       {&kernels.kernel_start, &kernels.attention_start, &kernels.kernel_floor,
        &cluster.scale_up.latency, &cluster.scale_up.launch, &cluster.scale_out.launch})
    *start = *start / share;
  cluster.scale_up.bandwidth = share * cluster.scale_up.bandwidth;
}

template <typename Row, typename Predict>
MachineError errors_of(std::string rows_of, const std::vector<Row>& rows, const Predict& predict) {
  const std::vector<double> off =
      mapped(rows, [&](const Row& row) { return 100 * std::abs(predict(row) / row.seconds - 1); });
  return {std::move(rows_of), static_cast<int64_t>(rows.size()),
          off.empty() ? 0 : upper_median(off), off.empty() ? 0 : *std::ranges::max_element(off)};
}

std::string errors_text(const MachineFit& fit) {
  std::string text;
  for (const MachineError& each : fit.errors)
    text += fmt::format("{}{}: {} rows, median {:.1f} %, worst {:.1f} %", text.empty() ? "" : "; ",
                        each.rows_of, each.rows, each.median_pct, each.worst_pct);
  return text;
}

std::string sources(const MachineFit& fit, const char* table) {
  return fmt::format(
      "\n[[source]]\nkeys = [\"{}.*\"]\nkind = \"measured\"\ncite = {}\n", table,
      toml_text(fmt::format("triplepoint calibrate --this-machine on {}: seconds of a core; {}",
                            fit.processor, errors_text(fit))));
}

/// A file that says every field of a thing.
std::string file_of(const MachineFit& fit, const char* table, auto thing) {
  spec::TableWriter writer(nullptr, table);
  spec::visit_fields(writer, thing);
  return "# SPDX-License-Identifier: Apache-2.0\n# Written by triplepoint calibrate "
         "--this-machine.\n" +
         writer.text() + sources(fit, table);
}

}  // namespace

Result<MachineFit> fit_machine(const Json& json, int64_t ranks, const spec::Library& library) {
  const Rows rows = TPT_TRY(read_rows(json, library));
  MachineFit fit;
  fit.processor = rows.processor;
  spec::Gpu gpu = bare_core(rows);
  fit_gemms(gpu, rows.gemms);
  fit_attention(gpu, rows.attentions);
  const spec::Gpu alone = gpu;
  fit.cluster = bare_cluster(ranks, rows);
  fit_links(fit.cluster, rows.links);
  fit.stack = TPT_TRY(spec::load_stack(library, "triplepoint-train"));
  fit_steps(gpu, fit.stack, rows.trainings);
  const auto kernel = [&](const Kernel& row) { return kernel_seconds(alone, row.op); };
  fit.errors = {errors_of("matrix products", rows.gemms, kernel),
                errors_of("attention", rows.attentions, kernel),
                errors_of("collectives in memory", rows.links,
                          [&](const Link& row) { return link_seconds(fit.cluster, row); }),
                errors_of("steps of one rank", rows.trainings, [&](const Training& row) {
                  return step_seconds(row.job, gpu, fit.stack);
                })};
  fit.cluster.gpu = gpu;
  share_cores(fit.cluster);
  return fit;
}

std::string cluster_toml(const MachineFit& fit) {
  return file_of(fit, "cluster", fit.cluster);
}

std::string stack_toml(const MachineFit& fit) {
  return file_of(fit, "stack", fit.stack);
}

}  // namespace triplepoint::calibrate
