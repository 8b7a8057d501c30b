# SPDX-License-Identifier: Apache-2.0
"""What a row's software does (rules/frameworks.toml), and what its own words change (rules/words.toml)."""
import re

from . import library
from .cells import switch

RULE_KEYS = ("stack", "optimizer", "sharded_optimizer", "sharding", "sequence_parallel", "overlaps", "selective", "recompute", "recipes", "packed", "precision",
             "balances_stages", "ddp_buckets", "splits_unsaid", "experts_split_as_tensors", "microbatches_as_stages", "lora_everywhere")


def release_of(framework):
    found = re.search(r"(?<![\d.])(2\d)\.(\d\d)", framework)
    return (int(found[1]), int(found[2])) if found else None


def release(text):
    major, minor = text.split(".")
    return int(major), int(minor)


def rule_for(row):
    rules = library.rules("frameworks")["framework"]
    for text in (row.text("framework"), row.text("extra")):
        for rule in rules[:-1]:
            if re.search(rule["words"], text, re.I):
                return rule
    return rules[-1]


def holds(when, row, machine, model, precision):
    released = release_of(row.text("framework"))
    split = (row.count("tp") or 1) * (row.count("pp") or 1) > 1
    tests = {
        "generation": lambda value: machine.generation in value,
        "vendor": lambda value: machine.vendor in value,
        "experts": lambda value: bool(model.experts) == value,
        "precisions": lambda value: precision in value,
        "workload": lambda value: row.task in value,
        "words": row.says,
        "without_words": lambda value: not row.says(value),
        "release_from": lambda value: released is not None and released >= release(value),
        "release_before": lambda value: released is not None and released < release(value),
        "since": row.is_since,
        "before": row.is_before,
        "sharded": lambda value: (re.search("FSDP|ZeRO|shard|Gemini", f"{row.text('dp_sharding')}; {row.text('framework')}", re.I) is not None) == value,
        "split": lambda value: split == value,
        "stages": lambda value: ((row.count("pp") or 1) > 1) == value,
        "models": lambda value: re.search(value, model.get("name") or row.text("model"), re.I) is not None,
        "sequences": lambda value: row.count("seq") in value,
        "gated": lambda value: (model.get("activation") == "swiglu") == value,
    }
    return all(tests[key](when[key]) for key in tests if key in when)


class Software:
    """The framework's rule with all its conditions applied: attributes of RULE_KEYS, and `set`."""

    def __init__(self, row, machine, model, precision):
        rule = rule_for(row)
        found = {key: rule.get(key) for key in RULE_KEYS}
        self.set = dict(rule.get("set", {}))
        for when in rule.get("when", []):
            if not holds(when, row, machine, model, precision):
                continue
            found.update({key: when[key] for key in RULE_KEYS if key in when})
            self.set.update(when.get("set", {}))
        for key, value in found.items():
            setattr(self, key, value)
        self.overlaps = set(self.overlaps or ())
        attention = library.rules("frameworks")["attention"]
        if machine.generation in attention["not_on"] or row.is_before(attention["since"]):
            self.set.update(attention["unfused"])
        # Whoever says that he captures graphs, does; and who says that he does not, does not.
        graphs = switch(row.words, library.rules("words")["cuda_graphs"])
        if graphs and self.stack == "megatron-core":
            self.stack = "megatron-graphs"
        elif graphs is False and self.stack == "megatron-graphs":
            self.stack = "megatron-core"
        elif graphs is not None and not self.stack.startswith("megatron-"):
            self.set["stack.cuda_graphs"] = graphs
        # Whoever says that he compiles, does; and who says that he does not, does not.
        compiles = switch(row.words, r"torch[._ ]?compile|\bcompiled?\b|inductor|dynamo")
        if compiles is None and re.search(r"\beager\b(?! attention)", row.words, re.I):
            compiles = False
        if compiles and self.stack == "eager-pytorch":
            self.stack = "compiled-pytorch"
        elif compiles is False and self.stack == "compiled-pytorch":
            self.stack = "eager-pytorch"


OPTIMIZERS = {  # with gradients kept and reduced in fp32, in bf16
    "distributed_fused_adam": ("distributed_fused_adam", "distributed_fused_adam_bf16"),
    "distributed_fused_adam_bf16": ("distributed_fused_adam", "distributed_fused_adam_bf16"),
    "mcore_distributed_optim": ("megatron_distributed_optim", "mcore_distributed_optim"),
    "megatron_distributed_optim": ("megatron_distributed_optim", "mcore_distributed_optim"),
    "fsdp_adamw": ("fsdp_adamw", "fsdp_fused_adam"),
    "fsdp_fused_adam": ("fsdp_adamw", "fsdp_fused_adam"),
}


def apply_words(row, job, model, assume):
    """Keys that the row's own words set."""
    rules = library.rules("words")
    for rule in rules["switch"]:
        if rule.get("experts") and not model.experts or rule.get("tensor") and job.get("plan.tensor_parallel_size", 1) == 1:
            continue
        if rule.get("plain"):
            said = True if row.says(rule["words"]) else None
        else:
            said = switch(row.words, rule["words"])
        on_stack = next((other for stack, other in rule.get("of", {}).items() if job["stack"].startswith(stack)), rule)
        changes = on_stack.get({True: "on", False: "off"}.get(said), {})
        if said and not rule.get("instead", {}).items() <= job.items():
            continue
        for key, value in changes.items():
            if key.startswith("model."):
                model.set(key[len("model."):], value)
                continue
            if key == "plan.optimizer" and value.endswith(" gradients"):
                value = OPTIMIZERS.get(job[key], (job[key], job[key]))[0 if value.startswith("fp32") else 1]
            job[key] = value
        if changes:
            assume(f"{rule['name']}: {'on' if said else 'off'}, as it says")
    for rule in rules["unexpressed"]:
        if row.says(rule["words"]):
            assume(rule["says"])
