// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/machine/this_machine.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/statistics.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/sim/simulate.h"

namespace triplepoint::calibrate {
namespace {

/// One number that is looked for.
struct FitParameter {
  std::string name;
  double start, low, high;
};

struct Minimum {
  std::vector<double> at;
  double value;
};

using Point = std::vector<double>;
using Function = std::function<double(const Point&)>;

struct Vertex {
  Point at;
  double value;
};

Point between(const Point& a, const Point& b, double t) {  // a + t (b - a)
  Point p(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    p[i] = a[i] + t * (b[i] - a[i]);
  return p;
}

Point centre_of_all_but_worst(const std::vector<Vertex>& simplex) {
  Point centre(simplex[0].at.size(), 0);
  for (std::size_t v = 0; v + 1 < simplex.size(); ++v)
    for (std::size_t i = 0; i < centre.size(); ++i)
      centre[i] += simplex[v].at[i] / static_cast<double>(simplex.size() - 1);
  return centre;
}

void shrink(std::vector<Vertex>& simplex, const Function& f) {
  for (std::size_t v = 1; v < simplex.size(); ++v) {
    simplex[v].at = between(simplex[0].at, simplex[v].at, 0.5);
    simplex[v].value = f(simplex[v].at);
  }
}

void step(std::vector<Vertex>& simplex, const Function& f) {
  std::sort(simplex.begin(), simplex.end(),
            [](const Vertex& a, const Vertex& b) { return a.value < b.value; });
  Vertex& worst = simplex.back();
  const Point centre = centre_of_all_but_worst(simplex);
  const auto try_at = [&](double t) {
    const Point p = between(centre, worst.at, t);
    return Vertex{p, f(p)};
  };
  const Vertex reflected = try_at(-1);
  if (reflected.value < simplex.front().value) {
    const Vertex expanded = try_at(-2);
    worst = expanded.value < reflected.value ? expanded : reflected;
    return;
  }
  if (reflected.value < simplex[simplex.size() - 2].value) {
    worst = reflected;
    return;
  }
  const Vertex contracted = try_at(reflected.value < worst.value ? -0.5 : 0.5);
  if (contracted.value < std::min(worst.value, reflected.value))
    worst = contracted;
  else
    shrink(simplex, f);
}

Vertex descend(Point start, double size, const Function& f, int evaluations) {
  std::vector<Vertex> simplex{{start, f(start)}};
  for (std::size_t i = 0; i < start.size(); ++i) {
    Point corner = start;
    corner[i] += corner[i] > 0.5 ? -size : size;
    simplex.push_back({corner, f(corner)});
  }
  for (int used = 0; used < evaluations; used += 2)
    step(simplex, f);
  return *std::min_element(simplex.begin(), simplex.end(),
                           [](const Vertex& a, const Vertex& b) { return a.value < b.value; });
}

/// Smallest value of a function in a box, from several starts. Downhill simplex (Nelder & Mead,
/// 1965) in coordinates that map each range to 0..1; outside of the box the nearest point inside
/// counts, with a penalty. Deterministic.
Minimum minimize(const std::vector<FitParameter>& parameters,
                 const std::function<double(const std::vector<double>&)>& f, int evaluations) {
  const auto real = [&](const Point& unit) {
    Point p(unit.size());
    for (std::size_t i = 0; i < p.size(); ++i)
      p[i] = parameters[i].low +
             std::clamp(unit[i], 0.0, 1.0) * (parameters[i].high - parameters[i].low);
    return p;
  };
  const Function inside = [&](const Point& unit) {
    double outside = 0;
    for (const double u : unit)
      outside += std::max(0.0, u - 1) + std::max(0.0, -u);
    return f(real(unit)) + outside;
  };
  Point start;
  for (const FitParameter& p : parameters)
    start.push_back((p.start - p.low) / (p.high - p.low));
  Vertex best{start, inside(start)};
  for (const double size : {0.3, 0.15, 0.3, 0.08}) {
    const Vertex found = descend(best.at, size, inside, evaluations / 4);
    if (found.value < best.value) best = found;
  }
  return {real(best.at), best.value};
}

using spec::Collective;

struct Kernel {
  spec::Op op;
  double seconds;
};

struct Link {
  Collective collective;
  int64_t ranks;
  double bytes, seconds;
};

struct Training {
  spec::Job job;
  double seconds;
};

struct Rows {
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
  op.flops = 2.0 * static_cast<double>(op.gemm.m * op.gemm.n * op.gemm.k) * unit::FLOP;
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
  const auto collective = spec::enum_from_name<Collective>(word);
  if (!collective) return error(fmt::format("'{}' is no collective (of a row under links)", word));
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
    return error(
        fmt::format("the measurement is not what triplepoint-machine writes ({}); measure again",
                    problem.what()));
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

spec::Gpu bare_core(const Rows& rows, const Json& json) {
  spec::Gpu gpu;
  gpu.name = "core";
  gpu.vendor = "cpu";
  gpu.title = fmt::format("A rank's part of {}", json.value("processor", "a processor"));
  double peak = 0;
  for (const Kernel& row : rows.gemms)
    peak = std::max(peak, row.op.flops / unit::FLOP / row.seconds);
  gpu.peak_fp32 = gpu.peak_bf16 = peak * (unit::FLOP / unit::s);
  gpu.hbm_bandwidth = 1e15 * (unit::B / unit::s);  // until steps are fitted
  gpu.compute_units = 1;
  gpu.memory = json.value("memory_bytes", 4e9) * unit::B;
  spec::KernelCoefficients& kernels = gpu.kernels;
  kernels.hbm_share = 1;
  kernels.wave_quantization = 0;
  kernels.tile_m = kernels.tile_n = 16;
  kernels.attention_wave_quantization = 0;
  kernels.attention_tile = 64;
  kernels.grouped_gemm_share = 1;
  kernels.kernel_start = kernels.attention_start = kernels.kernel_floor =
      json.value("call_seconds", 0.0) * unit::s;
  return gpu;
}

double sum_of_errors(const spec::Gpu& gpu, const std::vector<Kernel>& rows) {
  double sum = 0;
  for (const Kernel& row : rows)
    sum += log_error(kernel_seconds(gpu, row.op), row.seconds);
  return sum;
}

void fit_gemms(spec::Gpu& gpu, const std::vector<Kernel>& rows) {
  const auto with = [&](const std::vector<double>& x) {
    spec::Gpu tried = gpu;
    tried.kernels.gemm_peak_share = x[0];
    tried.kernels.gemm_half_k = x[1];
    return tried;
  };
  const Minimum best = minimize(
      {{"share", 0.9, 0.3, 1.3}, {"half_k", 20, 0, 400}},
      [&](const std::vector<double>& x) { return sum_of_errors(with(x), rows); }, 300);
  gpu = with(best.at);
}

void fit_attention(spec::Gpu& gpu, const std::vector<Kernel>& rows) {
  const auto with = [&](const std::vector<double>& x) {
    spec::Gpu tried = gpu;
    tried.kernels.attention_forward_share = x[0];
    tried.kernels.attention_backward_share = x[1];
    tried.kernels.attention_half_length = x[2];
    tried.kernels.attention_half_head_dim = x[3];
    return tried;
  };
  const Minimum best = minimize(
      {{"forward", 0.4, 0.02, 1},
       {"backward", 0.5, 0.02, 1},
       {"length", 60, 0, 500},
       {"head_dim", 20, 0, 120}},
      [&](const std::vector<double>& x) { return sum_of_errors(with(x), rows); }, 600);
  gpu = with(best.at);
}

double link_seconds(const spec::Cluster& cluster, const Link& row) {
  return perf::collective_time(cluster, row.collective, row.bytes * unit::B,
                               {.ranks = row.ranks, .nodes = 1, .ranks_per_node = row.ranks})
             .total() /
         unit::s;
}

spec::Cluster bare_cluster(const EmulatedCluster& emulated, int64_t cores) {
  spec::Cluster cluster;
  cluster.name = emulated.name;
  cluster.num_nodes = emulated.nodes;
  cluster.gpus_per_node = emulated.ranks_per_node;
  cluster.shared_cores = cores;
  spec::ScaleUp& up = cluster.scale_up;
  up.kind =
      spec::ScaleUpKind::pcie;  // one memory: a rank's rate does not depend on whom it talks to
  up.efficiency = 1;
  up.domain_size = emulated.ranks_per_node;
  up.local_copy_factor = 0;
  up.low_latency_efficiency = 0.01;  // there is one protocol
  spec::ScaleOut& out = cluster.scale_out;
  out.nics_per_node = 1;
  out.nic_bandwidth = emulated.fabric_bandwidth;
  out.efficiency = out.point_to_point_efficiency = out.all_to_all_efficiency =
      emulated.fabric_efficiency;
  out.latency = emulated.fabric_latency;
  return cluster;
}

void fit_links(spec::Cluster& cluster, const std::vector<Link>& rows) {
  const auto with = [&](const std::vector<double>& x) {
    spec::Cluster tried = cluster;
    spec::ScaleUp& up = tried.scale_up;
    up.bandwidth = x[0] * (unit::GB / unit::s);
    up.latency = x[1] * unit::us;
    up.launch = x[2] * unit::us;
    up.point_to_point_efficiency = x[3];
    return tried;
  };
  const auto misses = [&](const std::vector<double>& x) {
    const spec::Cluster tried = with(x);
    double sum = 0;
    for (const Link& row : rows)
      sum += log_error(link_seconds(tried, row), row.seconds);
    return sum;
  };
  const Minimum best = minimize({{"bandwidth", 8, 0.1, 200},
                                 {"latency", 0.5, 0.01, 100},
                                 {"launch", 0.5, 0.01, 100},
                                 {"point_to_point", 1, 0.1, 4}},
                                misses, 800);
  cluster = with(best.at);
  cluster.scale_out.launch = cluster.scale_up.launch;
}

double step_seconds(spec::Job job, const spec::Gpu& gpu, const spec::Stack& stack) {
  job.cluster.gpu = gpu;
  job.stack = stack;
  const run::Run run = sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false});
  return run.steps.empty() ? 1e9 : (run.steps[0].end - run.steps[0].begin) / unit::s;
}

/// What streams, and what a step adds to kernels that were measured alone.
void fit_steps(spec::Gpu& gpu, spec::Stack& stack, const std::vector<Training>& rows) {
  const spec::Gpu alone = gpu;
  const spec::Stack plain = stack;
  const auto set = [&](const std::vector<double>& x) {
    gpu = alone;
    stack = plain;
    gpu.hbm_bandwidth = x[0] * (unit::GB / unit::s);
    gpu.kernels.in_context_slowdown = x[1];
    // Everything a step costs once goes here; calls cost what they cost.
    stack.step_overhead = x[2] * unit::ms;
  };
  const Minimum best = minimize(
      {{"bandwidth", 15, 1, 60}, {"slowdown", 1, 0.9, 1.5}, {"overhead", 0.5, 0, 5}},
      [&](const std::vector<double>& x) {
        set(x);
        double sum = 0;
        for (const Training& row : rows)
          sum += std::abs(std::log(step_seconds(row.job, gpu, stack) / row.seconds));
        return sum;
      },
      300);
  set(best.at);
}

/// From a core as each device to the equal parts of `shared_cores` that its ranks get where they
/// are more: whatever a core does takes so much longer. The fabric is no core's work.
void share_cores(spec::Cluster& cluster) {
  const double share = std::min(
      1.0, static_cast<double>(cluster.shared_cores) / static_cast<double>(cluster.num_gpus()));
  spec::Gpu& gpu = cluster.gpu;
  gpu.peak_fp32 = gpu.peak_bf16 = share * *gpu.peak_fp32;
  gpu.hbm_bandwidth = share * *gpu.hbm_bandwidth;
  gpu.memory = *gpu.memory / static_cast<double>(cluster.num_gpus());
  spec::KernelCoefficients& kernels = gpu.kernels;
  for (Seconds* start :
       {&kernels.kernel_start, &kernels.attention_start, &kernels.kernel_floor,
        &cluster.scale_up.latency, &cluster.scale_up.launch, &cluster.scale_out.launch})
    *start = *start / share;
  cluster.scale_up.bandwidth = share * cluster.scale_up.bandwidth;
}

template <typename Row, typename Predict>
MachineError errors_of(std::string rows_of, const std::vector<Row>& rows, const Predict& predict) {
  std::vector<double> off;
  off.reserve(rows.size());
  for (const Row& row : rows)
    off.push_back(100 * std::abs(predict(row) / row.seconds - 1));
  return {std::move(rows_of), static_cast<int64_t>(rows.size()),
          off.empty() ? 0 : upper_median(off),
          off.empty() ? 0 : *std::max_element(off.begin(), off.end())};
}

}  // namespace

Result<MachineFit> fit_machine(const Json& json, const EmulatedCluster& emulated,
                               const spec::Library& library) {
  const Rows rows = TPT_TRY(read_rows(json, library));
  MachineFit fit;
  fit.processor = json.value("processor", "unknown processor");
  spec::Gpu gpu = bare_core(rows, json);
  fit_gemms(gpu, rows.gemms);
  fit_attention(gpu, rows.attentions);
  const spec::Gpu alone = gpu;
  fit.cluster = bare_cluster(emulated, json.value("cores", int64_t{1}));
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

namespace {

std::string errors_text(const MachineFit& fit) {
  std::string text;
  for (const MachineError& each : fit.errors)
    text += fmt::format("{}{}: {} rows, median {:.1f} %, worst {:.1f} %", text.empty() ? "" : "; ",
                        each.rows_of, each.rows, each.median_pct, each.worst_pct);
  return text;
}

std::string sources(const MachineFit& fit, const char* keys) {
  return fmt::format(
      "\n[[source]]\nkeys = [\"{}\"]\nkind = \"measured\"\ncite = {}\n", keys,
      toml_text(fmt::format("triplepoint calibrate --this-machine on {}: seconds of a core; {}",
                            fit.processor, errors_text(fit))));
}

std::string core_toml(const spec::Gpu& gpu) {
  const spec::KernelCoefficients& k = gpu.kernels;
  std::string text = fmt::format(
      "\n[cluster.gpu]\nname = \"{}\"\ntitle = {}\nvendor = \"cpu\"\npeak_fp32 = \"{:.5g} "
      "GFLOP/s\"\npeak_bf16 = \"{:.5g} GFLOP/s\"\nhbm_bandwidth = \"{:.5g} GB/s\"\nmemory = "
      "\"{:.5g} MB\"\ncompute_units = 1\n",
      gpu.name, toml_text(gpu.title), *gpu.peak_fp32 / (unit::FLOP / unit::s) / 1e9,
      *gpu.peak_bf16 / (unit::FLOP / unit::s) / 1e9, *gpu.hbm_bandwidth / (unit::GB / unit::s),
      *gpu.memory / unit::MB);
  text += fmt::format(
      "\n[cluster.gpu.kernels]\ngemm_peak_share = {:.5g}\ngemm_half_k = {:.5g}\n"
      "wave_quantization = 0\ntile_m = {}\ntile_n = {}\nattention_forward_share = {:.5g}\n"
      "attention_backward_share = {:.5g}\nattention_half_length = {:.5g}\n"
      "attention_half_head_dim = {:.5g}\nattention_tile = {}\nattention_wave_quantization = 0\n"
      "grouped_gemm_share = {:.5g}\nhbm_share = {:.5g}\nroofline_norm = {:.5g}\n"
      "clock_insensitive_share = 0\nin_context_slowdown = {:.5g}\nkernel_start = \"{:.5g} "
      "us\"\nattention_start = \"{:.5g} "
      "us\"\nkernel_floor = \"{:.5g} us\"\n",
      k.gemm_peak_share, k.gemm_half_k, k.tile_m, k.tile_n, k.attention_forward_share,
      k.attention_backward_share, k.attention_half_length, k.attention_half_head_dim,
      k.attention_tile, k.grouped_gemm_share, k.hbm_share, k.roofline_norm, k.in_context_slowdown,
      k.kernel_start / unit::us, k.attention_start / unit::us, k.kernel_floor / unit::us);
  return text;
}

}  // namespace

std::string cluster_toml(const MachineFit& fit) {
  const spec::Cluster& cluster = fit.cluster;
  const spec::ScaleUp& up = cluster.scale_up;
  const spec::ScaleOut& out = cluster.scale_out;
  std::string text = fmt::format(
      "# SPDX-License-Identifier: Apache-2.0\n# Written by triplepoint calibrate --this-machine.\n"
      "[cluster]\ntitle = {}\nnum_nodes = {}\ngpus_per_node = {}\nshared_cores = "
      "{}\n",
      toml_text("Emulated on " + fit.processor), cluster.num_nodes, cluster.gpus_per_node,
      cluster.shared_cores);
  text += core_toml(cluster.gpu);
  text += fmt::format(
      "\n[cluster.scale_up]\nkind = \"pcie\"\nbandwidth = \"{:.5g} GB/s\"\nefficiency = 1\n"
      "point_to_point_efficiency = {:.5g}\n"
      "low_latency_efficiency = {:.5g}\nlaunch = \"{:.5g} us\"\nlatency = \"{:.5g} us\"\n"
      "half_size = \"0 B\"\nnvls = false\ndomain_size = {}\n",
      up.bandwidth / (unit::GB / unit::s), up.point_to_point_efficiency,
      up.low_latency_efficiency, up.launch / unit::us, up.latency / unit::us, up.domain_size);
  text += fmt::format(
      "\n[cluster.scale_out]\nkind = \"fat_tree\"\nnics_per_node = {}\nnic_bandwidth = \"{:.5g} "
      "MB/s\"\nefficiency = {:.5g}\npoint_to_point_efficiency = {:.5g}\n"
      "all_to_all_efficiency = {:.5g}\nlatency = \"{:.5g} us\"\nlaunch = \"{:.5g} us\"\nhalf_size "
      "= \"0 B\"\noversubscription = "
      "1\nnodes_per_leaf = {}\n",
      out.nics_per_node, out.nic_bandwidth / (unit::MB / unit::s), out.efficiency,
      out.point_to_point_efficiency, out.all_to_all_efficiency, out.latency / unit::us,
      out.launch / unit::us, out.nodes_per_leaf);
  return text + sources(fit, "cluster.*");
}

std::string stack_toml(const MachineFit& fit) {
  const spec::Stack& stack = fit.stack;
  return fmt::format(
             "# SPDX-License-Identifier: Apache-2.0\n# Written by triplepoint calibrate "
             "--this-machine.\n[stack]\nframework = \"{}\"\nversion = \"{}\"\nkernel_launch = "
             "\"{:.5g} us\"\nlayer_forward_host = \"0 us\"\nlayer_backward_host = \"0 us\"\n"
             "microbatch_gap = \"{:.5g} us\"\nstep_overhead = \"{:.5g} ms\"\n"
             "memory_fragmentation = {:.5g}\nframework_reserve = \"{:.5g} "
             "MB\"\ntensor_overlap_compute_loss = 0\noverlap_compute_loss = "
             "0\noverlap_transfer_stretch = 0\n",
             stack.framework, stack.version, stack.kernel_launch / unit::us,
             stack.microbatch_gap / unit::us, stack.step_overhead / unit::ms,
             stack.memory_fragmentation, stack.framework_reserve / unit::MB) +
         sources(fit, "stack.*");
}

}  // namespace triplepoint::calibrate
