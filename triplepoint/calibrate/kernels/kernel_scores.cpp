// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/kernels/kernel_scores.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "triplepoint/base/unit_text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/clock/governor.h"
#include "triplepoint/perf/collective_time.h"
#include "triplepoint/perf/kernel_time.h"
#include "triplepoint/power/power.h"

namespace triplepoint::calibrate {
namespace {

std::string missing_for(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.peak(op.precision))
    return fmt::format("the {} peak of {} is not known", spec::name_of(op.precision), gpu.name);
  if (!gpu.hbm_bandwidth || !gpu.compute_units)
    return fmt::format("the memory bandwidth or the compute units of {} are not known", gpu.name);
  return {};
}

/// A GPU under the library of a benchmark.
struct Bench {
  spec::Gpu gpu;
  KernelBenchmark benchmark;
};

/// Benches by what makes them differ: a table names few of them many times.
class Benches {
 public:
  Benches(const spec::Library& library, std::vector<KernelBenchmark> known)
      : gpus_(library), known_(std::move(known)) {}
  Result<const Bench*> of(const KernelRow& row) {
    const spec::AttentionShape& shape = row.op.attention;
    const Key key{row.gpu, row.source, row.dtype, static_cast<int>(row.op.op_class),
                  shape.query_groups < shape.heads};
    if (const auto found = benches_.find(key); found != benches_.end()) return &found->second;
    const Result<spec::Gpu>& gpu = gpus_.gpu(row.gpu);
    if (!gpu) return tl::unexpected(gpu.error());
    const KernelBenchmark benchmark = benchmark_of(row, known_);
    return &benches_.emplace(key, Bench{with_library_of(*gpu, benchmark), benchmark}).first->second;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string, int, bool>;
  GpuCache gpus_;
  std::vector<KernelBenchmark> known_;
  std::map<Key, Bench> benches_;
};

ScoredRow scored(const KernelRow& row, Seconds predicted) {
  ScoredRow score{.row_id = row.row_id,
                  .family = family_by_size(row),
                  .quantity = "latency_us",
                  .sweep = row.family,
                  .measured = row.measured / unit::us,
                  .predicted = predicted / unit::us};
  if (!row.best_of_many) return score;
  score.family = row.family;
  score.quantity = "tflops";
  score.measured = row.op.flops / row.measured / (unit::TFLOP / unit::s);
  score.predicted = row.op.flops / predicted / (unit::TFLOP / unit::s);
  return score;
}

void score_latency(const KernelRow& row, Benches& benches, TableScores& scores) {
  const Result<const Bench*> bench = benches.of(row);
  const std::string reason = bench ? missing_for((*bench)->gpu, row.op) : bench.error().what;
  if (!reason.empty())
    scores.skip(row.row_id, reason);
  else
    scores.scored.push_back(scored(row, predicted_time((*bench)->gpu, row, (*bench)->benchmark)));
}

Watts power_when_looped(const spec::Gpu& gpu, const spec::Op& op, double clock_ratio) {
  const Seconds time = perf::kernel_time(gpu, op).at(clock_ratio);
  return power::gpu_power(*gpu.power, looped_load(gpu, op, time), clock_ratio, benchmark_die, {});
}

/// Of a burst after a rest, the share that runs at the clock of the power limit.
double capped_share(const spec::Gpu& gpu, const spec::Op& op, Seconds burst) {
  if (!gpu.power || !gpu.governor || !gpu.max_clock || !gpu.tdp) return 0;
  spec::GpuLoad nothing;
  nothing.duration = burst;
  const Watts rest = power::gpu_power(*gpu.power, nothing, 1, benchmark_die, {});
  const Seconds free = clock::time_to_cap(*gpu.governor, rest, power_when_looped(gpu, op, 1),
                                          clock::power_cap(*gpu.governor, *gpu.tdp), burst);
  return 1 - free / burst;
}

Seconds kernel_in_benchmark(const spec::Gpu& gpu, const KernelRow& row, double launches) {
  const perf::KernelTime time = perf::kernel_time(gpu, row.op);
  const Seconds cold = time.at(1);
  const double capped =
      row.repetition == Repetition::looped ? 1 : capped_share(gpu, row.op, launches * cold);
  if (capped <= 0) return cold;
  return (1 - capped) * cold + capped * time.at(sustained_clock_ratio(gpu, row.op));
}

Seconds cast_time(const spec::Gpu& gpu, const KernelRow& row, const KernelBenchmark& benchmark) {
  if (!spec::is_quantized(row.op.precision)) return {};
  const spec::GemmShape& shape = row.op.gemm;
  const double elements = as_real(shape.m) * as_real(shape.k);
  const BytesPerSecond rate = *gpu.hbm_bandwidth * gpu.kernels.hbm_share;
  return benchmark.cast_bytes * elements * unit::B / rate + benchmark.cast_start;
}

}  // namespace

double sustained_clock_ratio(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.power || !gpu.governor || !gpu.max_clock || !gpu.tdp) return 1;
  const auto power_at = [&](double ratio) { return power_when_looped(gpu, op, ratio); };
  const auto choice = clock::choose_clock(*gpu.governor, *gpu.max_clock, *gpu.tdp, power_at);
  return choice.clock / *gpu.max_clock;
}

Seconds predicted_time(const spec::Gpu& gpu, const KernelRow& row,
                       const KernelBenchmark& benchmark) {
  return std::max(benchmark.host_time, kernel_in_benchmark(gpu, row, benchmark.launches) +
                                           cast_time(gpu, row, benchmark));
}

std::string family_by_size(const KernelRow& row) {
  constexpr Seconds large = 100 * unit::us;
  return row.family + (row.measured >= large ? "/large" : "/small");
}

Result<TableScores> score_kernel_table(const CsvTable& table, const ScoreContext& context) {
  TableScores scores{.table = "kernels", .rows = static_cast<int64_t>(table.rows())};
  const std::vector<KernelBenchmark> known = TPT_TRY(load_benchmarks(context.library));
  Benches benches(context.library, known);
  std::vector<KernelRow> with_power;
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (cells.text("kind") == "collective") continue;
    Result<KernelRow> row = cells.is_skipped() ? error(cells.text("skip")) : read_kernel_row(cells);
    if (!row) {
      scores.skip(cells.id(), row.error().what);
      continue;
    }
    score_latency(*row, benches, scores);
    if (row->power_share > 0) with_power.push_back(*std::move(row));
  }
  score_collective_rows(table, context.library, scores);
  GpuCache gpus(context.library);
  for (const KernelRow& row : with_power) {
    const Result<spec::Gpu>& gpu = gpus.gpu(row.gpu);
    if (!gpu) continue;  // its latency says why
    Result<ScoredRow> scored = score_kernel_power(*gpu, row, benchmark_of(row, known));
    if (scored) scores.scored.push_back(*std::move(scored));
  }
  return scores;
}

namespace {

std::string missing_for_power(const spec::Gpu& gpu, const spec::Op& op) {
  if (!gpu.peak(op.precision) || !gpu.hbm_bandwidth || !gpu.compute_units)
    return fmt::format("peak, memory bandwidth or compute units of {} are not known", gpu.name);
  if (!gpu.power || !gpu.governor || !gpu.max_clock || !gpu.tdp)
    return fmt::format("{} has no power model", gpu.name);
  return {};
}

// A product that lasts this long fills the meter's averaging window with its repetitions; of a
// shorter one the mean holds a part of rest. Powers of 10,710 bf16 products grow in proportion to
// their duration up to here, on H200 and B200 alike; attention kernels show nothing of it.
constexpr Seconds meter_fill = 70 * unit::us;
// From this many keys on, the meter's window includes the pause before attention: 848
// kernels of a B200 show this share of what they draw above rest, where kernels over 10240 keys
// show all of it.
constexpr int64_t keys_after_a_pause = 12288;
constexpr double shown_after_a_pause = 0.70;

/// The share of a loop's power above rest that the benchmark's meter shows.
double shown_share(const spec::Op& op, Seconds duration) {
  if (op.op_class == spec::OpClass::attention)
    return op.attention.key_length < keys_after_a_pause ? 1 : shown_after_a_pause;
  return op.op_class == spec::OpClass::gemm ? std::min(1.0, duration / meter_fill) : 1;
}

/// A product over and over with what its benchmark times beside it, at any clock.
class RepeatedKernel {
 public:
  RepeatedKernel(const spec::Gpu& gpu, const KernelRow& row, const KernelBenchmark& benchmark)
      : gpu_(gpu), op_(row.op), time_(perf::kernel_time(gpu, row.op)), host_(benchmark.host_time) {
    const Seconds one = predicted_time(gpu, row, benchmark);
    if (one > host_)
      cast_ = std::max(Seconds(), one - time_.at(sustained_clock_ratio(gpu, row.op)));
    if (spec::is_quantized(op_.precision))
      cast_bytes_ = benchmark.cast_bytes * as_real(op_.gemm.m) * as_real(op_.gemm.k) * unit::B;
  }
  spec::GpuLoad load(double clock_ratio) const {
    const Seconds kernel = time_.at(clock_ratio);
    spec::GpuLoad load = looped_load(gpu_, op_, kernel);
    load.hbm_bytes += cast_bytes_;
    load.computing = kernel + cast_;
    load.duration = std::max(load.computing, host_);
    return load;
  }
  /// The limit holds for means over many kernels and what lies between them, not for a kernel.
  double settled_ratio() const {
    const auto power_at = [&](double ratio) {
      return power::gpu_power(*gpu_.power, load(ratio), ratio, benchmark_die, {});
    };
    return clock::choose_clock(*gpu_.governor, *gpu_.max_clock, *gpu_.tdp, power_at).clock /
           *gpu_.max_clock;
  }

 private:
  const spec::Gpu& gpu_;
  const spec::Op& op_;
  perf::KernelTime time_;
  Seconds host_, cast_;
  Bytes cast_bytes_;
};

/// Kernel, cast and what the host leaves between them, over and over, as the meter shows it.
Watts predicted_power(const spec::Gpu& gpu, const KernelRow& row,
                      const KernelBenchmark& benchmark) {
  const RepeatedKernel repeated(gpu, row, benchmark);
  const double ratio = repeated.settled_ratio();
  const spec::GpuLoad load = repeated.load(ratio);
  const Watts drawn = power::gpu_power(*gpu.power, load, ratio, benchmark_die, {});
  const double shown = shown_share(row.op, load.duration);
  if (shown >= 1) return drawn;
  spec::GpuLoad nothing;
  nothing.duration = load.duration;
  const Watts rest = power::gpu_power(*gpu.power, nothing, 1, benchmark_die, {});
  return rest + shown * (drawn - rest);
}

}  // namespace

spec::GpuLoad looped_load(const spec::Gpu& gpu, const spec::Op& op, Seconds duration) {
  spec::GpuLoad load;
  load.duration = load.computing = duration;
  load.flops[as_size(op.op_class)] = perf::energy_flops(gpu, op);
  load.hbm_bytes = op.hbm_bytes;
  // Attention draws the same power in 8 bits: softmax and data movement stay what they were.
  if (op.op_class == spec::OpClass::attention) return load;
  if (op.precision == spec::Precision::nvfp4)
    load.fp4_flops = op.flops;
  else if (spec::is_quantized(op.precision))
    load.fp8_flops = op.flops;
  return load;
}

Result<ScoredRow> score_kernel_power(const spec::Gpu& gpu, const KernelRow& row,
                                     const KernelBenchmark& benchmark) {
  if (std::string reason = missing_for_power(gpu, row.op); !reason.empty()) return error(reason);
  const Watts predicted = predicted_power(with_library_of(gpu, benchmark), row, benchmark);
  return ScoredRow{.row_id = row.row_id,
                   .family = "power " + family_by_size(row),
                   .quantity = "power_w",
                   .measured = row.power_share * (*gpu.tdp / unit::W),
                   .predicted = predicted / unit::W};
}

namespace {

Result<spec::Cluster> machine_of(const CollectiveRow& row, const spec::Library& library) {
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, row.cluster));
  if (!row.nic_bandwidth.empty())
    cluster.scale_out.nic_bandwidth = TPT_TRY(parse_quantity<BytesPerSecond>(row.nic_bandwidth));
  if (!row.nvls.empty()) cluster.scale_up.nvls = row.nvls == "true";
  return cluster;
}

/// Machines by what makes them differ; a table names few of them many times.
class Machines {
 public:
  explicit Machines(const spec::Library& library) : library_(library) {}
  const Result<spec::Cluster>& of(const CollectiveRow& row) {
    const Key key{row.cluster, row.nic_bandwidth, row.nvls};
    return get_or_make(machines_, key, [&] { return machine_of(row, library_); });
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  const spec::Library& library_;
  std::map<Key, Result<spec::Cluster>> machines_;
};

const char* size_class(Bytes payload) {
  if (payload >= 16 * unit::MB) return "large";
  return payload < 1 * unit::MB ? "small" : "between";
}

ScoredRow scored(const CollectiveRow& row, Seconds predicted) {
  ScoredRow score{.row_id = row.row_id,
                  .family = fmt::format("{}/{}", row.family, size_class(row.payload)),
                  .quantity = "latency_us",
                  .sweep = row.family,
                  .measured = row.latency / unit::us,
                  .predicted = predicted / unit::us};
  if (row.latency > Seconds()) return score;
  score.quantity = "busbw_gb_per_s";
  score.measured = row.busbw_gb_per_s;
  score.predicted = row.payload / predicted / (unit::GB / unit::s) *
                    perf::bus_bandwidth_factor(row.collective, row.ranks);
  return score;
}

std::string note_on_fabric(const CollectiveRow& row, const spec::Cluster& cluster) {
  return fmt::format("{} nodes as in {}, {} NICs of {:.0f} Gb/s", row.nodes, row.cluster,
                     cluster.scale_out.nics_per_node,
                     cluster.scale_out.nic_bandwidth / (unit::Gb / unit::s));
}

Result<void> score_row(const Cells& cells, Machines& machines, TableScores& scores) {
  if (cells.is_skipped()) return error(cells.text("skip"));
  const CollectiveRow row = TPT_TRY(read_collective_row(cells));
  const Result<spec::Cluster>& machine = machines.of(row);
  if (!machine) return tl::unexpected(machine.error());
  scores.scored.push_back(scored(row, predicted_time(*machine, row)));
  std::vector<std::string>& notes = scores.scored.back().notes;
  if (cells.has("assumptions")) notes.push_back(cells.text("assumptions"));
  if (row.nodes > 1) notes.push_back(note_on_fabric(row, *machine));
  return {};
}

}  // namespace

Result<CollectiveRow> read_collective_row(const Cells& cells) {
  const auto collective = spec::enum_from_name<spec::Collective>(cells.text("op"));
  if (!collective) return error("no collective is called '{}'", cells.text("op"));
  CollectiveRow row{.row_id = cells.id(),
                    .family = cells.family(),
                    .cluster = cells.text("cluster"),
                    .nic_bandwidth = cells.text("nic_bandwidth"),
                    .nvls = cells.text("nvls"),
                    .collective = *collective,
                    .ranks = cells.count("n_gpus"),
                    .nodes = std::max<int64_t>(1, cells.count("n_nodes")),
                    .payload = cells.number_or("msg_bytes", 0) * unit::B,
                    .latency = cells.number_or("latency_us", 0) * unit::us,
                    .busbw_gb_per_s = cells.number_or("busbw_gb_per_s", 0)};
  if (row.ranks < 2) return error("fewer than two GPUs are stated");
  if (row.latency <= Seconds() && row.busbw_gb_per_s <= 0)
    return error("no latency or rate is stated");
  return row;
}

Seconds predicted_time(const spec::Cluster& cluster, const CollectiveRow& row) {
  const perf::GroupPlacement group{
      .ranks = row.ranks, .nodes = row.nodes, .ranks_per_node = row.ranks / row.nodes};
  return perf::collective_time(cluster, row.collective, row.payload, group).total();
}

void score_collective_rows(const CsvTable& table, const spec::Library& library,
                           TableScores& scores) {
  Machines machines(library);
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (cells.text("kind") != "collective") continue;
    const auto done = score_row(cells, machines, scores);
    if (!done) scores.skip(cells.id(), done.error().what);
  }
}

}  // namespace triplepoint::calibrate
