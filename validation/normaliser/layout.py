# SPDX-License-Identifier: Apache-2.0
"""Ranks that a row does not print, and how layers are dealt out over stages."""
import math

from . import memory
from .models import layer_parameters


def part_of_node(ranks, node):
    """The largest part of a node that divides this many ranks."""
    part = min(ranks, node)
    while ranks % part:
        part -= 1
    return part


def tensor_of(ranks, node, shape):
    """The most tensor ranks within a node that divide heads and MLP, too."""
    part = part_of_node(ranks, node)
    while part > 1 and (ranks % part or shape["num_attention_heads"] % part or shape["ffn_hidden_size"] % part):
        part -= 1
    return part


def divides_with_ends(shape, parts):
    """Do layers divide by the parts once embedding, head and further ends count? The first and the last part may then hold an end alone; one that predicts further
    tokens holds a layer, too."""
    layers = shape["num_layers"]
    ends = 3 if shape.get("moe") else 2
    alone = 0 if shape.get("multi_token_prediction", {}).get("depths") else 2
    for more in range(1, ends + 1):
        if (layers + more) % parts == 0:
            return (1 if more <= alone else 2) * parts <= layers + more
    return False


def deal_out(shape, stages, wanted, assume):
    """Chunks a stage and, where layers do not divide evenly, layers of each: Megatron counts embedding and head (and the further loss of a model that predicts several
    tokens) as a layer each."""
    layers = shape["num_layers"]
    chunks = max(1, wanted or 1) if stages > 1 else 1
    while chunks > 1 and layers % (stages * chunks) and not divides_with_ends(shape, stages * chunks):
        chunks -= 1
    if wanted and chunks < wanted and stages > 1:
        assume(f"{chunks} chunks a stage")
    parts = stages * chunks
    if layers % parts == 0:
        return chunks, None
    each = math.ceil(layers / parts)
    counts = [each] * parts
    spare = each * parts - layers
    predicts = bool(shape.get("multi_token_prediction", {}).get("depths"))
    # A last part that predicts further tokens gives all it has but one, as Megatron-Bridge's layouts do; the rest is taken from the last part, the first, then those
    # beside them.
    given = min(spare, each - 1) if predicts else 0
    counts[-1] -= given
    spare -= given
    turn = 1 if predicts else 0
    while spare > 0:
        at = turn // 2 % parts
        counts[parts - 1 - at if turn % 2 == 0 else at] -= 1
        turn, spare = turn + 1, spare - 1
    assume("embedding and head count as layers")
    return chunks, counts


def balanced(shape, stages):
    """nanotron deals out blocks front to back: stage s ends with the first block at which the matrices so far reach the (s + 1)-th part of all, the head's included
    (nanotron, models/base.py, build_model). Stages hold a layer at least, but the last, which has the head."""
    cost = layer_parameters(shape)
    total = cost * shape["num_layers"] + shape["hidden_size"] * shape["vocabulary_size"]
    counts, stage, done = [0] * stages, 0, 0
    for _ in range(shape["num_layers"]):
        counts[stage] += 1
        done += cost
        if stage + 1 < stages and done >= total * (stage + 1) / stages:
            stage += 1
    for empty in range(stages - 2, 0, -1):
        if counts[empty]:
            continue
        giver = next((s for s in range(empty, 0, -1) if counts[s] >= 2), 0)
        if giver == 0 and counts[-1] > 0:
            giver = stages - 1
        if counts[giver] == 0 or (giver == 0 and counts[0] < 2):
            break
        counts[giver] -= 1
        counts[empty] += 1
    return counts


def split(plan, shape, machine, ranks, stages):
    """Splits one replica over these ranks; nothing where it cannot be."""
    if stages > shape["num_layers"]:
        return None
    tensor = tensor_of(ranks // stages, machine.per_node, shape)
    context = ranks // stages // tensor
    return {**plan, "tp": tensor, "pp": stages, "cp": context, "dp": machine.num_nodes * machine.per_node // ranks}


def guess_model_parallel(plan, shape, machine, ranks, batch):
    """A layout for a row that says nothing of it: TP within a node, then
      - if batch and accumulation say how many `ranks` share a replica: context, and stages as far as memory demands (who tunes a long sequence in few microbatches splits
        it rather than the layers);
      - else stages: the smallest that fits in memory with selective, else full recompute, and leaves no more replicas than sequences."""
    world, node = machine.num_nodes * machine.per_node, machine.per_node
    if ranks and ranks > 1:
        rest, stages = ranks // part_of_node(ranks, node), 1
        while stages <= rest and rest % stages == 0:
            tried = split(plan, shape, machine, ranks, stages)
            if tried is None:
                break
            if memory.fits(machine, shape, tried, "selective"):
                return tried
            stages *= 2
    for recompute in ("selective", "full"):
        ranks = 1
        while ranks <= world and world % ranks == 0:
            if world // ranks <= (batch or world) or 2 * ranks > world:
                stages = ranks // tensor_of(ranks, node, shape)
                tried = split(plan, shape, machine, ranks, stages)
                if tried is None:
                    break
                if tried["cp"] == 1 and memory.fits(machine, shape, tried, recompute):
                    return tried
            ranks *= 2
    return split(plan, shape, machine, part_of_node(world, node), 1) or plan


def guess_expert_parallel(plan, shape, machine):
    """Experts of a row that does not say how they are split: over as few ranks as make it fit, a node's at least."""
    experts, room, last, ranks = shape["moe"]["num_experts"], machine.num_nodes * machine.per_node // plan["pp"], 1, 1
    node = min(experts, machine.per_node)
    while ranks <= room:
        if experts % ranks == 0 and room % ranks == 0:
            last = ranks
            if ranks >= node and memory.fits(machine, shape, {**plan, "ep": ranks}, "selective"):
                break
        ranks *= 2
    return last
