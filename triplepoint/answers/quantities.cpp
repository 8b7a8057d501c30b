// SPDX-License-Identifier: Apache-2.0
// The catalogue of a run's quantities. A new one is a row here and a field of Metrics; all views
// follow. Where it stands in views that have no room for all, the lists at the end say.
#include "triplepoint/answers/quantities.h"

#include "triplepoint/base/json.h"
#include "triplepoint/base/result.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"

#include "triplepoint/answers/json_of.h"

namespace triplepoint::answers {
namespace {

using R = const RunResult&;
constexpr Better lower = Better::lower, higher = Better::higher, neither = Better::neither;
constexpr Type text = Type::text, count = Type::count, number = Type::number, truth = Type::truth,
               per_gpu = Type::per_gpu, object = Type::object;
constexpr bool only_compared = true;

// ---- identity

constexpr Quantity identity[] = {
    {"name", "name", "", "name", "",
     [](R r) { return r.run ? Json(r.run->manifest.name) : Json(); }, text},
    {"verdict", "verdict", "", "verdict",
     "`ok`; `oom`: does not fit in memory, then only `memory_gib` and identity follow; `shutdown`: "
     "a GPU reaches its shutdown temperature",
     [](R r) { return r.run ? Json(run::verdict_of(*r.run)) : Json(); }, text},
    {"origin", "origin", "", "origin", "`simulated`, `measured` or `imported`",
     [](R r) { return r.run ? Json(run::name_of(r.run->manifest.origin)) : Json(); }, text},
    {"fidelity", "fidelity", "", "fidelity", "which model made it",
     [](R r) { return r.run ? Json(run::name_of(r.run->manifest.fidelity)) : Json(); }, text},
    {"notes", "", "", "",
     "list of sentences; the first of a simulated job lists the defaults it took",
     [](R r) { return r.run ? Json(notes_of(*r.run)) : Json(); }, object},
    {"facts", "", "", "", "other things its producer wrote down, by name",
     [](R r) { return r.run ? Json(r.run->manifest.facts) : Json(); }, object},
    {"configuration", "", "", "", "null where the job is not known", [](R) { return Json(); },
     object},
    {"memory_gib", "", "", "", "of the fullest GPU; null where it is not known",
     [](R) { return Json(); }, object},
};
constexpr Quantity shutdown[] = {
    {"shutdown", "", "", "", "`gpu`, `die_c`, `time_s` (null in a steady state)", shutdown_of,
     object},
};

// ---- the job

/// A size or a name of the job and its plan.
template <auto Member>
Json of_job(R r) {
  return r.job->*Member;
}
template <auto Member>
Json of_plan(R r) {
  return r.job->plan.*Member;
}
template <auto Member>
Json name_in_plan(R r) {
  return spec::enum_name(r.job->plan.*Member);
}
/// What training alone has.
template <auto Member>
Json name_in_training(R r) {
  return spec::is_inference(r.job->task) ? Json() : name_in_plan<Member>(r);
}

constexpr Quantity configuration[] = {
    {"configuration.job", "", "", "", "name of the job", of_job<&spec::Job::name>, text},
    {"configuration.model", "model", "", "model", "", [](R r) { return Json(r.job->model.name); },
     text},
    {"configuration.cluster", "cluster", "", "cluster", "",
     [](R r) { return Json(r.job->cluster.name); }, text},
    {"configuration.gpu", "", "", "", "type of the GPUs",
     [](R r) { return Json(r.job->cluster.gpu.name); }, text},
    {"configuration.stack", "stack", "", "software stack", "",
     [](R r) { return Json(r.job->stack.name); }, text},
    {"configuration.task", "task", "", "task", "`pretrain`, `lora`, `prefill`, `decode`",
     [](R r) { return Json(spec::enum_name(r.job->task)); }, text},
    {"configuration.num_gpus", "num_gpus", "", "GPUs", "",
     [](R r) { return Json(r.job->cluster.num_gpus()); }, count},
    {"configuration.num_nodes", "", "", "nodes", "",
     [](R r) { return Json(r.job->cluster.num_nodes); }, count},
    {"configuration.tensor_parallel_size", "tensor_parallel_size", "", "tensor parallelism", "",
     of_plan<&spec::Plan::tensor_parallel_size>, count},
    {"configuration.pipeline_parallel_size", "pipeline_parallel_size", "", "pipeline parallelism",
     "", of_plan<&spec::Plan::pipeline_parallel_size>, count},
    {"configuration.data_parallel_size", "data_parallel_size", "", "data parallelism", "",
     [](R r) { return of(metrics::data_parallel_size(*r.job)); }, count},
    {"configuration.context_parallel_size", "context_parallel_size", "", "context parallelism", "",
     of_plan<&spec::Plan::context_parallel_size>, count},
    {"configuration.expert_parallel_size", "expert_parallel_size", "", "expert parallelism", "",
     of_plan<&spec::Plan::expert_parallel_size>, count},
    {"configuration.expert_group_nodes", "", "", "", "nodes that one expert-parallel group spans",
     [](R r) { return of(metrics::expert_group_nodes(*r.job)); }, count},
    {"configuration.virtual_pipeline_size", "virtual_pipeline_size", "", "chunks per stage", "",
     of_plan<&spec::Plan::virtual_pipeline_size>, count},
    {"configuration.layers_per_stage", "", "", "layers per stage",
     "of each stage, or each of its chunks; null: as even as they can be",
     [](R r) {
       const auto& layers = r.job->plan.layers_per_stage;
       return layers.empty() ? Json() : Json(fmt::format("{}", fmt::join(layers, " ")));
     },
     text},
    {"configuration.micro_batch_size", "micro_batch_size", "", "microbatch", "sequences",
     of_plan<&spec::Plan::micro_batch_size>, count},
    {"configuration.global_batch_size", "global_batch_size", "", "batch", "sequences",
     of_plan<&spec::Plan::global_batch_size>, count},
    {"configuration.num_microbatches", "", "", "microbatches", "",
     [](R r) { return of(metrics::num_microbatches(*r.job)); }, count},
    {"configuration.sequence_length", "", "", "sequence length", "tokens",
     [](R r) { return Json(r.job->model.sequence_length); }, count},
    {"configuration.records", "", "", "",
     "null, or `name`, `layout`, `mean_tokens` of a record as far as it fits, `records_per_row`, "
     "`row_tokens` (of a mean microbatch), `used_share` of a row",
     records_of, object},
    {"configuration.sequence_parallel", "", "", "sequence parallelism", "",
     of_plan<&spec::Plan::sequence_parallel>, truth},
    {"configuration.sharding", "sharding", "", "sharding",
     "`none`, `optimizer`, `gradients`, `parameters`", name_in_plan<&spec::Plan::sharding>, text},
    {"configuration.recompute", "recompute", "", "recompute", "training only",
     name_in_training<&spec::Plan::recompute>, text},
    {"configuration.overlap", "", "", "overlap", "what is hidden behind computing", overlaps_of,
     object},
    {"configuration.schedule", "schedule", "", "pipeline schedule", "training only",
     name_in_training<&spec::Plan::schedule>, text},
    {"configuration.precision", "precision", "", "precision", "",
     name_in_plan<&spec::Plan::precision>, text},
};

/// A recording has measured its conditions: its series have them.
constexpr Quantity conditions[] = {
    {"configuration.inlet", "", "", "inlet", "",
     [](R r) { return Json(fmt::format("{:.4g} °C", r.job->chassis().inlet.degrees())); }, text},
    {"configuration.cooling", "", "", "cooling", "",
     [](R r) { return Json(spec::enum_name(r.job->chassis().cooling)); }, text},
    {"configuration.clock_lock", "", "", "clock lock", "null: none", clock_locks_of, text},
    {"configuration.faults", "", "", "faults", "`none`, or their names", faults_of, text},
    {"configuration.pue", "", "", "PUE", "with which the site's energy is counted",
     [](R r) { return of(r.job->environment.pue); }},
    {"configuration.seed", "", "", "seed", "of the hardware's variation",
     [](R r) { return Json(r.job->environment.seed); }, count},
};
constexpr Quantity stated_conditions[] = {
    {"configuration.power_limit", "", "", "power limit", "of a GPU", power_limits_of, text},
    {"configuration.horizon", "", "", "horizon", "how long was simulated", horizon_of, text},
    {"configuration.producer", "", "", "producer", "version of the program", producer_of, text},
    {"configuration.numbers", "", "", "", "digest of the data used", digest_of, text},
};

// ---- memory

const run::MemoryUse& fullest(R r) {
  return r.memory[metrics::fullest_stage(r.memory)];
}
template <Bytes run::MemoryUse::*Part>
Json gib(R r) {
  return fullest(r).*Part / unit::GiB;
}
/// What training alone has.
template <Bytes run::MemoryUse::*Part>
Json training_gib(R r) {
  return r.job != nullptr && spec::is_inference(r.job->task) ? Json() : gib<Part>(r);
}

constexpr Quantity memory[] = {
    {"memory_gib.total", "memory_total_gib", "GiB", "memory of the fullest GPU", "",
     [](R r) { return Json(fullest(r).total() / unit::GiB); }, number, lower},
    {"memory_gib.limit", "memory_limit_gib", "GiB", "memory of a GPU", "what a job can use",
     [](R r) { return r.memory_limit ? Json(*r.memory_limit / unit::GiB) : Json(); }},
    {"memory_gib.weights", "memory_weights_gib", "GiB", "weights", "",
     gib<&run::MemoryUse::weights>, number, lower},
    {"memory_gib.gradients", "memory_gradients_gib", "GiB", "gradients", "training only",
     training_gib<&run::MemoryUse::gradients>, number, lower},
    {"memory_gib.optimizer", "memory_optimizer_gib", "GiB", "optimizer state", "training only",
     training_gib<&run::MemoryUse::optimizer>, number, lower},
    {"memory_gib.activations", "memory_activations_gib", "GiB", "activations", "",
     gib<&run::MemoryUse::activations>, number, lower},
    {"memory_gib.other", "memory_other_gib", "GiB", "other memory", "logits, buffers, reserve",
     [](R r) {
       const run::MemoryUse& use = fullest(r);
       return Json((use.logits + use.buffers + use.reserve) / unit::GiB);
     },
     number, lower},
    {"memory_gib.worst_stage", "", "", "", "pipeline stage of the fullest GPU",
     [](R r) { return Json(metrics::fullest_stage(r.memory)); }, count},
    {"memory_gib.per_stage", "", "GiB", "", "totals of all stages", memory_of_stages, object},
};

// ---- speed

/// What the simulator or the recorder says beside its series.
template <class Number>
Json of_producer(R r, std::optional<Number> run::ProducerNumbers::*number) {
  return r.run != nullptr ? of(r.run->numbers.*number) : Json();
}

using M = metrics::Metrics;
using metrics::Bursts, metrics::CoolDowns, metrics::LinkUse, metrics::Spread;
/// A member of the metrics, or of such a member.
template <auto Member>
Json metric(R r) {
  return of(r.metrics.*Member);
}
template <auto Member, auto Inner>
Json metric(R r) {
  return of(r.metrics.*Member.*Inner);
}

constexpr Quantity speed[] = {
    {"step_time_s", "step_time_s", "s", "step time", "", metric<&M::step_time>, number, lower},
    {"step_time_low_s", "step_time_low_s", "s", "",
     "lower end of the 80 % interval of a predicted step",
     [](R r) { return of_producer(r, &run::ProducerNumbers::step_time_low_s); }},
    {"step_time_high_s", "step_time_high_s", "s", "", "upper end",
     [](R r) { return of_producer(r, &run::ProducerNumbers::step_time_high_s); }},
    {"own_runs", "", "", "", "measured runs of one's own that the interval was learned from",
     [](R r) { return of_producer(r, &run::ProducerNumbers::own_runs); }},
    {"tokens_per_s", "tokens_per_s", "tokens/s", "speed", "", metric<&M::tokens_per_second>, number,
     higher},
    {"tokens_per_s_per_gpu", "tokens_per_s_per_gpu", "tokens/s", "speed of a GPU", "",
     metric<&M::tokens_per_second_per_gpu>, number, higher},
    {"samples_per_s", "samples_per_s", "samples/s", "speed in sequences", "",
     metric<&M::samples_per_second>, number, higher, 3, only_compared},
    {"model_tflops_per_gpu", "model_tflops_per_gpu", "TFLOP/s", "model FLOPs of a GPU",
     "without recomputation", metric<&M::model_tflops_per_gpu>, number, higher},
    {"mfu", "mfu", "share", "MFU", "model FLOPs over the dense peak of the data type",
     metric<&M::mfu>, number, higher},
    {"hfu", "hfu", "share", "HFU", "executed FLOPs over the same peak", metric<&M::hfu>},
    {"bubble_fraction", "bubble_fraction", "share", "bubble",
     "of the step: the rank that sets the pace has no work because of the schedule: outside passes "
     "and kernels, or waiting for a pipeline peer. What others wait longer is "
     "`step_parts_s.waiting`. Zero with one stage; null where neither job nor trace names stages",
     metric<&M::bubble_fraction>, number, lower},
    {"kernel_time_s", "", "", "", "null where no timeline is known", [](R) { return Json(); },
     object},
    {"stages", "", "", "",
     "list: `stage`, the keys of `kernel_time_s` but `compute_of_slowest_stage`, "
     "`bubble_fraction`, `power_mean_w`, `temperature_mean_c`, `sm_clock_mean_mhz`",
     stages_of, object},
    {"step_parts_s", "", "", "", "the step in disjoint parts; null where no timeline is known",
     [](R) { return Json(); }, object},
};

using K = metrics::KernelSeconds;
template <auto Part>
Json kernel(R r) {
  return of(r.metrics.kernels.*Part);
}

/// Mean over ranks; overlapping kernels count twice.
constexpr Quantity kernel_time[] = {
    {"kernel_time_s.total", "kernel_total_s", "s", "all kernels",
     "of a rank, mean over ranks; overlapping kernels count twice",
     [](R r) { return of(r.metrics.kernels.total()); }, number, lower},
    {"kernel_time_s.compute", "kernel_compute_s", "s", "compute", "GEMM and attention",
     kernel<&K::compute>, number, lower},
    {"kernel_time_s.compute_of_slowest_stage", "", "s", "", "of the stage that computes longest",
     [](R r) { return of(metrics::compute_of_slowest_stage(r.metrics)); }},
    {"kernel_time_s.send_recv", "kernel_send_recv_s", "s", "send/recv", "", kernel<&K::send_recv>,
     number, lower},
    {"kernel_time_s.all_gather", "kernel_all_gather_s", "s", "all-gather", "",
     kernel<&K::all_gather>, number, lower},
    {"kernel_time_s.reduce_scatter", "kernel_reduce_scatter_s", "s", "reduce-scatter", "",
     kernel<&K::reduce_scatter>, number, lower},
    {"kernel_time_s.all_reduce", "kernel_all_reduce_s", "s", "all-reduce", "",
     kernel<&K::all_reduce>, number, lower},
    {"kernel_time_s.all_to_all", "kernel_all_to_all_s", "s", "all-to-all", "",
     kernel<&K::all_to_all>, number, lower},
    {"kernel_time_s.memory", "kernel_memory_s", "s", "norms, elementwise, optimizer", "and copies",
     kernel<&K::memory>, number, lower},
    {"kernel_time_s.other", "kernel_other_s", "s", "other kernels", "", kernel<&K::other>},
    {"kernel_time_s.waiting", "kernel_waiting_s", "s", "waiting inside communication",
     "part of the communication above", kernel<&K::waiting>, number, lower},
};

constexpr Quantity step_parts[] = {
    {"step_parts_s.computing", "", "s", "computing", "a kernel runs; mean over ranks",
     [](R r) { return of(r.metrics.parts->computing); }},
    {"step_parts_s.copying", "", "s", "copying", "",
     [](R r) { return of(r.metrics.parts->copying); }, number, lower},
    {"step_parts_s.exposed_communication", "", "s", "", "a collective transfers, nothing computes",
     [](R r) { return of(r.metrics.parts->exposed_communication); }, number, lower},
    {"step_parts_s.waiting", "waiting_s", "s", "waiting for late peers", "or for a slower stage",
     [](R r) { return of(r.metrics.parts->waiting); }, number, lower, 3, only_compared},
    {"step_parts_s.bubble", "", "s", "time in the bubble", "",
     [](R r) { return of(r.metrics.parts->bubble); }, number, lower},
    {"step_parts_s.gaps", "", "s", "gaps between kernels",
     "no kernel, the host's; all idle time where `bubble_fraction` is null",
     [](R r) { return of(r.metrics.parts->gaps); }, number, lower},
};

constexpr Quantity overlap[] = {
    {"exposed_communication_s", "exposed_communication_s", "s", "exposed communication",
     "as in `step_parts_s`", metric<&M::exposed_communication>, number, lower},
    {"overlapped_communication_s", "overlapped_communication_s", "s", "overlapped communication",
     "a collective runs and another kernel", metric<&M::overlapped_communication>},
    {"idle_s", "idle_s", "s", "idle", "no kernel runs", metric<&M::idle>, number, lower},
    {"launch_gaps_s", "launch_gaps_s", "s", "launch gaps", "the part of `idle_s` inside passes",
     metric<&M::launch_gaps>, number, lower},
    {"step_without_heat_s", "", "s", "step time without heat",
     "simulated: with every die as cool as its inlet", metric<&M::step_without_heat>, number,
     lower},
};

// ---- power and energy

constexpr Quantity power_and_energy[] = {
    {"power_w.mean", "power_mean_w", "W", "power of a GPU, mean", "", metric<&M::power_mean_w>},
    {"power_w.peak", "power_peak_w", "W", "power of a GPU, peak",
     "highest reading of any GPU's sensor; of a simulated run its median, which may exceed the "
     "medians of each GPU",
     metric<&M::power_peak_w>, number, lower},
    {"power_w.kernel_peak", "power_kernel_peak_w", "W", "power of the most power-hungry kernel",
     "before a sensor averages", metric<&M::power_kernel_peak_w>, number, lower},
    {"power_w.per_gpu", "", "W", "", "means", metric<&M::power_per_gpu_w>, per_gpu},
    {"power_w.peak_per_gpu", "", "W", "", "", metric<&M::power_peak_per_gpu_w>, per_gpu},
    {"power_w.memory_per_gpu", "", "W", "", "means of the memory alone, of recordings",
     metric<&M::memory_power_per_gpu_w>, per_gpu},
    {"power_w.std_within_nodes", "", "W", "",
     "standard deviation over a node's GPUs, mean over nodes",
     metric<&M::power_spread_w, &Spread::within_nodes>},
    {"power_w.std_between_nodes", "", "W", "", "standard deviation of the nodes' means",
     metric<&M::power_spread_w, &Spread::between_nodes>},
    {"energy_j", "energy_j", "J", "GPU energy of a step", "one step, all GPUs",
     metric<&M::energy_j>, number, lower},
    {"node_energy_j", "node_energy_j", "J", "node energy of a step",
     "one step, everything behind the nodes' supplies", metric<&M::node_energy_j>, number, lower},
    {"site_energy_j", "site_energy_j", "J", "site energy of a step",
     "`node_energy_j` times the site's PUE; null where the job does not state it",
     metric<&M::site_energy_j>, number, lower},
    {"joules_per_token", "joules_per_token", "J/token", "energy of a token",
     "energy of the step in `energy_scope` / its tokens", metric<&M::joules_per_token>, number,
     lower},
    {"energy_scope", "", "", "",
     "what `joules_per_token` counts: `gpu`, `node` (everything behind the nodes' supplies) or "
     "`site` (times its PUE)",
     [](R r) { return Json(metrics::energy_scopes[as_size(r.metrics.energy_scope)]); }, text},
    {"samples_per_s_mj", "samples_per_s_mj", "samples/(s MJ)", "efficiency by GPU energy",
     "samples per second / `energy_j` in MJ: the efficiency of the MICRO'25 paper; training only",
     metric<&M::samples_per_s_mj>, number, higher},
    {"energy_ledger_j", "", "J", "",
     "`energy_j` by purpose, none negative: `idle` (base power without leakage), `leakage` (all "
     "that flows), `compute`, `memory`, `communication`, `waiting`",
     metric<&M::energy_ledger_j>, object},
    {"bursts.swing_w", "", "W", "power swing",
     "95 % minus 5 % quantile of a GPU's power readings, mean over GPUs (simulated steps have 200 "
     "bins; of transients the last step)",
     metric<&M::bursts, &Bursts::swing_w>, number, lower},
    {"bursts.microbatch_swing_w", "", "W", "power swing within a microbatch",
     "simulated: the same quantiles over the kernels, exposed collectives and host gaps of one "
     "pass of each kind, before a sensor averages; mean over stages",
     metric<&M::bursts, &Bursts::microbatch_swing_w>, number, lower},
    {"bursts.ramp_up_w_per_s", "", "W/s", "steepest rise of power",
     "over 0.1 s or, where readings are further apart, between two",
     metric<&M::bursts, &Bursts::ramp_up_w_per_s>, number, lower},
    {"bursts.ramp_down_w_per_s", "", "W/s", "steepest fall of power", "",
     metric<&M::bursts, &Bursts::ramp_down_w_per_s>, number, lower},
    {"bursts.duty", "", "share", "time near the power limit", "at 90 % of it or more",
     metric<&M::bursts, &Bursts::duty>},
    {"bursts.swing_per_gpu_w", "", "W", "", "", metric<&M::bursts, &Bursts::swing_per_gpu_w>,
     per_gpu},
};

// ---- heat and clock

constexpr Quantity heat[] = {
    {"temperature_c.mean", "temperature_mean_c", "°C", "temperature, mean", "of the dies",
     metric<&M::temperature_mean_c>, number, lower},
    {"temperature_c.peak", "temperature_peak_c", "°C", "temperature, peak", "",
     metric<&M::temperature_peak_c>, number, lower},
    {"temperature_c.hot_mean", "hot_mean_c", "°C", "hot slots", "mean of the dies in `hot_slots`",
     metric<&M::hot_mean_c>, number, lower},
    {"temperature_c.cool_mean", "cool_mean_c", "°C", "cool slots", "mean of the others",
     metric<&M::cool_mean_c>, number, lower},
    {"temperature_c.hot_over_cool", "", "ratio", "hot over cool slots",
     "of means in °C, as in the paper", metric<&M::hot_over_cool>, number, lower},
    {"temperature_c.hottest_over_coolest", "hottest_over_coolest", "ratio",
     "hottest over coolest GPU", "of means in °C, as in the paper",
     metric<&M::hottest_over_coolest>, number, lower},
    {"temperature_c.std_within_nodes", "", "°C", "",
     "standard deviation over a node's GPUs, mean over nodes",
     metric<&M::temperature_spread_c, &Spread::within_nodes>},
    {"temperature_c.std_between_nodes", "", "°C", "", "standard deviation of the nodes' means",
     metric<&M::temperature_spread_c, &Spread::between_nodes>},
    {"temperature_c.package_difference", "", "°C", "",
     "hottest minus coolest die of a package, mean over packages",
     metric<&M::package_difference_c>},
    {"temperature_c.per_gpu", "", "°C", "", "means", metric<&M::temperature_per_gpu_c>, per_gpu},
    {"temperature_c.peak_per_gpu", "", "°C", "", "", metric<&M::temperature_peak_per_gpu_c>,
     per_gpu},
    {"temperature_c.hot_slots", "", "", "",
     "slots of the chassis: two groups of the least spread within, of any sizes; these are the hot "
     "ones",
     metric<&M::hot_slots>, object},
    {"memory_temperature_c.mean", "", "°C", "temperature of memory, mean",
     "of a simulated transient that of its last step, up to 2,048 GPUs", metric<&M::memory_mean_c>,
     number, lower},
    {"memory_temperature_c.peak", "", "°C", "temperature of memory, peak", "",
     metric<&M::memory_peak_c>, number, lower},
    {"memory_temperature_c.std_within_nodes", "", "°C", "", "",
     metric<&M::memory_spread_c, &Spread::within_nodes>},
    {"memory_temperature_c.std_between_nodes", "", "°C", "", "",
     metric<&M::memory_spread_c, &Spread::between_nodes>},
    {"memory_temperature_c.per_gpu", "", "°C", "", "", metric<&M::memory_per_gpu_c>, per_gpu},
    {"cool_downs.count", "", "", "cool-downs of a GPU",
     "spans of at least 2 s in which a die is 5 K or more below its level (90 % quantile of its "
     "readings); they end within 2.5 K of it. Of a step, mean over GPUs. Warm-up is none. A gap of "
     "more than 2 s ends one and is no time. Null where readings are more than 2 s apart on "
     "average, and of simulated transients",
     metric<&M::cool_downs, &CoolDowns::count>, number, lower},
    {"cool_downs.share_of_time", "", "share", "time cooling down", "",
     metric<&M::cool_downs, &CoolDowns::share_of_time>, number, lower},
    {"cool_downs.mean_length_s", "", "s", "length of a cool-down", "null: there are none",
     metric<&M::cool_downs, &CoolDowns::mean_length>, number, lower},
    {"cool_downs.largest_fall_k", "", "K", "largest cool-down",
     "below the level of its GPU, however short",
     metric<&M::cool_downs, &CoolDowns::largest_fall_k>, number, lower},
    {"cool_downs.share_per_gpu", "", "share", "", "",
     metric<&M::cool_downs, &CoolDowns::share_per_gpu>, per_gpu},
    {"sm_clock_mhz.mean", "sm_clock_mean_mhz", "MHz", "SM clock, mean", "",
     metric<&M::sm_clock_mean_mhz>, number, higher, 4},
    {"sm_clock_mhz.hot_mean", "", "MHz", "SM clock of hot slots", "",
     metric<&M::hot_clock_mean_mhz>, number, higher},
    {"sm_clock_mhz.cool_mean", "", "MHz", "SM clock of cool slots", "",
     metric<&M::cool_clock_mean_mhz>, number, higher},
    {"sm_clock_mhz.slowest_in_hot_slot", "", "share", "",
     "of the nodes with different clocks: the slowest device is in a hot slot",
     metric<&M::slowest_in_hot_slot>},
    {"sm_clock_mhz.in_passes", "", "MHz", "SM clock in passes",
     "simulated: mean while forward and backward passes run", metric<&M::clock_in_passes_mhz>,
     number, higher},
    {"sm_clock_mhz.lost_to_power", "", "MHz", "clock lost to the power limit",
     "simulated: at inlet temperature", metric<&M::clock_lost_to_power_mhz>, number, lower},
    {"sm_clock_mhz.lost_to_temperature", "", "MHz", "clock lost to heat",
     "simulated: beyond what the power limit takes", metric<&M::clock_lost_to_temperature_mhz>,
     number, lower},
    {"sm_clock_mhz.std_within_nodes", "", "MHz", "", "",
     metric<&M::clock_spread_mhz, &Spread::within_nodes>},
    {"sm_clock_mhz.std_between_nodes", "", "MHz", "", "",
     metric<&M::clock_spread_mhz, &Spread::between_nodes>},
    {"sm_clock_mhz.per_gpu", "", "MHz", "", "means", metric<&M::sm_clock_per_gpu_mhz>, per_gpu},
    {"sm_clock_mhz.min_per_gpu", "", "MHz", "", "", metric<&M::sm_clock_min_per_gpu_mhz>, per_gpu},
    {"throttle", "", "share", "",
     "of the time the clock is below the requested one, by reason, mean over GPUs",
     [](R r) {
       return Json(r.metrics.throttle.empty() ? Json::object() : Json(r.metrics.throttle));
     },
     object},
    {"throttle_per_gpu", "", "share", "", "lists of the reasons that occur",
     metric<&M::throttle_per_gpu>, per_gpu},
    {"throttled_per_gpu", "", "share", "",
     "with any reason, each moment once (of a recording: what polled reasons show, and at least "
     "the longest reason)",
     metric<&M::throttled_per_gpu>, per_gpu},
    {"utilization.mean", "", "share", "utilization",
     "a kernel sits on the GPU, waiting collectives included, as NVML has it",
     metric<&M::utilization>},
    {"utilization.std_within_nodes", "", "share", "", "",
     metric<&M::utilization_spread, &Spread::within_nodes>},
    {"utilization.std_between_nodes", "", "share", "", "",
     metric<&M::utilization_spread, &Spread::between_nodes>},
    {"utilization.per_gpu", "", "share", "", "", metric<&M::utilization_per_gpu>, per_gpu},
};

template <const char* Reason>
Json throttled_by(R r) {
  return of(metrics::throttled_share(r.metrics, Reason));
}
constexpr char power_cap[] = "software_power_cap", software_thermal[] = "software_thermal",
               hardware_thermal[] = "hardware_thermal";
/// Columns of reasons that JSON has in `throttle`.
constexpr Quantity throttle[] = {
    {"", "throttle_software_power_cap", "share", "throttled by the power limit", "",
     throttled_by<power_cap>, number, lower},
    {"", "throttle_software_thermal", "share", "throttled by temperature", "",
     throttled_by<software_thermal>, number, lower},
    {"", "throttle_hardware_thermal", "share", "throttled by the hardware's temperature limit", "",
     throttled_by<hardware_thermal>, number, lower},
};

// ---- links, and who is slow

constexpr Quantity links[] = {
    {"links.scale_up_bytes", "scale_up_bytes", "B", "sent inside the node, a GPU", "one step",
     metric<&M::links, &LinkUse::scale_up>, number, lower, 3, only_compared},
    {"links.scale_out_bytes", "scale_out_bytes", "B", "sent between nodes, a GPU", "one step",
     metric<&M::links, &LinkUse::scale_out>, number, lower, 3, only_compared},
    {"links.scale_up_utilization", "", "share", "use of the links in a node",
     "of the datasheet bandwidth, over the step",
     metric<&M::links, &LinkUse::scale_up_utilization>},
    {"links.scale_out_utilization", "", "share", "use of the NICs", "likewise",
     metric<&M::links, &LinkUse::scale_out_utilization>},
    {"links.scale_up_per_gpu_bytes", "", "B", "", "sent",
     metric<&M::links, &LinkUse::scale_up_per_gpu_bytes>, per_gpu},
    {"links.scale_out_per_gpu_bytes", "", "B", "", "sent",
     metric<&M::links, &LinkUse::scale_out_per_gpu_bytes>, per_gpu},
    {"links.scale_up_received_per_gpu_bytes", "", "B", "", "of recordings with the counters",
     metric<&M::links, &LinkUse::scale_up_received_per_gpu_bytes>, per_gpu},
    {"links.pcie_received_per_gpu_bytes", "", "B", "",
     "likewise; PCIe carries what goes to the host and to the NICs",
     metric<&M::links, &LinkUse::pcie_received_per_gpu_bytes>, per_gpu},
    {"links.pcie_sent_per_gpu_bytes", "", "B", "", "likewise",
     metric<&M::links, &LinkUse::pcie_sent_per_gpu_bytes>, per_gpu},
    {"links.messages", "", "", "", "list: `up_to_bytes`, `count`, `bytes`", messages_of, object},
    {"bottlenecks", "", "", "",
     "who slows the others, most first: `of` (`gpu`, `node`, `rank`), `who[]`, `cause` (`unknown`, "
     "`power_limit`, `power_cap`, `power_brake`, `power_delivery`, `board`, `heat`, `clock_lock`, "
     "`links`, `host`, `data_loader`), `cost_s` of a step (1 % of it at least; null: not known), "
     "`at_most` (the cost is a bound), `waits_s` (of traces: of all other ranks together), "
     "`evidence[]`: `kind` (what is slow first), `value`, `peers` (their median), `name` (of a "
     "kernel or call); units in run/bottleneck.h",
     bottlenecks_of, object},
};

// ---- inference

metrics::InferenceSpeed serving(R r) {
  return r.job != nullptr ? metrics::inference_speed(r.job->task, r.metrics)
                          : metrics::InferenceSpeed{};
}
constexpr Quantity inference[] = {
    {"prompt_tokens_per_s", "prompt_tokens_per_s", "tokens/s", "speed of prefill", "prefill only",
     [](R r) { return of(serving(r).prompt_tokens_per_s); }, number, higher},
    {"time_to_first_token_s", "time_to_first_token_s", "s", "time to the first token",
     "of every prompt of the batch; prefill only",
     [](R r) { return of(serving(r).time_to_first_token); }, number, lower},
    {"generated_tokens_per_s", "generated_tokens_per_s", "tokens/s", "speed of decode",
     "decode only", [](R r) { return of(serving(r).generated_tokens_per_s); }, number, higher},
    {"time_per_output_token_s", "time_per_output_token_s", "s", "time to the next token",
     "of every sequence of the batch; decode only",
     [](R r) { return of(serving(r).time_per_output_token); }, number, lower},
};

// ---- of a recording as a whole

constexpr Quantity recording[] = {
    {"recording.duration_s", "", "s", "length of the recording", "",
     [](R r) { return of_producer(r, &run::ProducerNumbers::recording_s); }},
    {"recording.energy_j", "", "J", "energy of the recording", "of all devices that know it",
     [](R r) { return of_producer(r, &run::ProducerNumbers::recording_energy_j); }},
    {"recording.energy_uncertainty_j", "", "J", "", "",
     [](R r) { return of_producer(r, &run::ProducerNumbers::recording_energy_uncertainty_j); }},
    {"recording.numbers", "", "", "", "all that its producer wrote down, by name",
     producer_numbers_of, object},
};

constexpr QuantityGroup groups[] = {
    {"identity", "Identity", Given::always, identity},
    {"shutdown", "Shutdown", Given::if_known, shutdown},
    {"configuration", "The job", Given::of_jobs, configuration},
    {"conditions", "Conditions of a simulation", Given::of_simulated, conditions},
    {"stated", "Conditions, where they are stated", Given::if_known, stated_conditions},
    {"memory", "Memory of the fullest GPU", Given::with_memory, memory},
    {"speed", "Speed", Given::if_trained, speed},
    {"kernels", "Kernel seconds of a GPU in one step", Given::with_kernels, kernel_time},
    {"parts", "Parts of a step", Given::with_parts, step_parts},
    {"overlap", "Communication and gaps", Given::if_trained, overlap},
    {"energy", "Power and energy", Given::if_trained, power_and_energy},
    {"heat", "Heat and clock", Given::if_trained, heat},
    {"throttle", "Throttling", Given::if_trained, throttle},
    {"links", "Links and slow devices", Given::if_trained, links},
    {"inference", "Inference", Given::if_known, inference},
    {"recording", "The whole recording", Given::if_known, recording},
};

// ---- where there is no room for all

constexpr JobColumn columns_of_jobs[] = {{"step_time_s", "step", true},
                                         {"tokens_per_s", "", true},
                                         {"mfu", "MFU", false, 1},
                                         {"joules_per_token", "", true},
                                         {"power_w.mean", "power", true},
                                         {"power_w.peak", "peak", false, 1},
                                         {"temperature_c.mean", "die"},
                                         {"temperature_c.peak", "peak", true, 1},
                                         {"sm_clock_mhz.mean", "clock", true, 1},
                                         {"memory_gib.total", "memory", false, 1}};

constexpr Headline headlines_of_runs[] = {{"tokens_per_s", ""},
                                          {"mfu", ""},
                                          {"power_w.mean", "power of a GPU"},
                                          {"bursts.swing_w", "swing of a GPU"},
                                          {"joules_per_token", ""},
                                          {"temperature_c.mean", "die temperature"},
                                          {"sm_clock_mhz.mean", "SM clock"}};

struct Found {
  const QuantityGroup* group = nullptr;
  const Quantity* quantity = nullptr;
};
Found find(std::string_view key_or_name) {
  if (key_or_name.empty()) return {};
  for (const QuantityGroup& group : groups)
    for (const Quantity& quantity : group.quantities)
      if (quantity.key == key_or_name || quantity.name == key_or_name) return {&group, &quantity};
  return {};
}

}  // namespace

std::span<const QuantityGroup> quantity_groups() {
  return groups;
}

bool is_given(const QuantityGroup& group, const RunResult& result) {
  switch (group.given) {
    case Given::always:
    case Given::if_known:
      return true;
    case Given::of_jobs:
      return result.job != nullptr;
    case Given::of_simulated:
      return is_simulated(result);
    case Given::with_memory:
      return !result.memory.empty();
    case Given::with_kernels:
      return result.knows_kernels;
    case Given::with_parts:
      return result.has_trained && result.metrics.parts.has_value();
    case Given::if_trained:
      return result.has_trained;
  }
  return false;
}

const Quantity* find_quantity(std::string_view key_or_name) {
  return find(key_or_name).quantity;
}

const Quantity& quantity_of(std::string_view key_or_name) {
  const Quantity* quantity = find_quantity(key_or_name);
  TPT_EXPECT(quantity != nullptr);
  return *quantity;
}

std::optional<double> number_of(std::string_view key_or_name, const RunResult& result) {
  const auto [group, quantity] = find(key_or_name);
  TPT_EXPECT(quantity != nullptr);
  if (!is_given(*group, result)) return std::nullopt;
  const Json value = quantity->value(result);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

ShownUnit shown_unit(const Quantity& quantity) {
  if (quantity.unit == "share") return {"%", 0.01};
  if (quantity.unit == "J") return {"MJ", 1e6};
  if (quantity.unit == "B") return {"GiB", unit::GiB / unit::B};
  if (quantity.unit == "ratio") return {""};
  return {quantity.unit};
}

std::string text_of(const Quantity& quantity, double stored) {
  if (quantity.unit == "share") return percent(stored);
  const auto [unit_name, scale] = shown_unit(quantity);
  return fmt::format("{} {}", significant(stored / scale, quantity.digits), unit_name);
}

std::string JobColumn::title() const {
  const std::string_view unit_name = shown_unit(quantity()).unit;
  return head.empty() ? std::string(unit_name) : fmt::format("{} ({})", head, unit_name);
}

std::span<const JobColumn> job_columns() {
  return columns_of_jobs;
}

std::span<const Headline> headlines() {
  return headlines_of_runs;
}

}  // namespace triplepoint::answers
