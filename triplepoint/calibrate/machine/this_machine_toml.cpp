// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "triplepoint/calibrate/machine/this_machine.h"

namespace triplepoint::calibrate {
namespace {

std::string quoted_errors(const MachineFit& fit) {
  std::string text;
  for (const MachineError& each : fit.errors)
    text += fmt::format("{}{}: {} rows, median {:.1f} %, worst {:.1f} %", text.empty() ? "" : "; ",
                        each.rows_of, each.rows, each.median_pct, each.worst_pct);
  return text;
}

std::string escaped(std::string text) {
  for (char& c : text)
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = ' ';
  return text;
}

std::string sources(const MachineFit& fit, const char* keys) {
  return fmt::format(
      "\n[[source]]\nkeys = [\"{}\"]\nkind = \"measured\"\ncite = \"triplepoint calibrate "
      "--this-machine on {}: seconds of a core; {}\"\n",
      keys, escaped(fit.processor), escaped(quoted_errors(fit)));
}

std::string core_toml(const spec::Gpu& gpu) {
  const spec::KernelCoefficients& k = gpu.kernels;
  std::string text = fmt::format(
      "\n[cluster.gpu]\nname = \"{}\"\ntitle = \"{}\"\nvendor = \"cpu\"\npeak_fp32 = \"{:.5g} "
      "GFLOP/s\"\npeak_bf16 = \"{:.5g} GFLOP/s\"\nhbm_bandwidth = \"{:.5g} GB/s\"\nmemory = "
      "\"{:.5g} MB\"\ncompute_units = 1\n",
      gpu.name, escaped(gpu.title), *gpu.peak_fp32 / (unit::FLOP / unit::s) / 1e9,
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
      "[cluster]\ntitle = \"Emulated on {}\"\nnum_nodes = {}\ngpus_per_node = {}\nshared_cores = "
      "{}\n",
      escaped(fit.processor), cluster.num_nodes, cluster.gpus_per_node, cluster.shared_cores);
  text += core_toml(cluster.gpu);
  text += fmt::format(
      "\n[cluster.scale_up]\nkind = \"pcie\"\nbandwidth = \"{:.5g} GB/s\"\nefficiency = 1\n"
      "all_to_all_efficiency = {:.5g}\npoint_to_point_efficiency = {:.5g}\n"
      "low_latency_efficiency = {:.5g}\nlaunch = \"{:.5g} us\"\nlatency = \"{:.5g} us\"\n"
      "half_size = \"0 B\"\nnvls = false\ndomain_size = {}\n",
      up.bandwidth / (unit::GB / unit::s), up.all_to_all_efficiency, up.point_to_point_efficiency,
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
