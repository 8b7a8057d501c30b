# SPDX-License-Identifier: Apache-2.0
# Written by tools/make_stubs.py from the help of the flags; do not edit.
import os
from contextlib import AbstractContextManager
from typing import Any, Callable, ContextManager, Iterator, Literal, Sequence, TypeVar

_File = str | os.PathLike[str]
_F = TypeVar("_F", bound=Callable[..., Any])

class Error(Exception):
    """What went wrong, why, and what to try: the sentence that the command line prints."""

class Job:
    """A training or serving job: a model on machines, with its layout.

    Arguments are the flags of ``triplepoint simulate`` with underscores, alone or on top of a file: a job.toml, NeMo YAML,
    Hugging Face config.json or Megatron arguments. What is left out takes the default of the command line; ``job.notes``
    says which. A job does not change; ``job.replace(tp=4)`` gives another one.

    What runs where:
        task: full training (default), adapter training, prefill, or decode
        model: see triplepoint show models; or a file: TOML as in data/models, with base = "NAME" and
            what differs, or config.json
        cluster: see triplepoint show clusters
        nodes (or num_nodes): machines (default: 1, or all of your own cluster file)
        stack: software that runs the job, see triplepoint show stacks
        with_: predict with what triplepoint calibrate learned from your own runs

    Options:
        ignore: unknown keys of the file to leave out
        run_script: run a launch script in a sandbox (bubblewrap) and read what it launches
        env: environment variable for a launch script; may be repeated

    Sizes of the model (on top of --model or JOB; alone: a Llama):
        num_layers: layers
        hidden_size: width of the residual stream
        ffn_hidden_size: width of the dense MLP
        num_attention_heads: heads of queries
        num_query_groups: heads of keys and values (default: one for each query head)
        kv_channels: width of a head (default: hidden size over heads)
        vocab_size: tokens of the vocabulary, before padding

    Layout (data parallelism takes the rest):
        tp (or tensor_model_parallel_size): tensor parallelism
        pp (or pipeline_model_parallel_size): pipeline stages
        ep (or expert_model_parallel_size): expert parallelism
        expert_tensor_parallel_size: tensor parallelism of the experts (default: that of the rest)
        cp (or context_parallel_size): context parallelism
        vpp (or virtual_pipeline_model_parallel_size): model chunks per stage, interleaved
        sequence_parallel (or sp): shard norms and dropout over the tensor group
        layers_per_stage: uneven stages, as in 21,19,21,19
        rank_order: order of the groups
        placement: order of a node's devices, as in 1,2,5,7,0,3,4,6

    Batch and precision:
        mbs (or micro_batch_size): sequences in a microbatch (default 1)
        gbs (or global_batch_size): sequences in a step (default 128, or the next that DP divides)
        seq (or seq_length): tokens in a sequence (default: the model's)
        records: lengths of the records, see triplepoint show records; or a file: TOML as in
            data/records (default: every record fills its sequence)
        record_layout: how records become rows: padded to the sequence length (default), padded to the
            longest of the microbatch, or packed
        precision: data type of the matrix products (default bf16)
        fp8_attention: attention GEMMs in FP8
        optimizer: optimizer with its gradient and master precision, see triplepoint show optimizers
            (default: the stack's)
        lora_rank: LoRA rank

    Memory:
        sharding: ZeRO 0 to 3; parameters is FSDP (default: optimizer when DP x CP > 1)
        recompute (or recompute_granularity): activation recomputation in the backward pass (default
            none)
        recompute_layers (or recompute_num_layers): layers of each stage to recompute (default: all)
        recompute_modules: modules that selective recompute recomputes: core_attn, mla_up_proj,
            layernorm, moe_act, mlp, moe, shared_experts, alternate_gemms (default core_attn)
        activation_offload: share of the activations that is kept in host memory until the backward pass
            (default 0)

    Schedule and overlap:
        schedule: pipeline schedule (default 1f1b; interleaved with --vpp)
        overlap: communication overlapped with computation: tp, dp, pp, ep, or none (default none)

    Environment:
        ambient: inlet temperature of air or coolant, as in "30 C"; a plain number is in °C
        cooling: cooling system (default: the cluster's)
        power_limit: power limit of each device, as in "600 W" (default: TDP); a plain number is in W
        fabric: fabric between nodes, with the cluster's NICs
        oversubscription: oversubscription above the leaf switches, or between dragonfly groups; 2 means
            2:1
        seed: seed of the spread between boards and nodes (default 1)
    """
    def __init__(self, file: _File | None = None, /, *, task: Literal['pretrain', 'lora', 'prefill', 'decode'] | None = None, model: str | None = None, cluster: str | None = None, nodes: int | None = None, stack: str | None = None, with_: str | None = None, ignore: str | None = None, run_script: bool | None = None, env: str | None = None, num_layers: int | None = None, hidden_size: int | None = None, ffn_hidden_size: int | None = None, num_attention_heads: int | None = None, num_query_groups: int | None = None, kv_channels: int | None = None, vocab_size: int | None = None, tp: int | None = None, pp: int | None = None, ep: int | None = None, expert_tensor_parallel_size: int | None = None, cp: int | None = None, vpp: int | None = None, sequence_parallel: bool | None = None, layers_per_stage: str | Sequence[int | str] | None = None, rank_order: Literal['tp-cp-ep-dp-pp', 'tp-pp-dp'] | None = None, placement: str | Sequence[int | str] | None = None, mbs: int | None = None, gbs: int | None = None, seq: int | None = None, records: str | None = None, record_layout: Literal['padded', 'longest', 'packed'] | None = None, precision: Literal['bf16', 'fp16', 'fp8', 'fp32', 'mxfp8', 'nvfp4'] | None = None, fp8_attention: bool | None = None, optimizer: str | None = None, lora_rank: int | None = None, sharding: Literal['none', 'optimizer', 'gradients', 'parameters'] | None = None, recompute: Literal['none', 'selective', 'full'] | None = None, recompute_layers: int | None = None, recompute_modules: str | Sequence[int | str] | None = None, activation_offload: float | str | None = None, schedule: Literal['gpipe', '1f1b', 'interleaved', 'zero-bubble'] | None = None, overlap: str | Sequence[int | str] | None = None, ambient: float | str | None = None, cooling: Literal['air', 'liquid'] | None = None, power_limit: float | str | None = None, fabric: Literal['fat_tree', 'rail_optimized', 'dragonfly'] | None = None, oversubscription: float | str | None = None, seed: int | None = None) -> None: ...
    def replace(self, *, task: Literal['pretrain', 'lora', 'prefill', 'decode'] | None = None, model: str | None = None, cluster: str | None = None, nodes: int | None = None, stack: str | None = None, with_: str | None = None, ignore: str | None = None, run_script: bool | None = None, env: str | None = None, num_layers: int | None = None, hidden_size: int | None = None, ffn_hidden_size: int | None = None, num_attention_heads: int | None = None, num_query_groups: int | None = None, kv_channels: int | None = None, vocab_size: int | None = None, tp: int | None = None, pp: int | None = None, ep: int | None = None, expert_tensor_parallel_size: int | None = None, cp: int | None = None, vpp: int | None = None, sequence_parallel: bool | None = None, layers_per_stage: str | Sequence[int | str] | None = None, rank_order: Literal['tp-cp-ep-dp-pp', 'tp-pp-dp'] | None = None, placement: str | Sequence[int | str] | None = None, mbs: int | None = None, gbs: int | None = None, seq: int | None = None, records: str | None = None, record_layout: Literal['padded', 'longest', 'packed'] | None = None, precision: Literal['bf16', 'fp16', 'fp8', 'fp32', 'mxfp8', 'nvfp4'] | None = None, fp8_attention: bool | None = None, optimizer: str | None = None, lora_rank: int | None = None, sharding: Literal['none', 'optimizer', 'gradients', 'parameters'] | None = None, recompute: Literal['none', 'selective', 'full'] | None = None, recompute_layers: int | None = None, recompute_modules: str | Sequence[int | str] | None = None, activation_offload: float | str | None = None, schedule: Literal['gpipe', '1f1b', 'interleaved', 'zero-bubble'] | None = None, overlap: str | Sequence[int | str] | None = None, ambient: float | str | None = None, cooling: Literal['air', 'liquid'] | None = None, power_limit: float | str | None = None, fabric: Literal['fat_tree', 'rail_optimized', 'dragonfly'] | None = None, oversubscription: float | str | None = None, seed: int | None = None) -> Job:
        """The same job with these flags said anew; None takes a flag back."""
    name: str
    model: str
    cluster: str
    num_gpus: int
    notes: list[str]
    def to_toml(self) -> str:
        """The job as the text of a job.toml, which every command reads."""
    def save(self, file: _File) -> None:
        """Writes it as a job.toml."""

class Series:
    """One signal of one device over time. ``values`` and ``times_ns`` look at the run's own memory (read only)."""
    signal: str
    device: int
    of_node: bool
    unit: str
    times_ns: Any
    times_s: Any
    values: Any
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Any: ...

class Run:
    """What happened, or what is predicted to happen: numbers of one step by name, series, a timeline.

    Numbers have the names and units of results.csv (docs/results-schema.md): step_time_s, tokens_per_s, mfu, power_mean_w,
    temperature_peak_c, energy_j, ... What the run does not know is None.
    """
    name: str | None
    verdict: str | None
    origin: str | None
    fidelity: str | None
    model: str | None
    cluster: str | None
    stack: str | None
    task: str | None
    num_gpus: int | None
    tensor_parallel_size: int | None
    pipeline_parallel_size: int | None
    data_parallel_size: int | None
    context_parallel_size: int | None
    expert_parallel_size: int | None
    virtual_pipeline_size: int | None
    micro_batch_size: int | None
    global_batch_size: int | None
    sharding: str | None
    recompute: str | None
    schedule: str | None
    precision: str | None
    memory_total_gib: float | None
    memory_limit_gib: float | None
    memory_weights_gib: float | None
    memory_gradients_gib: float | None
    memory_optimizer_gib: float | None
    memory_activations_gib: float | None
    memory_other_gib: float | None
    step_time_s: float | None
    step_time_low_s: float | None
    step_time_high_s: float | None
    tokens_per_s: float | None
    tokens_per_s_per_gpu: float | None
    model_tflops_per_gpu: float | None
    mfu: float | None
    hfu: float | None
    bubble_fraction: float | None
    kernel_total_s: float | None
    kernel_compute_s: float | None
    kernel_send_recv_s: float | None
    kernel_all_gather_s: float | None
    kernel_reduce_scatter_s: float | None
    kernel_all_reduce_s: float | None
    kernel_all_to_all_s: float | None
    kernel_memory_s: float | None
    kernel_other_s: float | None
    kernel_waiting_s: float | None
    exposed_communication_s: float | None
    overlapped_communication_s: float | None
    idle_s: float | None
    launch_gaps_s: float | None
    power_mean_w: float | None
    power_peak_w: float | None
    power_kernel_peak_w: float | None
    energy_j: float | None
    node_energy_j: float | None
    site_energy_j: float | None
    joules_per_token: float | None
    samples_per_s_mj: float | None
    temperature_mean_c: float | None
    temperature_peak_c: float | None
    hot_mean_c: float | None
    cool_mean_c: float | None
    hottest_over_coolest: float | None
    sm_clock_mean_mhz: float | None
    throttle_software_power_cap: float | None
    throttle_software_thermal: float | None
    throttle_hardware_thermal: float | None
    prompt_tokens_per_s: float | None
    time_to_first_token_s: float | None
    generated_tokens_per_s: float | None
    time_per_output_token_s: float | None
    results: dict[str, Any]
    step_time_interval_s: tuple[float, float] | None
    job: Job | None
    notes: list[str]
    findings: list[str]
    signals: list[tuple[str, int, bool]]
    ranks: list[int]
    def series(self, signal: str, device: int = 0, of_node: bool = False) -> Series:
        """A signal over time, as in ``run.series("power_w", device=3)``; of_node: device is the number of a node."""
    def timeline(self, rank: int | None = 0) -> Any:
        """The spans of a rank (None: of all) in the detailed step: a DataFrame, or a dictionary of columns without pandas.

        Columns as in spans.csv: rank, begin_ns, end_ns, name, kind, stage, microbatch, layer, collective, group, wait_s, bytes,
        flops. An index of -1 does not apply.
        """
    def to_dict(self) -> dict[str, Any]:
        """The numbers by name."""
    def save(self, file: _File) -> None:
        """Writes it as a .run file, which every command and ``read`` take."""
    def save_page(self, file: _File) -> None:
        """Writes its page, one HTML file."""
    def save_perfetto(self, file: _File) -> None:
        """Writes its detailed step as a trace for ui.perfetto.dev."""

def simulate(job: Job | _File, /, *, duration: float | str | None = None, steps: int | None = None, power_profile: bool | None = None, nodes_per_rack: int | None = None, fault: str | Sequence[str] | None = None, tokens: float | str | None = None, price_kwh: float | None = None, gpu_hour_price: float | None = None, grid: float | None = None, mtbf: float | str | None = None, checkpoint_time: float | str | None = None, checkpoint_interval: float | str | None = None, restart_time: float | str | None = None, slow_gpus: str | None = None, scope: Literal['gpu', 'node', 'site'] | None = None, pue: float | str | None = None) -> Run:
    """Predicts a job: a ``Run``. Some 10 ms; other threads go on meanwhile, and Ctrl-C ends it.

    The job is a ``Job``, or the name of a file. Arguments are those flags of ``triplepoint simulate`` that are not the job's.

    Duration and output:
        duration: simulate a transient of this length from a cold start, as in 10min; a plain number is
            in s
        steps: simulate N training steps from a cold start
        power_profile: power swings, ramps and peaks of nodes, racks and the site over a step, and the
            cost of smoothing them
        nodes_per_rack: nodes in a rack of the power profile (default 4)

    Faults:
        fault: inject a fault, as in gpu=3,power=0.25@120s..300s; repeatable. power, fan, link:
            remaining share; inlet: kelvins; heat_path, host: factor; lost: restart time; every=2s:
            flapping

    Cost of a full training:
        tokens: estimate time, energy, cost and CO2 for N tokens, as in 15T
        price_kwh: electricity price (defaults of all rates: data/economics.toml)
        gpu_hour_price: price of a GPU with its share of the machine, without electricity
        grid: CO2 per kWh
        mtbf: mean time between failures of one GPU, as in 50000h; 0s: no failures; a plain number is in
            s
        checkpoint_time: time to write a checkpoint; the job is paused; a plain number is in s
        checkpoint_interval: time between checkpoints (default: the optimum); a plain number is in s
        restart_time: time from a failure to the next step; a plain number is in s
        slow_gpus: GPUs that get slow, each after this time, and a test that finds them, as in
            every=20000h,factor=1.3,screen=2min (docs/why.md)

    Energy:
        scope: where energy counts: at the site's meter (default), at the nodes' supplies, or of the
            GPUs alone
        pue: power usage effectiveness: facility power over IT power
    """
def read(*files: _File) -> Run:
    """A .run file, or traces of all ranks (files, folders, tars), as a ``Run``."""
def names(kind: Literal["models", "gpus", "clusters", "stacks", "optimizers", "records"]) -> list[str]:
    """What the library has: names of "models", "gpus", "clusters", "stacks", "optimizers" or "records"."""
def version() -> str:
    """The program's version, with commit and date where they are known."""

class Sweep:
    """Every combination of the values: one row each, a dictionary of the varied flags, the numbers of ``Run`` and ``problem``.

    A job that does not fit in memory is a row with verdict "oom", one that cannot run a row with verdict "invalid" and its
    problem.
    """
    def to_dict(self) -> dict[str, Any]:
        """The columns by name: arrays of NumPy where they are numbers and it is installed, else lists."""
    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
    def job(self, index: int) -> Job:
        """The job of a row."""
    def run(self, index: int) -> Run:
        """The run of a row, simulated again."""
    def best(self, by: str = "step_time_s") -> dict[str, Any] | None:
        """The row with the lowest value of a column; None if no job ran. Of rates and shares use max(sweep, key=...)."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    def __getitem__(self, index: int) -> dict[str, Any]: ...

def sweep(job: Job | _File, /, *, threads: int | None = None, progress: bool | None = None, task: Literal['pretrain', 'lora', 'prefill', 'decode'] | Sequence[Literal['pretrain', 'lora', 'prefill', 'decode']] | None = None, model: str | Sequence[str] | None = None, cluster: str | Sequence[str] | None = None, nodes: int | Sequence[int] | None = None, stack: str | Sequence[str] | None = None, with_: str | Sequence[str] | None = None, ignore: str | Sequence[str] | None = None, run_script: bool | Sequence[bool] | None = None, env: str | Sequence[str] | None = None, num_layers: int | Sequence[int] | None = None, hidden_size: int | Sequence[int] | None = None, ffn_hidden_size: int | Sequence[int] | None = None, num_attention_heads: int | Sequence[int] | None = None, num_query_groups: int | Sequence[int] | None = None, kv_channels: int | Sequence[int] | None = None, vocab_size: int | Sequence[int] | None = None, tp: int | Sequence[int] | None = None, pp: int | Sequence[int] | None = None, ep: int | Sequence[int] | None = None, expert_tensor_parallel_size: int | Sequence[int] | None = None, cp: int | Sequence[int] | None = None, vpp: int | Sequence[int] | None = None, sequence_parallel: bool | Sequence[bool] | None = None, layers_per_stage: str | Sequence[int | str] | Sequence[str | Sequence[int | str]] | None = None, rank_order: Literal['tp-cp-ep-dp-pp', 'tp-pp-dp'] | Sequence[Literal['tp-cp-ep-dp-pp', 'tp-pp-dp']] | None = None, placement: str | Sequence[int | str] | Sequence[str | Sequence[int | str]] | None = None, mbs: int | Sequence[int] | None = None, gbs: int | Sequence[int] | None = None, seq: int | Sequence[int] | None = None, records: str | Sequence[str] | None = None, record_layout: Literal['padded', 'longest', 'packed'] | Sequence[Literal['padded', 'longest', 'packed']] | None = None, precision: Literal['bf16', 'fp16', 'fp8', 'fp32', 'mxfp8', 'nvfp4'] | Sequence[Literal['bf16', 'fp16', 'fp8', 'fp32', 'mxfp8', 'nvfp4']] | None = None, fp8_attention: bool | Sequence[bool] | None = None, optimizer: str | Sequence[str] | None = None, lora_rank: int | Sequence[int] | None = None, sharding: Literal['none', 'optimizer', 'gradients', 'parameters'] | Sequence[Literal['none', 'optimizer', 'gradients', 'parameters']] | None = None, recompute: Literal['none', 'selective', 'full'] | Sequence[Literal['none', 'selective', 'full']] | None = None, recompute_layers: int | Sequence[int] | None = None, recompute_modules: str | Sequence[int | str] | Sequence[str | Sequence[int | str]] | None = None, activation_offload: float | str | Sequence[float | str] | None = None, schedule: Literal['gpipe', '1f1b', 'interleaved', 'zero-bubble'] | Sequence[Literal['gpipe', '1f1b', 'interleaved', 'zero-bubble']] | None = None, overlap: str | Sequence[int | str] | Sequence[str | Sequence[int | str]] | None = None, ambient: float | str | Sequence[float | str] | None = None, cooling: Literal['air', 'liquid'] | Sequence[Literal['air', 'liquid']] | None = None, power_limit: float | str | Sequence[float | str] | None = None, fabric: Literal['fat_tree', 'rail_optimized', 'dragonfly'] | Sequence[Literal['fat_tree', 'rail_optimized', 'dragonfly']] | None = None, oversubscription: float | str | Sequence[float | str] | None = None, seed: int | Sequence[int] | None = None, duration: float | str | Sequence[float | str] | None = None, steps: int | Sequence[int] | None = None, power_profile: bool | Sequence[bool] | None = None, nodes_per_rack: int | Sequence[int] | None = None, fault: str | Sequence[str] | Sequence[str | Sequence[str]] | None = None, tokens: float | str | Sequence[float | str] | None = None, price_kwh: float | Sequence[float] | None = None, gpu_hour_price: float | Sequence[float] | None = None, grid: float | Sequence[float] | None = None, mtbf: float | str | Sequence[float | str] | None = None, checkpoint_time: float | str | Sequence[float | str] | None = None, checkpoint_interval: float | str | Sequence[float | str] | None = None, restart_time: float | str | Sequence[float | str] | None = None, slow_gpus: str | Sequence[str] | None = None, scope: Literal['gpu', 'node', 'site'] | Sequence[Literal['gpu', 'node', 'site']] | None = None, pue: float | str | Sequence[float | str] | None = None) -> Sweep:
    """Simulates every combination of the given values on all cores: a ``Sweep``.

        tp.sweep(job, tp=[2, 4, 8], power_limit=[500, 600, 700]).to_pandas()

    A list is a list of values to try; another value holds for all. threads: at most so many; progress: True or False to show
    how far it is (default: in terminals and notebooks). Arguments are those of ``Job`` and ``simulate``.

    What runs where:
        task: full training (default), adapter training, prefill, or decode
        model: see triplepoint show models; or a file: TOML as in data/models, with base = "NAME" and
            what differs, or config.json
        cluster: see triplepoint show clusters
        nodes (or num_nodes): machines (default: 1, or all of your own cluster file)
        stack: software that runs the job, see triplepoint show stacks
        with_: predict with what triplepoint calibrate learned from your own runs

    Options:
        ignore: unknown keys of the file to leave out
        run_script: run a launch script in a sandbox (bubblewrap) and read what it launches
        env: environment variable for a launch script; may be repeated

    Sizes of the model (on top of --model or JOB; alone: a Llama):
        num_layers: layers
        hidden_size: width of the residual stream
        ffn_hidden_size: width of the dense MLP
        num_attention_heads: heads of queries
        num_query_groups: heads of keys and values (default: one for each query head)
        kv_channels: width of a head (default: hidden size over heads)
        vocab_size: tokens of the vocabulary, before padding

    Layout (data parallelism takes the rest):
        tp (or tensor_model_parallel_size): tensor parallelism
        pp (or pipeline_model_parallel_size): pipeline stages
        ep (or expert_model_parallel_size): expert parallelism
        expert_tensor_parallel_size: tensor parallelism of the experts (default: that of the rest)
        cp (or context_parallel_size): context parallelism
        vpp (or virtual_pipeline_model_parallel_size): model chunks per stage, interleaved
        sequence_parallel (or sp): shard norms and dropout over the tensor group
        layers_per_stage: uneven stages, as in 21,19,21,19
        rank_order: order of the groups
        placement: order of a node's devices, as in 1,2,5,7,0,3,4,6

    Batch and precision:
        mbs (or micro_batch_size): sequences in a microbatch (default 1)
        gbs (or global_batch_size): sequences in a step (default 128, or the next that DP divides)
        seq (or seq_length): tokens in a sequence (default: the model's)
        records: lengths of the records, see triplepoint show records; or a file: TOML as in
            data/records (default: every record fills its sequence)
        record_layout: how records become rows: padded to the sequence length (default), padded to the
            longest of the microbatch, or packed
        precision: data type of the matrix products (default bf16)
        fp8_attention: attention GEMMs in FP8
        optimizer: optimizer with its gradient and master precision, see triplepoint show optimizers
            (default: the stack's)
        lora_rank: LoRA rank

    Memory:
        sharding: ZeRO 0 to 3; parameters is FSDP (default: optimizer when DP x CP > 1)
        recompute (or recompute_granularity): activation recomputation in the backward pass (default
            none)
        recompute_layers (or recompute_num_layers): layers of each stage to recompute (default: all)
        recompute_modules: modules that selective recompute recomputes: core_attn, mla_up_proj,
            layernorm, moe_act, mlp, moe, shared_experts, alternate_gemms (default core_attn)
        activation_offload: share of the activations that is kept in host memory until the backward pass
            (default 0)

    Schedule and overlap:
        schedule: pipeline schedule (default 1f1b; interleaved with --vpp)
        overlap: communication overlapped with computation: tp, dp, pp, ep, or none (default none)

    Environment:
        ambient: inlet temperature of air or coolant, as in "30 C"; a plain number is in °C
        cooling: cooling system (default: the cluster's)
        power_limit: power limit of each device, as in "600 W" (default: TDP); a plain number is in W
        fabric: fabric between nodes, with the cluster's NICs
        oversubscription: oversubscription above the leaf switches, or between dragonfly groups; 2 means
            2:1
        seed: seed of the spread between boards and nodes (default 1)

    Duration and output:
        duration: simulate a transient of this length from a cold start, as in 10min; a plain number is
            in s
        steps: simulate N training steps from a cold start
        power_profile: power swings, ramps and peaks of nodes, racks and the site over a step, and the
            cost of smoothing them
        nodes_per_rack: nodes in a rack of the power profile (default 4)

    Faults:
        fault: inject a fault, as in gpu=3,power=0.25@120s..300s; repeatable. power, fan, link:
            remaining share; inlet: kelvins; heat_path, host: factor; lost: restart time; every=2s:
            flapping

    Cost of a full training:
        tokens: estimate time, energy, cost and CO2 for N tokens, as in 15T
        price_kwh: electricity price (defaults of all rates: data/economics.toml)
        gpu_hour_price: price of a GPU with its share of the machine, without electricity
        grid: CO2 per kWh
        mtbf: mean time between failures of one GPU, as in 50000h; 0s: no failures; a plain number is in
            s
        checkpoint_time: time to write a checkpoint; the job is paused; a plain number is in s
        checkpoint_interval: time between checkpoints (default: the optimum); a plain number is in s
        restart_time: time from a failure to the next step; a plain number is in s
        slow_gpus: GPUs that get slow, each after this time, and a test that finds them, as in
            every=20000h,factor=1.3,screen=2min (docs/why.md)

    Energy:
        scope: where energy counts: at the site's meter (default), at the nodes' supplies, or of the
            GPUs alone
        pue: power usage effectiveness: facility power over IT power
    """

class Plan:
    """One plan of a search: its numbers by name (step_time_s, energy_j, power_limit_w, ...) and its job."""
    job: Job
    def to_dict(self) -> dict[str, Any]:
        """All that the search says of it (docs/results-schema.md, plans)."""
    def __getattr__(self, name: str) -> Any: ...

class Plans:
    """The best plans, best first. ``results`` is all that ``triplepoint plan --format json`` prints."""
    results: dict[str, Any]
    best: Plan
    def to_dict(self) -> dict[str, Any]:
        """The columns by name: arrays of NumPy where they are numbers and it is installed, else lists."""
    def to_pandas(self) -> Any:
        """A pandas.DataFrame."""
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Plan]: ...
    def __getitem__(self, index: int) -> Plan: ...

def plan(job: Job | _File, /, *, progress: bool | None = None, objective: Literal['throughput', 'energy', 'edp', 'cost'] | None = None, max_temperature: float | str | None = None, max_power: float | str | None = None, memory_headroom: str | None = None, fix: str | Sequence[str] | None = None, space: Literal['launchable', 'everything'] | None = None, top: int | None = None, pareto: bool | None = None, threads: int | None = None, tokens: float | str | None = None, price_kwh: float | None = None, gpu_hour_price: float | None = None, grid: float | None = None, mtbf: float | str | None = None, checkpoint_time: float | str | None = None, checkpoint_interval: float | str | None = None, restart_time: float | str | None = None, slow_gpus: str | None = None, scope: Literal['gpu', 'node', 'site'] | None = None, pue: float | str | None = None) -> Plans:
    """Finds the best layouts of a job: ``Plans``, best first. What the job says of its layout is free unless ``fix`` holds it.

        best = tp.plan(job, objective="energy", max_temperature=80, top=5)

    progress: as in ``sweep``. Arguments are the flags of ``triplepoint plan``; a dictionary stands for NAME=VALUE lists, as in
    fix={"tp": 8, "mbs": [1, 2]} or max_power={"gpu": "600 W"}.

    Objective and constraints:
        objective: quantity to optimize: time, energy of the --scope, energy x time, or cost (default
            throughput)
        max_temperature: limit of the hottest die, as in "80 C"; a plain number is in °C
        max_power: limit of the whole --scope, as in "1.2 MW" of a site; or peak of a GPU, mean of a
            node, of all nodes and of the site: "gpu=700 W,node=8 kW,cluster=1 MW,site=1.3 MW"; a plain
            number is in W
        memory_headroom: memory that stays free on each GPU, as in 4GB or 5% (default: by the measured
            error of predicted memory; 0% switches it off)
        fix: fixed dimensions, as in tp=8,mbs=1|2: tp pp vpp ep etp cp dp mbs sharding sharding-group
            recompute recompute-layers recompute-modules schedule sp overlap-tp overlap-dp overlap-pp
            overlap-ep uneven rank-order power-cap
        space: launchable: plans that Megatron and NeMo can start; everything: all modelled plans
            (default launchable)

    Output:
        top: number of plans to show, of different layouts where there are (default 5)
        pareto: show the Pareto front of time, energy, peak power and peak temperature

    Objective and constraints:
        threads: threads to search (default: all cores)

    Cost of a full training:
        tokens: estimate time, energy, cost and CO2 for N tokens, as in 15T
        price_kwh: electricity price (defaults of all rates: data/economics.toml)
        gpu_hour_price: price of a GPU with its share of the machine, without electricity
        grid: CO2 per kWh
        mtbf: mean time between failures of one GPU, as in 50000h; 0s: no failures; a plain number is in
            s
        checkpoint_time: time to write a checkpoint; the job is paused; a plain number is in s
        checkpoint_interval: time between checkpoints (default: the optimum); a plain number is in s
        restart_time: time from a failure to the next step; a plain number is in s
        slow_gpus: GPUs that get slow, each after this time, and a test that finds them, as in
            every=20000h,factor=1.3,screen=2min (docs/why.md)

    Energy:
        scope: where energy counts: at the site's meter (default), at the nodes' supplies, or of the
            GPUs alone
        pue: power usage effectiveness: facility power over IT power
    """

class Comparison:
    """Runs beside each other; the first is the baseline. ``print`` shows what changed, as ``triplepoint compare`` does."""
    sentences: list[str]
    def to_dict(self) -> dict[str, Any]:
        """All numbers side by side (docs/report.md has the keys)."""
    def save_page(self, file: _File) -> None:
        """Writes the page of the comparison."""

def compare(*runs: Run | _File, names: Sequence[str] | None = None) -> Comparison:
    """Puts runs, or files that ``read`` takes, side by side; the first is the baseline. names: what to call them."""

def calibrate(*files: _File, output: _File, job: _File | None = None, threads: int | None = None) -> dict[str, Any]:
    """Learns from measured runs: tables, recordings, logs, traces, temperatures; writes the folder `output` for ``with_``.

    job: a file that says what inputs ran that do not say so themselves; of one input, a pair does: ``(file, job)``. Returns what was learned as
    a dict, its sentence under "verdict".
    """

class record(AbstractContextManager[record]):
    """Records the node while a block runs: power, temperature, clocks and traffic of its GPUs and CPUs, and the marks of this process.

        with tp.record("training.run") as rec:
            train()
        rec.run.series("power_w")

    As ``triplepoint record`` does around a command. Under torchrun, mpirun or srun every rank records; one of each node writes.
    At the end a summary is printed on standard error, unless ``quiet``. job: a ``Job`` or a file, which adds model and FLOPs.

    Options:
        interval: sampling interval, 20 ms or more (default: 100 ms, or half of a sensor's update
            period); a plain number is in s
        warmup: warm-up steps that are not measured (default: 3)
        steps: measured steps after the warm-up, or all (default: 10)
        job: job of the command (job.toml, NeMo YAML, Megatron arguments); adds model, layout and FLOPs
            to the recording
        quiet: do not print a summary

    Sensors:
        devices: only these GPUs: numbers, ranges, UUIDs or PCI addresses, as 0,2-3; or none
        gpm: also read the performance counters of Hopper and newer (conflicts with profilers)
        node_power_command: command that prints the node's power in W; run every 5 s
    """
    def __init__(self, file: _File | None = None, /, *, interval: float | str | None = None, warmup: int | None = None, steps: int | None = None, job: Job | str | None = None, quiet: bool | None = None, devices: str | Sequence[int | str] | None = None, gpm: bool | None = None, node_power_command: str | None = None) -> None: ...
    file: str | None
    run: Run
    def __enter__(self) -> record: ...
    def __exit__(self, *exception: object) -> bool: ...

class _Block(ContextManager[Any]):
    bytes: float | None
    flops: float | None
    def __call__(self, function: _F) -> _F: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *exception: object) -> bool: ...

def marking() -> bool:
    """Whether a recorder listens: worth the work of finding things out for it."""
def now() -> int:
    """The clock of all marks, in nanoseconds."""
def step(number: int | None = None) -> _Block:
    """One training step, as a block; its number as the program counts."""
def step_begin(number: int | None = None) -> None: ...
def step_end(number: int | None = None) -> None: ...
def region(name: str) -> _Block:
    """A part of a step, as a block or as a decorator of a function. Few and fixed names."""
def region_begin(name: str) -> None: ...
def region_end(name: str | None = None) -> None: ...
def span(kind: str, group: str | None = None, bytes: float | None = None, flops: float | None = None) -> _Block:
    """A collective ("all_reduce") of a group ("tp", "dp", "pp", "ep", ...), or a computation, as a block."""
def value(name: str, number: float) -> None:
    """A number that belongs to this moment. "tokens" and "samples" of all ranks are added up to those of the step, so
    that a rank says its share; others ("loss") are kept as series.
    """
