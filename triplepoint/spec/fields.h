// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {

/// Must a key be there where a thing is described from scratch? (Not where it starts from a named
/// base.)
enum class Need { optional, required };

/// The keys of every input, once: reader and writer both walk these lists. A new member of a spec
/// type gets one line here, and is then read, written, checked and shown.
///
/// `visit(key, member, need)` is called in the order in which files are written.

void visit_fields(auto& visit, MixtureOfExperts& moe) {
  visit("num_experts", moe.num_experts, Need::required);
  visit("router_topk", moe.router_topk, Need::required);
  visit("ffn_hidden_size", moe.ffn_hidden_size, Need::required);
  visit("capacity_factor", moe.capacity_factor);
  visit("pad_to_capacity", moe.pad_to_capacity);
  visit("load_imbalance", moe.load_imbalance);
  visit("grouped_gemm", moe.grouped_gemm);
  visit("shared_expert_ffn_hidden_size", moe.shared_expert_ffn_hidden_size);
  visit("num_dense_layers", moe.num_dense_layers);
  visit("layer_period", moe.layer_period);
  visit("latent_size", moe.latent_size);
}

void visit_fields(auto& visit, LatentAttention& latent) {
  visit("query_rank", latent.query_rank, Need::required);
  visit("key_value_rank", latent.key_value_rank, Need::required);
  visit("rope_head_dim", latent.rope_head_dim, Need::required);
  visit("value_head_dim", latent.value_head_dim, Need::required);
  visit("indexer_heads", latent.indexer_heads);
  visit("indexer_head_dim", latent.indexer_head_dim);
  visit("indexer_topk", latent.indexer_topk);
}

void visit_fields(auto& visit, SlidingWindow& window) {
  visit("size", window.size, Need::required);
  visit("full_every", window.full_every);
}

void visit_fields(auto& visit, StateSpace& space) {
  visit("state_size", space.state_size, Need::required);
  visit("num_heads", space.num_heads, Need::required);
  visit("head_dim", space.head_dim, Need::required);
  visit("num_groups", space.num_groups, Need::required);
  visit("conv_width", space.conv_width);
  visit("chunk_size", space.chunk_size);
}

void visit_fields(auto& visit, MultiTokenPrediction& prediction) {
  visit("depths", prediction.depths);
  visit("layer_pattern", prediction.layer_pattern);
}

void visit_fields(auto& visit, Model& model) {
  visit("name", model.name);
  visit("num_layers", model.num_layers, Need::required);
  visit("hidden_size", model.hidden_size, Need::required);
  visit("ffn_hidden_size", model.ffn_hidden_size, Need::required);
  visit("num_attention_heads", model.num_attention_heads, Need::required);
  visit("num_query_groups", model.num_query_groups);
  visit("kv_channels", model.kv_channels);
  visit("sequence_length", model.sequence_length, Need::required);
  visit("vocabulary_size", model.vocabulary_size, Need::required);
  visit("vocabulary_divisible_by", model.vocabulary_divisible_by);
  visit("activation", model.activation, Need::required);
  visit("normalization", model.normalization, Need::required);
  visit("position_embedding", model.position_embedding, Need::required);
  visit("tied_embeddings", model.tied_embeddings, Need::required);
  visit("biases", model.biases, Need::required);
  visit("dropout", model.dropout);
  visit("published_parameters", model.published_parameters);
  visit("published_active_parameters", model.published_active_parameters);
  visit("moe", model.moe);
  visit("latent_attention", model.latent_attention);
  visit("layer_pattern", model.layer_pattern);
  visit("sliding_window", model.sliding_window);
  visit("state_space", model.state_space);
  visit("multi_token_prediction", model.multi_token_prediction);
}

void visit_fields(auto& visit, KernelCoefficients& kernels) {
  visit("gemm_peak_share", kernels.gemm_peak_share, Need::required);
  visit("gemm_fp8_share", kernels.gemm_fp8_share);
  visit("gemm_mxfp8_share", kernels.gemm_mxfp8_share);
  visit("gemm_fp4_share", kernels.gemm_fp4_share);
  visit("gemm_half_k", kernels.gemm_half_k, Need::required);
  visit("gemm_half_tile", kernels.gemm_half_tile);
  visit("wave_quantization", kernels.wave_quantization);
  visit("tile_m", kernels.tile_m, Need::required);
  visit("tile_n", kernels.tile_n, Need::required);
  visit("attention_forward_share", kernels.attention_forward_share, Need::required);
  visit("attention_backward_share", kernels.attention_backward_share, Need::required);
  visit("attention_half_length", kernels.attention_half_length, Need::required);
  visit("attention_half_head_dim", kernels.attention_half_head_dim);
  visit("attention_portable_share", kernels.attention_portable_share);
  visit("attention_tile", kernels.attention_tile);
  visit("attention_wave_quantization", kernels.attention_wave_quantization);
  visit("grouped_gemm_share", kernels.grouped_gemm_share, Need::required);
  visit("hbm_share", kernels.hbm_share, Need::required);
  visit("roofline_norm", kernels.roofline_norm, Need::required);
  visit("clock_insensitive_share", kernels.clock_insensitive_share, Need::required);
  visit("memory_clock_knee", kernels.memory_clock_knee);
  visit("kernel_start", kernels.kernel_start);
  visit("attention_start", kernels.attention_start);
  visit("kernel_floor", kernels.kernel_floor, Need::required);
  visit("in_context_slowdown", kernels.in_context_slowdown);
  visit("elementwise_share", kernels.elementwise_share);
  visit("scan_share", kernels.scan_share);
  visit("rowwise_share", kernels.rowwise_share);
  visit("attention_flash_1_share", kernels.attention_flash_1_share);
}

void visit_fields(auto& visit, PowerCoefficients& power) {
  visit("idle", power.idle, Need::required);
  visit("active_idle", power.active_idle, Need::required);
  visit("waiting", power.waiting, Need::required);
  visit("communicating", power.communicating, Need::required);
  visit("communicating_scale_out", power.communicating_scale_out, Need::required);
  visit("joules_per_tflop", power.joules_per_tflop, Need::required);
  visit("fp8_energy_share", power.fp8_energy_share);
  visit("fp4_energy_share", power.fp4_energy_share);
  visit("joules_per_hbm_gb", power.joules_per_hbm_gb, Need::required);
  visit("joules_per_scale_up_gb", power.joules_per_scale_up_gb, Need::required);
  visit("joules_per_scale_out_gb", power.joules_per_scale_out_gb, Need::required);
  visit("clock_exponent", power.clock_exponent, Need::required);
  visit("energy_floor", power.energy_floor);
  visit("hbm_clocked_share", power.hbm_clocked_share);
  visit("leakage", power.leakage, Need::required);
  visit("leakage_e_fold", power.leakage_e_fold, Need::required);
  visit("reference_temperature", power.reference_temperature, Need::required);
}

void visit_fields(auto& visit, ThermalLadder& thermal) {
  visit("resistances", thermal.resistances, Need::required);
  visit("capacities", thermal.capacities, Need::required);
  visit("memory_resistance", thermal.memory_resistance, Need::required);
  visit("memory_idle", thermal.memory_idle);
  visit("lateral_resistance", thermal.lateral_resistance);
}

void visit_fields(auto& visit, GovernorCoefficients& governor) {
  visit("clock_step", governor.clock_step, Need::required);
  visit("min_clock", governor.min_clock, Need::required);
  visit("power_time_constant", governor.power_time_constant, Need::required);
  visit("target_temperature", governor.target_temperature);
  visit("slowdown_temperature", governor.slowdown_temperature);
  visit("thermal_steps_per_kelvin", governor.thermal_steps_per_kelvin);
  visit("shutdown_temperature", governor.shutdown_temperature);
  visit("regulation_share", governor.regulation_share, Need::required);
}

void visit_fields(auto& visit, SensorCoefficients& sensor) {
  visit("power_window", sensor.power_window, Need::required);
  visit("power_period", sensor.power_period, Need::required);
}

void visit_fields(auto& visit, Variability& variability) {
  visit("dynamic_energy", variability.dynamic_energy, Need::required);
  visit("leakage", variability.leakage, Need::required);
  visit("thermal_resistance", variability.thermal_resistance, Need::required);
}

void visit_fields(auto& visit, Gpu& gpu) {
  visit("name", gpu.name);
  visit("title", gpu.title, Need::required);
  visit("vendor", gpu.vendor, Need::required);
  visit("peak_bf16", gpu.peak_bf16);
  visit("peak_fp16", gpu.peak_fp16);
  visit("peak_fp8", gpu.peak_fp8);
  visit("peak_fp4", gpu.peak_fp4);
  visit("peak_fp32", gpu.peak_fp32);
  visit("hbm_bandwidth", gpu.hbm_bandwidth);
  visit("memory", gpu.memory);
  visit("tdp", gpu.tdp);
  visit("min_power_limit", gpu.min_power_limit);
  visit("max_clock", gpu.max_clock);
  visit("boost_clock", gpu.boost_clock);
  visit("compute_units", gpu.compute_units);
  visit("l2_cache", gpu.l2_cache);
  visit("scale_up_bandwidth", gpu.scale_up_bandwidth);
  visit("host_bandwidth", gpu.host_bandwidth);
  visit("dies_per_package", gpu.dies_per_package);
  visit("kernels", gpu.kernels);
  visit("power", gpu.power);
  visit("thermal", gpu.thermal);
  visit("governor", gpu.governor);
  visit("sensor", gpu.sensor);
  visit("variability", gpu.variability);
}

void visit_fields(auto& visit, ScaleUp& links) {
  visit("kind", links.kind, Need::required);
  visit("bandwidth", links.bandwidth, Need::required);
  visit("efficiency", links.efficiency, Need::required);
  visit("all_to_all_efficiency", links.all_to_all_efficiency);
  visit("point_to_point_efficiency", links.point_to_point_efficiency, Need::required);
  visit("low_latency_efficiency", links.low_latency_efficiency);
  visit("launch", links.launch, Need::required);
  visit("latency", links.latency, Need::required);
  visit("bulk_latency", links.bulk_latency);
  visit("half_size", links.half_size, Need::required);
  visit("local_copy_factor", links.local_copy_factor);
  visit("nvls", links.nvls, Need::required);
  visit("nvls_efficiency", links.nvls_efficiency);
  visit("nvls_latency", links.nvls_latency);
  visit("domain_size", links.domain_size, Need::required);
}

void visit_fields(auto& visit, ScaleOut& fabric) {
  visit("kind", fabric.kind, Need::required);
  visit("nics_per_node", fabric.nics_per_node, Need::required);
  visit("nic_bandwidth", fabric.nic_bandwidth, Need::required);
  visit("efficiency", fabric.efficiency, Need::required);
  visit("point_to_point_efficiency", fabric.point_to_point_efficiency, Need::required);
  visit("all_to_all_efficiency", fabric.all_to_all_efficiency, Need::required);
  visit("latency", fabric.latency, Need::required);
  visit("launch", fabric.launch, Need::required);
  visit("half_size", fabric.half_size, Need::required);
  visit("oversubscription", fabric.oversubscription, Need::required);
  visit("nodes_per_leaf", fabric.nodes_per_leaf, Need::required);
  visit("hop_latency", fabric.hop_latency);
  visit("nodes_per_group", fabric.nodes_per_group);
}

void visit_fields(auto& visit, Slot& slot) {
  visit("inlet_offset", slot.inlet_offset);
  visit("resistance_factor", slot.resistance_factor);
  visit("upstream_heating", slot.upstream_heating);
}

void visit_fields(auto& visit, Chassis& chassis) {
  visit("cooling", chassis.cooling, Need::required);
  visit("inlet", chassis.inlet, Need::required);
  visit("volume_flow_m3_s", chassis.volume_flow_m3_s);
  visit("coolant_heat_capacity_w_per_k", chassis.coolant_heat_capacity_w_per_k);
  visit("sink_flow_exponent", chassis.sink_flow_exponent);
  visit("fixed_heat", chassis.fixed_heat, Need::required);
  visit("fan_power", chassis.fan_power, Need::required);
  visit("fan_floor", chassis.fan_floor, Need::required);
  visit("fan_target", chassis.fan_target, Need::required);
  visit("fan_slew_per_s", chassis.fan_slew_per_s, Need::required);
  visit("inlet_spread", chassis.inlet_spread, Need::required);
  visit("slots", chassis.slots, Need::required);
}

void visit_fields(auto& visit, Host& host) {
  visit("cpu_idle", host.cpu_idle, Need::required);
  visit("cpu_busy", host.cpu_busy, Need::required);
  visit("nic_power", host.nic_power, Need::required);
  visit("switch_power", host.switch_power, Need::required);
  visit("conversion_efficiency", host.conversion_efficiency, Need::required);
  visit("speed_spread", host.speed_spread, Need::required);
}

void visit_fields(auto& visit, Cluster& cluster) {
  visit("name", cluster.name);
  visit("title", cluster.title, Need::required);
  visit("num_nodes", cluster.num_nodes, Need::required);
  visit("gpus_per_node", cluster.gpus_per_node, Need::required);
  visit("shared_cores", cluster.shared_cores);
  visit("gpu", cluster.gpu, Need::required);
  visit("scale_up", cluster.scale_up, Need::required);
  visit("scale_out", cluster.scale_out, Need::required);
  visit("chassis", cluster.chassis);
  visit("liquid_chassis", cluster.liquid_chassis);
  visit("host", cluster.host);
}

void visit_fields(auto& visit, Stack& stack) {
  visit("name", stack.name);
  visit("framework", stack.framework, Need::required);
  visit("version", stack.version, Need::required);
  visit("optimizer", stack.optimizer);
  visit("cuda_graphs", stack.cuda_graphs);
  visit("profiled", stack.profiled);
  visit("kernel_launch", stack.kernel_launch, Need::required);
  visit("layer_forward_host", stack.layer_forward_host, Need::required);
  visit("layer_backward_host", stack.layer_backward_host, Need::required);
  visit("tensor_collective_host", stack.tensor_collective_host);
  visit("microbatch_gap", stack.microbatch_gap, Need::required);
  visit("step_overhead", stack.step_overhead, Need::required);
  visit("tensor_overlap_compute_loss", stack.tensor_overlap_compute_loss, Need::required);
  visit("overlap_compute_loss", stack.overlap_compute_loss, Need::required);
  visit("overlap_transfer_stretch", stack.overlap_transfer_stretch, Need::required);
  visit("memory_fragmentation", stack.memory_fragmentation, Need::required);
  visit("framework_reserve", stack.framework_reserve, Need::required);
  visit("loss_kernels", stack.loss_kernels);
  visit("gradients_in_place", stack.gradients_in_place);
  visit("moe_layer_host", stack.moe_layer_host);
  visit("moe_expert_host", stack.moe_expert_host);
  visit("fused_norms", stack.fused_norms);
  visit("fused_activations", stack.fused_activations);
  visit("fused_casts", stack.fused_casts);
  visit("rowwise_scales", stack.rowwise_scales);
  visit("attention_kernels", stack.attention_kernels);
  visit("fused_moe_dispatch", stack.fused_moe_dispatch);
  visit("moe_sends_every_copy", stack.moe_sends_every_copy);
  visit("fp8_frozen_weights", stack.fp8_frozen_weights);
  visit("fp8_gate_inputs", stack.fp8_gate_inputs);
  visit("recompute_stops_early", stack.recompute_stops_early);
  visit("fsdp_promotes_residual", stack.fsdp_promotes_residual);
  visit("sharded_tensors", stack.sharded_tensors);
  visit("context_attention", stack.context_attention);
  visit("gradient_sync_accumulates", stack.gradient_sync_accumulates);
}

void visit_fields(auto& visit, OptimizerState& optimizer) {
  visit("name", optimizer.name);
  visit("weight_bytes", optimizer.weight_bytes, Need::required);
  visit("gradient_bytes", optimizer.gradient_bytes, Need::required);
  visit("moment_bytes", optimizer.moment_bytes, Need::required);
  visit("master_bytes", optimizer.master_bytes, Need::required);
  visit("gradient_sync_bytes", optimizer.gradient_sync_bytes, Need::required);
}

void visit_fields(auto& visit, Lora& lora) {
  visit("rank", lora.rank);
  visit("targets", lora.targets);
  visit("dropout", lora.dropout);
  visit("all_to_all", lora.all_to_all);
}

void visit_fields(auto& visit, PipelineSends& sends) {
  visit("chunk", sends.chunk);
  visit("nics", sends.nics);
  visit("microbatches", sends.microbatches);
  visit("scatter_gather", sends.scatter_gather);
}

void visit_fields(auto& visit, Records& records) {
  visit("name", records.name);
  visit("lengths", records.lengths, Need::required);
  visit("shares", records.shares, Need::required);
}

void visit_fields(auto& visit, Plan& plan) {
  visit("tensor_parallel_size", plan.tensor_parallel_size);
  visit("pipeline_parallel_size", plan.pipeline_parallel_size);
  visit("context_parallel_size", plan.context_parallel_size);
  visit("context_exchange", plan.context_exchange);
  visit("expert_parallel_size", plan.expert_parallel_size);
  visit("expert_tensor_parallel_size", plan.expert_tensor_parallel_size);
  visit("virtual_pipeline_size", plan.virtual_pipeline_size);
  visit("sequence_parallel", plan.sequence_parallel);
  visit("micro_batch_size", plan.micro_batch_size);
  visit("global_batch_size", plan.global_batch_size);
  visit("sharding", plan.sharding);
  visit("sharding_group_size", plan.sharding_group_size);
  visit("reshard_after_forward", plan.reshard_after_forward);
  visit("prefetch_depth", plan.prefetch_depth);
  visit("cuda_device_max_connections", plan.cuda_device_max_connections);
  visit("recompute", plan.recompute);
  visit("recompute_layers", plan.recompute_layers);
  visit("recompute_modules", plan.recompute_modules);
  visit("activation_offload", plan.activation_offload);
  visit("overlap_tensor", plan.overlap_tensor);
  visit("overlap_gradient", plan.overlap_gradient);
  visit("overlap_parameter", plan.overlap_parameter);
  visit("overlap_pipeline", plan.overlap_pipeline);
  visit("overlap_expert", plan.overlap_expert);
  visit("packed_length", plan.packed_length);
  visit("record_layout", plan.record_layout);
  visit("gradient_bucket", plan.gradient_bucket);
  visit("schedule", plan.schedule);
  visit("rank_order", plan.rank_order);
  visit("layers_per_stage", plan.layers_per_stage);
  visit("device_order", plan.device_order);
  visit("node_order", plan.node_order);
  visit("precision", plan.precision);
  visit("fp8_attention", plan.fp8_attention);
  visit("fp32_residual", plan.fp32_residual);
  visit("optimizer", plan.optimizer);
  visit("sends", plan.sends);
  visit("lora", plan.lora);
}

void visit_fields(auto& visit, Fault& fault) {
  visit("kind", fault.kind, Need::required);
  visit("gpu", fault.gpu);
  visit("node", fault.node);
  visit("share", fault.share);
  visit("rise", fault.rise);
  visit("begin", fault.begin);
  visit("end", fault.end);
  visit("period", fault.period);
  visit("restart", fault.restart);
}

void visit_fields(auto& visit, Environment& environment) {
  visit("ambient", environment.ambient);
  visit("cooling", environment.cooling);
  visit("power_limit", environment.power_limit);
  visit("device_power_limits", environment.device_power_limits);
  visit("device_clock_limits", environment.device_clock_limits);
  visit("device_resistances", environment.device_resistances);
  visit("seed", environment.seed);
  visit("pue", environment.pue);
  visit("faults", environment.faults);
}

void visit_fields(auto& visit, Diagnosis& diagnosis) {
  visit("code", diagnosis.code, Need::required);
  visit("severity", diagnosis.severity, Need::required);
  visit("what", diagnosis.what, Need::required);
}

/// Keys of a job file that set one value of its cluster or model.
struct JobShortcuts {
  std::optional<int64_t> nodes;  // machines; default: 1, or all of a cluster file of your own
  std::optional<int64_t> sequence_length;  // tokens; default: the model's
};

void visit_fields(auto& visit, JobShortcuts& shortcuts) {
  visit("nodes", shortcuts.nodes);
  visit("sequence_length", shortcuts.sequence_length);
}

/// What a study says of itself.
struct StudyHead {
  std::string title;
  std::string about;                 // text of the report
  std::vector<std::string> include;  // other studies, whose jobs come first
};

void visit_fields(auto& visit, StudyHead& head) {
  visit("title", head.title, Need::required);
  visit("about", head.about);
  visit("include", head.include);
}

void visit_fields(auto& visit, ScoreWeight& weight) {
  visit("name", weight.name, Need::required);
  visit("weight", weight.weight, Need::required);
  visit("halves", weight.halves);
}

void visit_fields(auto& visit, ScoreReference& reference) {
  visit("job", reference.job, Need::required);
  visit("values", reference.values, Need::required);
}

void visit_fields(auto& visit, ScoreRules& rules) {
  visit("warm_up", rules.warm_up, Need::required);
  visit("duration", rules.duration, Need::required);
  visit("repeats", rules.repeats);
  visit("metric", rules.metric, Need::required);
  visit("reference", rules.reference);
}

/// Where numbers of a file come from.
struct Source {
  std::vector<std::string> keys;  // dotted: "gpu.tdp"; "gpu.*" is everything below gpu
  NumberKind kind = NumberKind::assumed;
  std::string cite;
};

void visit_fields(auto& visit, Source& source) {
  visit("keys", source.keys, Need::required);
  visit("kind", source.kind, Need::required);
  visit("cite", source.cite, Need::required);
}

/// Keys of a job file, outermost level.
void visit_fields(auto& visit, Job& job) {
  visit("name", job.name);
  visit("origin", job.origin);
  visit("task", job.task);
  visit("notes", job.notes);
  visit("model", job.model, Need::required);
  visit("cluster", job.cluster, Need::required);
  visit("stack", job.stack);
  visit("plan", job.plan);
  visit("records", job.records);
  visit("environment", job.environment);
}

}  // namespace triplepoint::spec
