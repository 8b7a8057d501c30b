// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/advise/clock_export.h"

#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/csv.h"

#include "triplepoint/workload/rank_grid.h"

namespace triplepoint::advise {
namespace {

long long whole_mhz(Hertz clock) {
  return std::llround(clock / unit::MHz);
}

struct Setting {
  int64_t gpu;
  long long clock_mhz, lowest_mhz, cap_w;
};

std::string nvidia_line(const Setting& set) {
  return fmt::format("    nvidia-smi -i {0} -lgc {1},{2}   # instead: nvidia-smi -i {0} -pl {3}\n",
                     set.gpu, set.lowest_mhz, set.clock_mhz, set.cap_w);
}

std::string amd_line(const Setting& set) {
  return fmt::format(
      "    amd-smi set -g {0} --clk-limit sclk max {1}   # instead: amd-smi set -g {0} --power-cap "
      "{2}\n",
      set.gpu, set.clock_mhz, set.cap_w);
}

}  // namespace

std::string clock_csv(const spec::Job& job, const ClockPlan& plan, const ClockPoint& point) {
  const std::vector<std::string> header = {"rank",
                                           "node",
                                           "gpu",
                                           "stage",
                                           "clock_mhz",
                                           "power_cap_w",
                                           "clock_before_mhz",
                                           "power_before_w",
                                           "clock_mean_mhz",
                                           "power_w"};
  CsvWriter csv(header);
  const workload::RankGrid grid(job);
  const double max_mhz = *job.cluster.gpu.max_clock / unit::MHz;
  for (int64_t rank = 0; rank < job.world_size(); ++rank) {
    const int64_t device = grid.device_of(rank);
    const auto d = static_cast<size_t>(device);
    csv.cell(rank).cell(device / job.cluster.gpus_per_node);
    csv.cell(device % job.cluster.gpus_per_node).cell(grid.coordinates(rank).pipeline);
    csv.cell(static_cast<int64_t>(whole_mhz(point.clocks[d])));
    csv.cell(static_cast<int64_t>(std::llround(point.caps[d] / unit::W)));
    csv.cell(plan.baseline.clock_ratio[d] * max_mhz).cell(plan.baseline.device_power[d] / unit::W);
    csv.cell(point.step.clock_ratio[d] * max_mhz).cell(point.step.device_power[d] / unit::W);
    csv.end_row();
  }
  return csv.text();
}

std::string clock_script(const spec::Job& job, const ClockPoint& point) {
  const bool amd = job.cluster.gpu.vendor == "amd";
  const long long lowest = whole_mhz(job.cluster.gpu.governor->min_clock);
  std::string text = fmt::format(
      "#!/bin/sh\n"
      "# Clocks for {}: predicted {:.2f} % less energy of the GPUs, {:.2f} % longer steps.\n"
      "# Read it, then run it on every node as root with the node's number: sh clocks.sh 0\n"
      "# Nodes and GPUs count as in clocks.csv. Back to normal: {}\n"
      "case \"$1\" in\n",
      job.name.empty() ? job.model.name : job.name, 100 * point.saving, 100 * point.slowdown,
      amd ? "amd-smi reset -g all -c" : "nvidia-smi -rgc");
  const int64_t per_node = job.cluster.gpus_per_node;
  for (int64_t node = 0; node < job.cluster.num_nodes; ++node) {
    text += fmt::format("  {})\n", node);
    for (int64_t gpu = 0; gpu < per_node; ++gpu) {
      const auto d = static_cast<size_t>(node * per_node + gpu);
      const Setting set{.gpu = gpu,
                        .clock_mhz = whole_mhz(point.clocks[d]),
                        .lowest_mhz = lowest,
                        .cap_w = std::llround(point.caps[d] / unit::W)};
      text += amd ? amd_line(set) : nvidia_line(set);
    }
    text += "    ;;\n";
  }
  return text +
         fmt::format("  *)\n    echo \"usage: $0 NODE (0 to {})\" >&2\n    exit 2\n    ;;\nesac\n",
                     job.cluster.num_nodes - 1);
}

}  // namespace triplepoint::advise
