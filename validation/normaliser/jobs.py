# SPDX-License-Identifier: Apache-2.0
"""A row of a table as a job: fills a canonical row step by step, and notes what the source did not say."""
import re

from . import layout, library, machines, memory, models
from .cells import Row, Unreadable, switch, number_after
from .software import Software, apply_words

CONVENTIONS = {"SC21_HW", "BLOOM_OLD", "SEQSEL", "DGXC", "MPT", "TT", "PALM_MFU", "LLAMA3", "N6", "MCORE_MODEL", "MCORE_CAUSAL", "NEMO_MODEL"}
SPEEDS = ("step_time_s", "tokens_per_s_per_gpu", "tokens_per_s_total", "seqs_per_s_total", "tflops_per_gpu", "mfu_pct")
SHARDINGS = ("none", "optimizer", "gradients", "parameters")
MODULES = {"core_attn": r"att(entio)?n", "mla_up_proj": r"mla_?up_?proj|up.?proj", "layernorm": r"(layer|rms).?norms?|\bnorms?\b", "moe_act": r"moe_?act|expert act|\bact\b",
           "mlp": r"\bmlp\b", "moe": r"\bmoe\b(?!_?act)", "shared_experts": r"shared.?experts?"}
OTHER_WORKLOADS = (("infer|prefill|decode|generat|serv", "nothing is trained"),
                   (r"^(?!.*\btrain(er|ing)? step).*\b(ppo|grpo|rlhf|rl|dpo|reward)\b", "it runs other passes than training"),
                   (r"linear.?attention", "its linear-attention layers are not modelled"))
# The example of Megatron-LM v1.1.5 with ZeRO-3 keeps checkpoints in the host's memory (PA_CPU=true of its script).
OFFLOADS_LAYERS = r"(?:cpu )?activations? off-?load(?:ed|ing)?(?! of)"  # all that layers keep, and not that of some modules
MOVES_TO_HOST = r"off-?l(?:oad(?:ed|ing)?)?(?![a-z])|v1\.1\.5-ZeRO3 example"
DOUBTFUL = r"[^;:]*(?:\bSUSPECT\b|\bCHECK\b|do not score)[^;]*"
RECIPE_KEYS = {"tp": "tensor_parallel_size", "pp": "pipeline_parallel_size", "vp": "virtual_pipeline_size", "cp": "context_parallel_size",
               "ep": "expert_parallel_size", "mbs": "micro_batch_size", "gbs": "global_batch_size"}  # by column
TUNED_TOKENS = 8192  # of a microbatch of Megatron's published recipes: 4 x 2048 of GPT-3 5B (NeMo-Framework-Launcher, conf/training/gpt3), 1 x 8192 of Llama 3
SIZES = {"n_gpus": 1 << 20, "dp": 1 << 20, "tp": 4096, "pp": 4096, "vp": 4096, "cp": 4096, "ep": 4096, "layers": 40960, "hidden": 10**8, "ffn": 10**8, "heads": 10**8,
         "vocab": 10**8, "seq": 10**8, "mbs": 1 << 20, "gbs": 10**8}


def canonical(cells, line):
    """A row as {column: value}; one with `skip` where it cannot be a job."""
    row = Row(cells, line)
    out = {"row_id": row.id, "family": row.text("family") or "unnamed", "source": source_of(row), "assumptions": ""}
    try:
        return Job(row).resolve()
    except Unreadable as reason:
        return out | {"skip": str(reason)}
    except Exception as fault:  # a row never stops the others
        return out | {"skip": f"it could not be read ({type(fault).__name__}: {fault})"}


def source_of(row):
    return "; ".join(filter(None, (row.text("source_title"), row.text("source_loc"))))


class Job:
    def __init__(self, row):
        self.row, self.assumptions, self.job = row, [], {}

    def assume(self, what):
        if what not in self.assumptions:
            self.assumptions.append(what)

    def resolve(self):
        row = self.row
        self.check_workload()
        self.check_sizes()
        measured = self.measured()
        self.ran = "ran" not in measured
        self.model = models.model_of(row, self.assume)
        self.machine = machines.machine_of(row, self.assume)
        if getattr(self.machine, "packages", False):
            measured = per_die(measured)
        self.take_precision()
        self.software = Software(row, self.machine, self.model, self.precision)
        self.take_default_precision()
        self.recipe = self.find_recipe()
        machines.write(self.machine, row, self.job)
        self.job["stack"] = self.software.stack
        self.job["plan.precision"] = self.precision
        self.job["plan.optimizer"] = self.software.optimizer
        self.job.update(self.software.set)
        self.take_dispatch()
        self.take_task()
        self.take_layout()
        self.take_batch()
        self.take_sharding()
        self.take_overlap()
        self.take_experts()
        self.deal_layers()
        self.take_recompute()
        self.job["plan.tensor_parallel_size"] = self.tp
        apply_words(row, self.job, self.model, self.assume)
        self.settle()
        return self.written(measured)

    # What was measured ----------------------------------------------------------------------------------------------------------------------------------------

    def check_workload(self):
        row = self.row
        for pattern, why in OTHER_WORKLOADS:
            if re.search(pattern, row.text("workload"), re.I):
                raise Unreadable(f"{row.text('workload')}: {why}")
        doubt = re.search(DOUBTFUL, row.text("notes"))
        if doubt:
            raise Unreadable(f"whoever collected it doubts it ({doubt[0].strip()[:100]})")
        words = f"{row.words}; {row.text('model').replace('_', ' ')}"
        if any(switch(part, OFFLOADS_LAYERS) for part in re.split("[;,+]", words)):
            self.job["plan.activation_offload"] = 1
            words = re.sub(OFFLOADS_LAYERS, "", words, flags=re.I)
        if any(switch(part, MOVES_TO_HOST) for part in re.split("[;,]", words)):
            raise Unreadable("it moves states or single modules to the host, and that is not modelled")

    def check_sizes(self):
        for title, most in SIZES.items():
            value = self.row.count(title)
            if value is not None and value > most:
                raise Unreadable(f"{title} is {value}, more than {most}")

    def measured(self):
        row, out = self.row, {}
        for title in SPEEDS:
            value = row.amount(title)
            if value is not None:
                out[title] = value
        memory_gib = row.amount("mem_gib")
        if memory_gib is not None:
            out["mem_gib"] = memory_gib
            reserved = row.says(r"torchtitan|nanotron|reserved") and not row.says(r"\ballocated\b")
            out["mem_kind"] = "reserved" if reserved else "allocated"
        for title in ("standing_gib", "reserved_gib"):
            value = row.amount(title)
            if value is not None:
                out[f"mem_{title}"] = value
        ran_out = re.search(r"\bOOM\b|out.of.memory|did not fit|CUDA OOM", f"{row.words}; {row.text('notes')}; {row.text('status')}; {row.text('step_time_s')}", re.I)
        if ran_out and not any(title in out for title in SPEEDS):
            out["ran"] = "false"
        convention = {"MAXTEXT": "TT"}.get(row.text("conv"), row.text("conv"))  # 6 for each parameter of a product, attention whole (MaxText, maxtext_utils.py)
        if convention == "MCORE_MODEL" and (row.is_since("2025-01") or row.says("Megatron.?Bridge")):
            convention = "MCORE_CAUSAL"  # num_floating_point_operations() counts what a causal mask leaves since then
        if convention in CONVENTIONS:
            out["flops_convention"] = convention
        elif not any(title in out for title in SPEEDS[:4]) and any(title in out for title in SPEEDS[4:]):
            out["flops_convention"] = "MCORE_MODEL" if row.says("megatron|nemo") or not row.text("framework") else "PALM_MFU"
            self.assume(f"its FLOPs counted as {out['flops_convention']}")
        if not any(title in out for title in SPEEDS + ("mem_gib", "mem_standing_gib", "ran")):
            raise Unreadable("no measured value can be compared (there is neither a time, a rate, TFLOP/s nor memory)")
        out["kind"] = "derived" if re.match(r"derived|.*\bderived: ", row.text("notes"), re.I) else "measured"
        return out

    # Machine, precision, software -------------------------------------------------------------------------------------------------------------------------------

    def take_precision(self):
        """What the precision column means on this GPU; nothing where it says nothing."""
        row = self.row
        if re.search(r"\bint[48]\b", row.text("precision"), re.I):
            raise Unreadable(f"{row.text('precision')}: products of integers are not modelled")
        text = f"{row.word('precision')}; {row.text('extra')}" if row.word("precision") else ""
        self.precision = None
        if text:
            self.precision = precision_in(text)
        elif precision_in(f"{row.text('extra')}; {row.text('dp_sharding')}; {row.text('framework')}") not in (None, "bf16"):
            self.precision = precision_in(f"{row.text('extra')}; {row.text('dp_sharding')}; {row.text('framework')}")
        if self.precision is None and self.was_trained_in_4_bits() and self.machine.has("nvfp4"):
            self.precision = "nvfp4"

    def was_trained_in_4_bits(self):
        """A row without a precision, of the round that allowed 4 bits (its notes name FP4): NVIDIA's and its partners' recipes that do carry "fp4" in the name of their
        configuration file. Where no file is named, or one for another maker's GPU: as NVIDIA's own recipes for one node of eight do, in 4 bits but for LoRA."""
        row = self.row
        if row.word("precision") or "FP4" not in row.text("notes").upper():
            return False
        source = row.text("source_loc")
        if ".sh" in source and "config_MI3" not in source:
            return "_fp4" in source.lower()
        return row.task != "lora"

    def take_default_precision(self):
        said = self.precision
        precision = said or self.software.precision or "bf16"
        peak = self.machine.gpu.get("peak_bf16")
        if precision == "tf32" and peak:  # Ampere and later: tensor cores multiply floats cut to 19 bits at half the rate of 16
            value, unit = peak.split()
            self.job["cluster.gpu.peak_fp32"] = f"{float(value) / 2:g} {unit}"
            self.assume("products of floats on tensor cores (TF32)")
        if precision == "tf32":
            precision = said = "fp32"
        if not self.machine.has(precision):
            fallback = "bf16" if self.machine.has("bf16") else "fp16"
            if precision in ("mxfp8", "nvfp4") and self.machine.has("fp8"):
                fallback = "mxfp8"
            if said and precision != fallback:
                self.assume(f"{precision} taken as {fallback}")
            precision = fallback
        self.precision = precision
        if said is None:
            self.assume(f"precision {precision}")

    def find_recipe(self):
        """The first public recipe that this row may have followed: of its model, GPU, precision and release, with no other size than it prints."""
        row, software = self.row, self.software
        for recipe in library.recipes(software.recipes) if software.recipes else ():
            agrees = all(key not in recipe or row.count(title) in (None, recipe[key]) for title, key in RECIPE_KEYS.items())
            released = not recipe.get("releases") or any(words.lower() in row.text("framework").lower() for words in recipe["releases"])
            if (recipe["model"] == self.model.base and recipe.get("workload", "pretrain") == row.task and self.machine.gpu_name in recipe["gpus"]
                    and self.precision in recipe.get("precisions", [self.precision]) and released and agrees):
                return recipe
        return {}

    def take_dispatch(self):
        if "dispatch" in self.recipe:
            every = self.recipe["dispatch"] == "alltoall"
            self.job["stack.moe_sends_every_copy"] = every
            if every:
                self.assume("rows of experts sent by all-to-all, as its recipe")
        if self.recipe.get("fp8_attention") and self.precision in ("fp8", "mxfp8", "nvfp4"):
            self.job["plan.fp8_attention"] = True
            self.assume("attention in 8 bits, as its recipe")

    def take_task(self):
        """Fine-tuning packs short question-and-answer documents (SQuAD), where the framework does or the row says so; MLPerf's documents fill their sequences."""
        row, job = self.row, self.job
        lora = row.task == "lora" or re.search(r"\bQ?LoRA\b", f"{row.text('model')}; {row.text('extra')}", re.I) is not None
        if lora:
            job["task"] = "lora"
            job["plan.lora.rank"] = number_after(f"{row.words}; {row.text('workload')}", r"rank|lora[_ ]r(?:ank)?|\br") or 16
            targets = ["attention_qkv", "attention_dense"]
            if self.software.lora_everywhere or row.says(r"all.?linear|mlp(?!erf)|gate_proj|fc1"):
                targets += ["mlp_fc1", "mlp_fc2"]
            job["plan.lora.targets"] = targets
        tuned = lora or row.task == "sft"
        says = re.search(r"\bpacked\b|\bpacking\b", f"{row.words}; {row.text('workload')}; {row.text('notes')}", re.I)
        if not tuned or not self.software.packed or self.job["stack"] == "jax-xla" and row.says(r"Pax \(") and not says:
            return
        job["plan.packed_length"] = self.software.packed
        self.assume(f"packed documents of {self.software.packed} tokens")

    # Layout and batch -------------------------------------------------------------------------------------------------------------------------------------------

    def size(self, title, words):
        """A count from its column, else from the row's words ("tp2", "TP=2")."""
        value = self.row.count(title)
        if value is None:
            text = f"{self.row.text('extra')}; {self.row.text('framework')}; {self.row.text('dp_sharding')}"
            value = number_after(text, words)
            if value:
                self.assume(f"{title.upper()} {value}, from its words")
        return value or self.of_recipe(title)

    def of_recipe(self, title):
        """A count that the row does not print and its recipe states."""
        value = self.recipe.get(RECIPE_KEYS[title])
        if value and value > 1:
            self.assume(f"{title.upper()} {value}, as its recipe")
        return value

    @property
    def world(self):
        return self.machine.num_nodes * self.machine.per_node

    @property
    def replicas(self):
        return self.world // (self.tp * self.pp * self.cp)

    def take_layout(self):
        row = self.row
        tp, pp = self.size("tp", r"tp|tensor.?parallel(?:ism| size)?"), self.size("pp", r"pp|pipeline.?parallel(?:ism| size)?")
        cp = self.size("cp", r"cp|context.?parallel(?:ism| size)?") or number_after(f"{row.text('extra')}; {row.text('dp_sharding')}", r"ulysses|\bsp|seq(?:uence)?.?parallel(?:ism)?(?: size)?")
        self.vp = self.size("vp", r"vpp?|virtual.?(?:pipeline|stages?)(?: size)?")
        self.tp, self.pp, self.cp = tp or 1, pp or 1, cp or 1
        inner, data = self.tp * self.pp, row.count("dp")
        if not cp and data and inner * data < self.world and self.world % (inner * data) == 0 and row.says(r"\bcp\b|context.?paral|ulysses|ring.?att"):
            self.cp = self.world // (inner * data)
            self.assume(f"CP {self.cp}, what ranks and replicas leave")
        says_layout = tp or pp or self.cp > 1 or row.count("dp")
        shards_all = self.sharding_taken() == "parameters"
        if not says_layout and not shards_all and (self.software.splits_unsaid or self.software.stack.startswith(("megatron", "nanotron"))):
            self.guess_layout()
        else:
            self.spread_sequences()
            self.drop_misprinted_pipeline()
        parallel = self.tp * self.pp * self.cp
        if parallel > self.world or self.world % parallel:
            raise Unreadable(f"{self.world} GPUs cannot be split by TP {self.tp} x PP {self.pp} x CP {self.cp}")
        self.fit_widths()

    def guess_layout(self):
        row = self.row
        accumulation = self.accumulation()
        batch = self.batch_said()
        ranks = None
        if batch and accumulation:
            copies = batch // (accumulation * (row.count("mbs") or 1))
            ranks = self.world // copies if copies >= 1 and self.world % copies == 0 else None
        plan = self.plan_for_memory() | {"sequence_parallel": True, "mbs": 1}
        found = layout.guess_model_parallel(plan, self.model.shape, self.machine, ranks, batch)
        self.tp, self.pp, self.cp = found["tp"], found["pp"], found["cp"]
        self.assume(f"TP {self.tp} x PP {self.pp}" + (f" x CP {self.cp}" if self.cp > 1 else ""))

    def plan_for_memory(self):
        shards = self.sharding_taken() == "parameters"
        experts = 1 if not self.model.experts else self.row.count("ep") or (1 if shards else min(self.model.experts["num_experts"], self.machine.per_node))
        return {"tp": getattr(self, "tp", 1), "pp": getattr(self, "pp", 1), "cp": getattr(self, "cp", 1), "ep": experts, "dp": max(1, self.world // (getattr(self, "tp", 1) * getattr(self, "pp", 1) * getattr(self, "cp", 1))),
                "mbs": self.row.count("mbs") or 1, "sharding": self.sharding_said()[0] or self.software.sharding, "optimizer": self.job["plan.optimizer"],
                "sequence_parallel": bool(self.software.sequence_parallel), "flash": not self.unfused, "lora": "plan.lora.rank" in self.job,
                "loss_kernels": self.job.get("stack.loss_kernels", "op_by_op" if self.software.stack in ("eager-pytorch", "compiled-pytorch", "nanotron") else "megatron"),
                "frozen_in_8_bits": bool(self.job.get("stack.fp8_frozen_weights")) and self.precision in ("fp8", "mxfp8", "nvfp4")}

    def spread_sequences(self):
        """InternEvo's sequence parallelism splits sequences over what its tables call tensor ranks, and gathers weights layer by layer."""
        if self.row.says(r"\bISP\b") and self.tp > 1:
            self.cp, self.tp = self.cp * self.tp, 1
            self.assume(f"CP {self.cp}, weights gathered (ISP)")

    def drop_misprinted_pipeline(self):
        """A stage count that cannot be (41 stages on 8 GPUs) is a misprint of a table that has several columns of numbers; without stages the rest of the row holds."""
        if self.pp == 1:
            return
        if self.world % (self.tp * self.pp * self.cp) == 0:
            if self.pp > self.model.get("num_layers"):
                raise Unreadable(f"{self.pp} stages cannot share {self.model.get('num_layers')} layers")
            return
        if self.pp <= self.model.get("num_layers") and self.world >= self.pp:
            return
        self.assume(f"one stage ({self.pp} cannot be)")
        self.pp = 1

    def fit_widths(self):
        """Tensor ranks share heads and columns evenly: groups of keys and values are copied where they are too few; what does not divide is widened."""
        model, tp = self.model, self.tp
        if tp == 1:
            return
        if model.get("num_attention_heads") % tp:
            heads = -(-model.get("num_attention_heads") // tp) * tp
            each = model.get("num_query_groups") == model.get("num_attention_heads")
            self.assume(f"{heads} heads, so that {tp} tensor ranks can share them")
            model.set("num_attention_heads", heads)
            if each:
                model.set("num_query_groups", heads)
        groups = model.get("num_query_groups")
        if groups % tp and "latent_attention" not in model.shape:
            model.set("num_query_groups", tp if tp > groups and model.get("num_attention_heads") % tp == 0 else model.get("num_attention_heads"))
            self.assume(f"keys and values copied to {tp} tensor ranks")
        if model.get("ffn_hidden_size") % tp:
            model.set("ffn_hidden_size", -(-model.get("ffn_hidden_size") // tp) * tp)
            self.assume(f"MLP of {model.get('ffn_hidden_size')}, so that {tp} tensor ranks can share it")

    def accumulation(self):
        return number_after(self.row.text("extra"),
                            r"micro_batch_count|grad_accum\w*|grad(?:ient)?[ _-]?accum(?:ulation)?(?:[ _]steps)?|accum(?:ulation)?(?:[ _]steps)?|\bGAS?|num_micro_?batches|n_microbatches|micro_num|micro.?batches")

    def batch_said(self):
        batch, sequence = self.row.count("gbs"), self.model.get("sequence_length")
        if batch and batch >= 1 << 19 and batch % sequence == 0:  # a batch in tokens
            self.assume(f"a batch of {batch} tokens")
            return batch // sequence
        tokens = re.search(r"\btokens/batch ?= ?(\d+)M\b", self.row.text("extra"))
        if tokens and batch != int(tokens[1]) * 2**20 // sequence:
            batch = int(tokens[1]) * 2**20 // sequence
            self.assume(f"a batch of {tokens[1]} M tokens")
        if batch is None:
            batch = self.of_recipe("gbs")
        if batch is None:
            per_replica = number_after(self.row.words, r"(?:local|per.?(?:gpu|device|rank|replica)) batch(?: size)?")
            if per_replica and not self.row.count("mbs") and hasattr(self, "tp"):
                return per_replica * self.replicas
        return batch

    def spread_over_context(self):
        """Fewer sequences than replicas: the rest of the ranks shares them by context."""
        batch, micro, replicas = self.batch_said(), self.row.count("mbs") or 1, self.replicas
        if not batch or batch % micro:
            return
        sequences = batch // micro
        if sequences < replicas and replicas % sequences == 0:
            self.cp *= replicas // sequences
            self.assume(f"CP {self.cp}")

    def take_batch(self):
        self.spread_over_context()
        replicas, accumulation = self.replicas, self.accumulation()
        micro, batch = self.row.count("mbs") or self.of_recipe("mbs") or 0, self.batch_said()
        if not micro:
            local = number_after(self.row.words, r"(?:local|per.?(?:gpu|device)) (?:micro.?)?batch(?: size)?")
            if local and self.pp == 1 and (not batch or batch % (local * replicas) == 0):
                micro = local
        if self.software.microbatches_as_stages and not micro and batch and not accumulation and self.pp > 1:
            accumulation = self.pp
            self.assume(f"{self.pp} microbatches, as many as ranks of its pipeline")
        if not micro and batch and accumulation:
            micro = batch // (replicas * accumulation)
        self.micro_free = micro < 1
        if self.micro_free:
            micro = 1
        at_once = micro * replicas
        if not batch and (accumulation or not self.micro_free):
            batch = at_once * (accumulation or max(1, self.least_microbatches()))
        self.batch_free = not batch
        if not batch:
            rows = (1 << 22) // self.model.get("sequence_length")
            batch = max(at_once, rows - rows % at_once)
            self.assume(f"a batch of {batch} sequences (4M tokens)")
        if batch % at_once:
            batch = self.rounded(batch, at_once)
        if self.micro_free and not self.free_to_fill():
            micro = self.tuned(batch)
            self.assume(f"microbatches of {micro} sequences" if micro > 1 else "microbatches of one sequence")
        self.micro, self.batch = micro, batch

    def least_microbatches(self):
        """A pipeline without a batch is fed at least as many microbatches as it has stages."""
        return self.pp

    def rounded(self, batch, at_once):
        """A batch that is no multiple of microbatch x replicas: the nearest that is, where what was measured is a rate or hardly changes."""
        near = max(at_once, round(batch / at_once) * at_once)
        timed = self.row.amount("step_time_s") is not None
        if timed and abs(near / batch - 1) > 0.03:
            raise Unreadable(f"a batch of {batch} is no multiple of {at_once} sequences at once (microbatch x replicas)")
        self.assume(f"a batch of {near} instead of {batch}, a multiple of {at_once} sequences at once")
        return near

    def free_to_fill(self):
        """Who does not say his microbatch fills the memory with sequences; Megatron's kind tunes it."""
        return self.micro_free and self.pp == 1 and not self.accumulation() and (not self.software.stack.startswith("megatron") or self.sharding_taken() == "parameters")

    def tuned(self, batch):
        """Sequences of a microbatch that Megatron's users take where they do not say: as many as make 8192 tokens, if they fit; one in a pipeline, and of
        packed documents (NeMo joins them to one sequence)."""
        micro, length = 1, self.model.get("sequence_length") / self.cp
        while self.pp == 1 and "plan.packed_length" not in self.job and 2 * micro * length <= TUNED_TOKENS and batch % (2 * micro * self.replicas) == 0:
            plan = self.plan_for_memory() | {"mbs": 2 * micro}
            if not memory.fits(self.machine, self.model.shape, plan, "selective"):
                break
            micro *= 2
        return micro

    # Sharding and overlap ----------------------------------------------------------------------------------------------------------------------------------------

    def sharding_said(self):
        """Who holds what, in any spelling, and over how many ranks: (sharding or nothing, group or nothing)."""
        row = self.row
        cell = row.word("dp_sharding")
        # A count of zero or one ranks says what the framework means by it; see counted_sharding().
        found = self.counted_sharding(cell)
        if found:
            return found
        texts = [cell] if cell else [row.text("extra"), row.text("framework") if self.software.sharding != "gradients" else ""]
        for text in texts:
            found = sharding_in(text, self, bool(cell))
            if found:
                return found
        return None, None

    def counted_sharding(self, cell):
        """One rank to a shard is no sharding, to those who count ranks; to Megatron FSDP=1 is a switch."""
        found = re.search(r"\bFSDP2?(?!\d)[ ,]*(?:shard\w*)? ?=? ?(\d+)(?: ?[x×] ?(\d+))?", cell, re.I)
        if not found:
            return None
        ranks, counts = int(found[1]) * int(found[2] or 1), self.software.sharding == "parameters"
        if ranks > 1:
            return "parameters", ranks
        if counts and getattr(self, "cp", 1) == 1:  # FSDP shards over context ranks, too
            return "none", None
        return ("parameters", None) if ranks == 1 else (None, None)

    def sharding_taken(self):
        return self.sharding_said()[0] or self.software.sharding

    def take_sharding(self):
        said, group = self.sharding_said()
        sharding, replicas = said or self.software.sharding, self.replicas
        if self.row.says(r"\bISP\b"):
            sharding = "parameters"
        if replicas * self.cp == 1 and sharding != "parameters":
            sharding = "none"
        if self.ran and "plan.lora.rank" not in self.job and self.software.stack in ("eager-pytorch", "compiled-pytorch"):
            sharding = self.made_to_fit(sharding, may_shard=said is None and self.tp * self.pp == 1 and replicas > 1)
        self.job["plan.sharding"] = sharding
        if group and 1 < group < replicas and replicas % group == 0:
            self.job["plan.sharding_group_size"] = group
        self.take_sharded_optimizer(sharding)

    def made_to_fit(self, sharding, may_shard):
        """PyTorch's users take what fits: all sharded where they do not say otherwise, then everything in bf16, as models are loaded."""
        if may_shard and not self.fits(sharding):
            sharding = "parameters"
            self.assume("FSDP, since nothing else fits")
        if self.precision != "fp16" and not self.fits(sharding):
            self.job["plan.optimizer"] = "full_bf16_adamw"
            self.assume("weights, gradients and moments in bf16, since nothing else fits")
        return sharding

    def take_sharded_optimizer(self, sharding):
        """Some optimizers keep other buffers where their states are sharded; Megatron told to use PyTorch's FSDP keeps what that keeps."""
        optimizer = self.job["plan.optimizer"]
        if sharding == "parameters" and optimizer in ("megatron_distributed_optim", "fused_adam") and self.software.stack.startswith("megatron"):
            self.job["plan.optimizer"] = "fsdp_fused_adam"
        elif sharding != "none" and self.software.sharded_optimizer:
            self.job["plan.optimizer"] = self.software.sharded_optimizer
        elif sharding != "none" and optimizer == "fused_adam":
            self.job["plan.optimizer"] = "megatron_distributed_optim"

    @property
    def unfused(self):
        """Does attention write its scores?"""
        return library.rules("frameworks")["attention"]["unfused"].items() <= self.job.items()

    def fits(self, sharding):
        plan = self.plan_for_memory() | {"mbs": self.micro, "sharding": sharding}
        return memory.fits(self.machine, self.model.shape, plan, "full")

    def take_overlap(self):
        job, software, tp = self.job, self.software, self.tp
        split = bool(software.sequence_parallel) and tp > 1
        job["plan.sequence_parallel"] = split
        job["plan.overlap_tensor"] = "tensor" in software.overlaps and split
        replicated = self.replicas > 1
        if "data" in software.overlaps and replicated and job["plan.sharding"] != "none":
            job["plan.overlap_gradient"] = job["plan.overlap_parameter"] = True
        if software.ddp_buckets and replicated:
            self.cut_gradients()

    def cut_gradients(self):
        """PyTorch's DDP reduces buckets of 25 MiB (bucket_cap_mb) of gradients as they are written, in 2 bytes; sharded states matrix by matrix, four of a layer."""
        job, shape = self.job, self.model.shape
        replicas = job["plan.sharding"] == "none"
        job["plan.overlap_gradient"] = replicas
        matrix = models.layer_parameters(shape) / self.tp / 4
        count = 25 * 1024 * 1024 / 2 if replicas else matrix
        sync = library.optimizer(job["plan.optimizer"])["gradient_sync_bytes"]
        job["plan.gradient_bucket"] = f"{count * sync / 1e6:.6g} MB"

    # Stages, experts, recompute -------------------------------------------------------------------------------------------------------------------------------------

    def deal_layers(self):
        job, shape = self.job, self.model.shape
        if not self.vp and self.pp > 1 and switch(self.row.words, r"interleav\w*\b(?![^;,.]{0,12}\bwhere\b)"):
            self.vp = 2
            self.assume("2 chunks a stage (interleaved)")
        chunks, counts = layout.deal_out(shape, self.pp, self.vp, self.assume)
        if chunks > 1 and self.batch // (self.micro * self.replicas) % self.pp:
            self.assume("1 chunk a stage (its microbatches make no whole rounds)")
            chunks, counts = layout.deal_out(shape, self.pp, None, self.assume)
        self.chunks = chunks
        if self.software.balances_stages and self.pp > 1:
            counts = layout.balanced(shape, self.pp)
        if chunks > 1:
            job["plan.schedule"] = "interleaved"
        if counts:
            job["plan.layers_per_stage"] = counts
        job["plan.overlap_pipeline"] = "pipeline" in self.software.overlaps and chunks > 1
        if self.model.experts:
            job["plan.overlap_expert"] = job["plan.overlap_pipeline"] and bool(job.get("stack.fused_moe_dispatch"))
            if "overlap_expert" in self.recipe:
                another = self.batch > self.micro * self.replicas
                job["plan.overlap_expert"] = self.recipe["overlap_expert"] and another
                self.assume("experts' traffic overlapped, as its recipe" if job["plan.overlap_expert"] else "experts' traffic not overlapped, as its recipe")

    def take_experts(self):
        if not self.model.experts:
            return
        expert = self.size("ep", r"ep|expert.?parallel(?:ism| size)?")
        count, room = self.model.experts["num_experts"], self.world // self.pp
        unsaid = self.tp if self.software.experts_split_as_tensors else 1
        tensor = number_after(self.row.words, r"etp|expert.?tensor.?parallel(?:ism| size)?") or unsaid
        if expert and (count % expert or room % (expert * tensor)):
            self.assume(f"EP {expert} cannot be")
            expert = None
        dispatched = switch(self.row.words, r"deep.?ep|hybrid.?ep|\bEP\b")
        if not expert and not dispatched and self.job["plan.sharding"] == "parameters" and self.software.stack in ("eager-pytorch", "compiled-pytorch"):
            expert = 1
            self.assume("EP 1: experts are sharded as all else")
        elif not expert:
            plan = self.plan_for_memory() | {"mbs": self.micro, "sharding": self.job["plan.sharding"]}
            expert = layout.guess_expert_parallel(plan, self.model.shape, self.machine)
            self.assume(f"EP {expert}")
        self.job["plan.expert_parallel_size"] = expert
        self.job["plan.expert_tensor_parallel_size"] = tensor if room % (expert * tensor) == 0 else 1

    def layers_of_chunk(self):
        return self.model.get("num_layers") // (self.pp * self.chunks)

    def printed_layers(self):
        """Layers whose forward pass is played twice, if executed over model FLOPs are printed: all of them make a third more."""
        mfu, hfu = self.row.amount("mfu_pct"), self.row.amount("hfu_pct")
        if not mfu or not hfu:
            return None
        return round(min(1, max(0, 3 * (hfu / mfu - 1))) * self.model.get("num_layers"))

    def take_recompute(self):
        said = recompute_in(self.row)
        printed = self.printed_layers()
        if printed and said[0] != "none" and not (said[0] == "selective" and self.unfused):
            self.full(printed if printed < self.model.get("num_layers") else None)
        elif said[0] == "full":
            self.full(said[1])
        elif said[0] == "share of layers":
            self.full(max(1, int(self.layers_of_chunk() * min(1, said[1]))))
        elif self.software.selective == "operations" and said[0] in ("selective", "operations") or said[0] == "operations":
            self.every_other_product()
        elif said[0] == "selective":
            self.job["plan.recompute"] = "selective"
            if said[1]:
                self.job["plan.recompute_modules"] = [part for part in said[1] if self.has_part(part)] or ["layernorm"]
        elif said[0] == "none":
            self.job["plan.recompute"] = "none"
        elif "recompute_modules" in self.recipe:
            modules = self.recipe["recompute_modules"]
            self.job["plan.recompute"] = "selective" if modules else "none"
            if modules:
                self.job["plan.recompute_modules"] = modules
            self.assume(f"recompute of {', '.join(modules)}, as its recipe" if modules else "no recompute, as its recipe")
        elif self.software.recompute == "operations":
            half = memory.fits(self.machine, self.model.shape, self.plan_for_memory() | {"mbs": self.micro, "sharding": self.job["plan.sharding"]}, "half")
            self.every_other_product() if half else self.full(None)
            self.assume("every other product played again, its default" if half else "full recompute, its default for large models")
        elif self.software.recompute == "full":
            self.full(None)
            self.assume("full recompute, its default")
        else:
            self.job["plan.recompute"] = "auto"
            self.assume("the least recompute that fits")

    def every_other_product(self):
        """Checkpointing by operation keeps attention and every other matrix product."""
        self.job["plan.recompute"] = "selective"
        self.job["plan.recompute_modules"] = ["alternate_gemms"]

    def has_part(self, part):
        return {"mla_up_proj": "latent_attention" in self.model.shape, "moe_act": bool(self.model.experts), "moe": bool(self.model.experts),
                "shared_experts": bool(self.model.get("moe.shared_expert_ffn_hidden_size")),
                "mlp": not self.model.experts or bool(self.model.get("moe.num_dense_layers"))}.get(part, True)

    def full(self, layers):
        self.job["plan.recompute"] = "full"
        if layers:
            self.job["plan.recompute_layers"] = layers

    def settle(self):
        """What follows once everything is said."""
        job = self.job
        if self.tp == 1:
            job["plan.sequence_parallel"] = job["plan.overlap_tensor"] = False
        if not job["plan.sequence_parallel"]:
            job["plan.overlap_tensor"] = False
        if self.replicas * self.cp == 1:
            job.pop("plan.overlap_parameter", None)
            job.pop("plan.overlap_gradient", None)
        if self.chunks == 1:
            job["plan.overlap_pipeline"] = False
        if job.get("plan.schedule") in ("zero_bubble", "gpipe") and (self.pp == 1 or self.chunks > 1):
            del job["plan.schedule"]
            if self.chunks > 1:
                job["plan.schedule"] = "interleaved"
        if self.cp == 1:
            job.pop("plan.context_exchange", None)
        if job["plan.sharding"] != "parameters":
            for key in ("plan.reshard_after_forward", "plan.prefetch_depth"):
                job.pop(key, None)
        if job.get("plan.fp8_attention") and self.precision not in ("fp8", "mxfp8", "nvfp4"):
            del job["plan.fp8_attention"]

    # Writing -----------------------------------------------------------------------------------------------------------------------------------------------------

    def written(self, measured):
        row, job = self.row, self.job
        out = {"row_id": row.id, "family": row.text("family") or "unnamed", "sweep": sweep_of(row), "source": source_of(row)}
        if self.model.base:
            out["model"] = self.model.base
        out.update({f"model.{key}": value for key, value in self.model.given.items()})
        job["plan.tensor_parallel_size"], job["plan.pipeline_parallel_size"] = self.tp, self.pp
        job["plan.context_parallel_size"], job["plan.virtual_pipeline_size"] = self.cp, self.chunks
        job["plan.global_batch_size"] = self.batch
        if self.free_to_fill():
            job["plan.micro_batch_size"] = "auto"
            measured.pop("mem_gib", None)  # of an unknown microbatch
            self.assume("as many sequences as fit")
        else:
            job["plan.micro_batch_size"] = self.micro
        out.update(job)
        out.update(measured)
        out["assumptions"] = "; ".join(self.assumptions)
        return out


def per_die(measured):
    """What was measured of a package, of each of its two dies."""
    return {key: value / 2 if key in ("tokens_per_s_per_gpu", "tflops_per_gpu", "mem_gib") else value for key, value in measured.items()}


def sweep_of(row):
    """Rows of one software that differ in layout, batch, precision and scale only, so that one may ask which is fastest."""
    return row.text("sweep") or " ".join(row.text(title) for title in ("family", "framework", "model", "gpu", "workload"))


def precision_in(text):
    """The precision that these words mean, or nothing."""
    if re.search(r"tf32", text, re.I) and not re.search(r"bf16|fp16|fp8", text, re.I):
        return "tf32"
    if re.search(r"(nv|mx)?-?fp4|4.?bit (training|gemm)", text, re.I):
        return "nvfp4"
    if re.search(r"MX-?FP8|FP8-?MX|FP8-?SC\b|finer.granularity|block.?(wise|scal)|sub.?channel|tile.?wise|1x128|128x128", text, re.I) and re.search(r"fp8|float8|8.?bit", text, re.I):
        return "mxfp8"
    if re.search(r"fp8|float8|8.?bit(?!.?(?:adam|optim))", text, re.I) and switch(text, r"fp8|float8") is not False:
        return "fp8"
    if re.search(r"bf16|bfloat16|\bBF-16", text, re.I):
        return "bf16"
    if re.search(r"fp16|float16|\bhalf\b|\b16-mixed|\bamp\b|mixed.?precision|16.?bit", text, re.I):
        return "fp16"
    if re.search(r"fp32|float32|single.precision", text, re.I):
        return "fp32"
    return None


def sharding_in(text, job, alone):
    """Who holds what, in any spelling: ZeRO by its stage ("ZeRO-1", "zero_stage=3", InternEvo's "zero1=8": 8 ranks share a copy), FSDP, HSDP, DDP."""
    zero = re.search(r"zero[\s\-_=:]*(?:stage)?[\s\-_=:]*([0-3])(?!\d)(?:=(\d+))?", text, re.I)
    if zero:
        return SHARDINGS[int(zero[1])], int(zero[2]) if zero[2] and int(zero[2]) > 1 else None
    megatron = re.search(r"\boptim(_grads)?(_params)?\b", text)
    if megatron:  # Megatron's --data-parallel-sharding-strategy
        return "parameters" if megatron[2] else "gradients" if megatron[1] else "optimizer", None
    stage = re.search(r"\bstage[\s\-_=:]*([0-3])\b", text, re.I) if alone else None
    if stage:
        return SHARDINGS[int(stage[1])], None
    hybrid = re.search(r"HSDP|HYBRID_SHARD|hybrid.shard", text, re.I)
    if hybrid:
        grid = re.search(r"(\d+)\s*[x×]\s*(\d+)", text)
        shard = re.search(r"shard\w*\s*[=:]?\s*(\d+)", text, re.I)
        return "parameters", int(shard[1]) if shard else int(grid[2]) if grid else job.machine.per_node
    if re.search(r"FULL_SHARD|SHARD_GRAD_OP|\bISP\b|Gemini", text, re.I):
        return "parameters", None
    fsdp = switch(text, r"FSDP\d?(?:[ =(]*\d+)?")
    if fsdp:
        return "parameters", None
    if fsdp is False:
        return None, None
    if re.search(r"dist(ributed)?[ _-]?opt(im(izer)?)?|OverlappedDistributedOptimizer", text, re.I) and switch(text, r"dist(ributed)?[ _-]?opt(im(izer)?)?") is not False:
        return "optimizer", None
    if re.search(r"\bDDP\b|no sharding", text, re.I) or alone and re.search(r"^DP\b(?!\s*[=:]?\d)|^none$|replicat", text, re.I):
        return "none", None
    return None


def recompute_in(row):
    """What the row says is played again: (word, detail)."""
    cell = row.word("recompute")
    text = cell
    if not cell:
        found = re.search(r"[^;,|]*(?:recomput|activation.?checkpoint|grad(?:ient)?.?checkpoint|\bS?AC\b|remat|checkpointing)[^;,|]*", row.text("extra"), re.I)
        if not found:
            return None, None
        text = found[0]
        if switch(text, r"(?:(?:activation|gradient|selective|full)[ -]?)?(recomput\w*|checkpoint\w*|\bS?AC\b|remat\w*)") is False:
            return "none", None
    if re.fullmatch(r"(none|no|off|false|0|disabled|without|no (recompute|ac|checkpoint\w*))", text.strip(), re.I):
        return "none", None
    if re.search(r"per.?op|\bop\b|\bops\b|operat", text, re.I):
        return "operations", None
    share = re.search(r"(\d{1,3}) ?%", text) or re.search(r"every ?(\d+|other|second)|selective[ =:_-]*(\d+)\b|\b1/(\d+)\b|(half) of|(selective).{0,3}layers?\b", text, re.I)
    if share and "%" in share[0]:
        return "share of layers", int(share[1]) / 100
    if share:
        count = next(filter(None, share.groups()))
        return "share of layers", 1 / max(1, int(count)) if count.isdigit() else 0.5
    block = re.search(r"(?:block|uniform|layers?)[^\d;]{0,12}(\d+)|(\d+) layers", text, re.I)
    if re.search(r"full|block|uniform", text, re.I) or (block and not re.search("selective", text, re.I)):
        return "full", int(block[1] or block[2]) if block and re.search(r"block|layers", text, re.I) else None
    modules = [name for name, pattern in MODULES.items() if re.search(pattern, text, re.I)]
    if re.search(r"minimal|save_dot|dots_saveable", text, re.I):
        return "selective", ["mlp"] if "except_mlp" in text else ["layernorm"]
    if re.search(r"selective|\bSAC\b", text, re.I) or modules:
        return "selective", [] if modules == ["core_attn"] or not modules else modules
    if re.search(r"\b(on|true|yes|all|enabled|1|layer|checkpoint\w*|AC|recompute\w*|remat\w*)\b", text, re.I):
        return "full", None
    return None, None
