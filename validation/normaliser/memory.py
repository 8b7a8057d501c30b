# SPDX-License-Identifier: Apache-2.0
"""A rough estimate of what a layout needs, to guess layouts that a row does not print. It errs on the side of fitting: the program has the real model.

Bytes of a rank:  states      parameters / (TP x PP, experts / (EP x PP)) x bytes of weight, gradient and optimizer, each over the ranks that share it
                  activations of a layer and token, 16 bits: residual and norms 8 h, QKV and attention's output, MLP's inputs and outputs; all over TP where sequences are
                              split, without residual and norms where not; scores (5 a s) without flash attention; 2 h alone under full recompute
                  in flight   a first stage holds as many microbatches as there are stages, so all layers' worth of one microbatch over TP
                  logits      by kind of loss, of the last stage
"""
from . import library
from .models import matrices, parameters

RESERVE = 4e9         # context, NCCL buffers, workspace
ROOM = 0.97           # what an allocator leaves
LOGIT_BYTES = {"fused": 4, "megatron_fused": 4, "megatron": 6, "floats": 8, "op_by_op": 12, "none": 0}  # triplepoint/workload/memory.cpp


def layer_bytes(shape, tokens, tensor, split_sequences, flash, recompute):
    h, heads, groups, head = (shape[key] for key in ("hidden_size", "num_attention_heads", "num_query_groups", "kv_channels"))
    kept = 2 * h * tokens / (tensor if split_sequences else 1)
    if recompute == "full":
        return kept
    if recompute == "half":
        return (kept + layer_bytes(shape, tokens, tensor, split_sequences, flash, "selective")) / 2
    moe = shape.get("moe")
    wide = shape["ffn_hidden_size"]
    if moe:
        wide = moe["router_topk"] * moe["ffn_hidden_size"] + moe.get("shared_expert_ffn_hidden_size", 0) + moe["router_topk"] * 2 * h // 3
    whole = 8 * h * tokens
    split = 2 * (2 * heads * head + 2 * groups * head + matrices(shape) * wide) * tokens
    if not flash and recompute != "selective":
        split += 5 * heads * shape["sequence_length"] * tokens
    return (whole / (tensor if split_sequences else 1)) + split / tensor


def fits(machine, shape, plan, recompute):
    """`plan`: tp, pp, cp, ep, dp, mbs, sharding, optimizer, sequence_parallel, flash, lora, frozen_in_8_bits, loss_kernels."""
    dense, experts = parameters(shape)
    state = library.optimizer(plan["optimizer"])
    tp, pp, cp, ep, dp = (plan[key] for key in ("tp", "pp", "cp", "ep", "dp"))
    here, spread = dense / (tp * pp), experts / (ep * pp)
    replicas = max(1, dp * cp)
    expert_replicas = max(1, dp * cp * tp // ep)
    rank = ("none", "optimizer", "gradients", "parameters").index(plan["sharding"])
    total = 0
    for kind, bytes_each, since in (("weight", state["weight_bytes"], 3), ("gradient", state["gradient_bytes"], 2), ("moments", state["moment_bytes"] + state["master_bytes"], 1)):
        if plan.get("lora"):
            if kind != "weight":
                continue
            bytes_each = 1 if plan.get("frozen_in_8_bits") else bytes_each
        total += bytes_each * (here / (replicas if rank >= since else 1) + spread / (expert_replicas if rank >= since else 1))
    if rank == 3:  # two layers gathered at once
        total += 2 * 2 * (dense + experts / ep) / tp / max(1, shape["num_layers"])
    tokens = plan["mbs"] * shape["sequence_length"] / cp
    layers = shape["num_layers"] * (1 if pp > 1 else 1)
    activations = layers * layer_bytes(shape, tokens, tp, plan["sequence_parallel"], plan["flash"], recompute)
    if recompute in ("full", "half"):
        activations += layer_bytes(shape, tokens, tp, plan["sequence_parallel"], plan["flash"], "selective")
    if plan.get("lora"):  # frozen layers keep no inputs for gradients of their weights
        activations *= 0.5
    logits = LOGIT_BYTES[plan["loss_kernels"]] * tokens * shape["vocabulary_size"] / tp
    total += max(activations, activations / pp + logits) if pp > 1 else activations + logits
    return total + RESERVE < ROOM * machine.memory
