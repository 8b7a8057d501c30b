// SPDX-License-Identifier: Apache-2.0
// The job that flags tell, on top of a file or alone.

#include "triplepoint/base/text.h"

#include "triplepoint/answers/labels.h"
#include "triplepoint/flags/job_flags.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::flags {
namespace {

template <class T>
void set(T& target, const std::optional<T>& given) {
  if (given) target = *given;
}
template <class T>
void set(std::optional<T>& target, const std::optional<T>& given) {
  if (given) target = given;
}

/// What a flag says is stated.
template <class T>
void state(spec::StatedJob& stated, spec::JobSetting setting, T& target,
           const std::optional<T>& given) {
  if (!given) return;
  target = *given;
  stated.stated.insert(setting);
}

}  // namespace

Result<spec::Job> JobFlags::job(const spec::Library& library) const {
  return with_own_runs(TPT_TRY(job_as_shipped(library)));
}

Result<spec::Job> JobFlags::job_as_shipped(const spec::Library& library) const {
  spec::StatedJob stated = TPT_TRY(start(library));
  TPT_TRY(choose_inputs(library, stated));
  set_sizes(stated);
  set_virtual_stages(stated.job.plan);
  set_memory_savings(stated);
  set_precision(stated);
  TPT_TRY(set_overlap(stated.job.plan));
  set_order(stated.job);
  set_environment(stated.job);
  spec::Job job = TPT_TRY(spec::with_defaults(library, stated));
  spec::note_defaults(job, stated, searched_);
  if (job.name.empty()) job.name = answers::default_name(job);
  return job;
}

Result<spec::Job> JobFlags::with_own_runs(spec::Job job) const {
  if (const auto own = TPT_TRY(own_runs())) {
    job = own->applied(job);
    job.notes.push_back(fmt::format("{} ({})", own->about(job), *with_));
  }
  return job;
}

Result<std::optional<learn::Calibration>> JobFlags::own_runs() const {
  if (!with_) return std::nullopt;
  return TPT_TRY(learn::Calibration::read(*with_));
}

std::set<std::string, std::less<>> JobFlags::keys_of_model() {
  return {"model",      "num-layers",    "hidden-size", "num-attention-heads",
          "vocab-size", "tokenizer-type"};
}

/// Keys of launch files whose values these flags replace, without the part before the last dot.
std::set<std::string, std::less<>> JobFlags::keys_set() const {
  std::set<std::string, std::less<>> keys = sizes_.keys();
  const auto replaces = [&](bool given, std::initializer_list<const char*> names) {
    if (given) keys.insert(names.begin(), names.end());
  };
  if (model_) keys.merge(keys_of_model());
  replaces(cluster_.has_value(), {"nproc-per-node", "devices", "np"});
  replaces(nodes_.has_value(), {"nnodes", "num-nodes"});
  replaces(tp_.has_value(), {"tensor-model-parallel-size"});
  replaces(pp_.has_value(), {"pipeline-model-parallel-size"});
  replaces(cp_.has_value(), {"context-parallel-size"});
  replaces(ep_.has_value(), {"expert-model-parallel-size"});
  replaces(expert_tp_.has_value(), {"expert-tensor-parallel-size"});
  replaces(vpp_.has_value(),
           {"virtual-pipeline-model-parallel-size", "num-layers-per-virtual-pipeline-stage",
            "num-virtual-stages-per-pipeline-rank"});
  replaces(sequence_parallel_, {"sequence-parallel"});
  replaces(layers_per_stage_.has_value(),
           {"decoder-first-pipeline-num-layers", "decoder-last-pipeline-num-layers",
            "pipeline-model-parallel-layout", "num-layers-in-first-pipeline-stage",
            "num-layers-in-last-pipeline-stage"});
  replaces(mbs_.has_value(), {"micro-batch-size"});
  replaces(gbs_.has_value(), {"global-batch-size"});
  if (keys.contains("vocab-size")) keys.insert({"tokenizer-type", "model.tokenizer.type"});
  replaces(seq_.has_value(),
           {"seq-length", "encoder-seq-length", "max-seq-length", "max-position-embeddings"});
  replaces(record_layout_.has_value(), {"pad-to-max-length", "packed-sequence"});
  replaces(precision_.has_value(), {"bf16", "fp16", "fp8", "fp8-format", "precision"});
  replaces(recompute_.has_value(), {"recompute-granularity", "activations-checkpoint-granularity"});
  replaces(recompute_layers_.has_value(),
           {"recompute-num-layers", "activations-checkpoint-num-layers"});
  replaces(!recompute_modules_.empty(), {"recompute-modules"});
  replaces(activation_offload_.has_value(),
           {"cpu-offloading", "cpu-offloading-num-layers", "fine-grained-activation-offloading",
            "offload-modules"});
  replaces(overlap_.has_value(),
           {"tp-comm-overlap", "ub-tp-comm-overlap", "overlap-grad-reduce", "overlap-grad-sync",
            "overlap-param-gather", "overlap-param-sync", "overlap-p2p-comm",
            "no-overlap-p2p-communication", "overlap-moe-expert-parallel-comm"});
  replaces(optimizer_.has_value(), {"optimizer", "model.optim.name"});
  replaces(lora_rank_.has_value(), {"adapter-dim"});
  return keys;
}

Result<formats::ImportHints> JobFlags::hints() const {
  formats::ImportHints named{
      .cluster = cluster_, .num_nodes = nodes_, .stack = stack_, .by_flags = keys_set()};
  TPT_TRY(launch_.add_to(named));
  return named;
}

/// The file's job, or an empty one, with the model and the machines that the flags name.
Result<spec::StatedJob> JobFlags::start(const spec::Library& library) const {
  formats::ImportHints named = TPT_TRY(hints());
  if (!file_.empty()) return formats::read_stated_job(library, file_, named);
  spec::StatedJob stated;
  if (!beginning_.empty()) {
    stated = TPT_TRY(spec::parse_stated_job(library, beginning_, "command line"));
    stated.job.name.clear();
  } else if (const bool model = model_ || sizes_.given(); !model || !cluster_) {
    return error(
        "no {0} was named (a job needs a model and a cluster); try --{0} {1}, or give a job file",
        model ? "cluster" : "model", model ? "hgx-h200" : "gpt3-175b");
  }
  stated.job.origin = "command line";
  named.to_file = false;
  TPT_TRY(formats::apply_hints(library, named, stated));
  return stated;
}

/// The model named by flags in place of the file's, with the sizes that flags give.
Result<void> JobFlags::choose_model(const spec::Library& library, spec::StatedJob& stated) const {
  spec::Job& job = stated.job;
  if (model_) {
    formats::NamedModel named = TPT_TRY(formats::read_model(library, *model_, TPT_TRY(hints())));
    const int64_t of_file = job.model.sequence_length;
    job.model = std::move(named.model);
    job.notes.insert(job.notes.end(), named.notes.begin(), named.notes.end());
    if (stated.states(spec::JobSetting::sequence_length)) job.model.sequence_length = of_file;
    stated.length_from = named.length_from;
  }
  if (job.model.name.empty()) job.model = TPT_TRY(sizes_.model(seq_));
  return sizes_.change(job.model);
}

Result<void> JobFlags::choose_inputs(const spec::Library& library, spec::StatedJob& stated) const {
  spec::Job& job = stated.job;
  state(stated, spec::JobSetting::task, job.task, task_);
  TPT_TRY(choose_model(library, stated));
  state(stated, spec::JobSetting::sequence_length, job.model.sequence_length, seq_);
  if (job.cluster.name.empty()) {
    return error("no cluster was named (the file gives a model only); try --cluster hgx-h200");
  }
  if (const int64_t nodes = nodes_.value_or(job.cluster.num_nodes); nodes < 1)
    return error("{} nodes cannot run a job; use --nodes 1 or more", nodes);
  set(job.plan.record_layout, record_layout_);
  if (records_) job.records = TPT_TRY(spec::load_records(library, *records_));
  if (!optimizer_) return {};
  job.plan.optimizer = TPT_TRY(spec::load_optimizer(library, *optimizer_));
  stated.stated.insert(spec::JobSetting::optimizer);
  return {};
}

void JobFlags::set_sizes(spec::StatedJob& stated) const {
  spec::Plan& plan = stated.job.plan;
  set(plan.tensor_parallel_size, tp_);
  set(plan.pipeline_parallel_size, pp_);
  set(plan.context_parallel_size, cp_);
  set(plan.expert_parallel_size, ep_);
  set(plan.expert_tensor_parallel_size, expert_tp_);
  state(stated, spec::JobSetting::micro_batch_size, plan.micro_batch_size, mbs_);
  state(stated, spec::JobSetting::global_batch_size, plan.global_batch_size, gbs_);
  if (sequence_parallel_) plan.sequence_parallel = true;
}

void JobFlags::set_virtual_stages(spec::Plan& plan) const {
  set(plan.virtual_pipeline_size, vpp_);
  if (schedule_)
    plan.schedule = *schedule_;
  else if (vpp_ && plan.virtual_pipeline_size > 1)
    plan.schedule = spec::Schedule::interleaved;
}

void JobFlags::set_memory_savings(spec::StatedJob& stated) const {
  using enum spec::JobSetting;
  spec::Plan& plan = stated.job.plan;
  state(stated, sharding, plan.sharding, sharding_);
  state(stated, recompute, plan.recompute, recompute_);
  set(plan.recompute_layers, recompute_layers_);
  set(plan.activation_offload, activation_offload_);
  if (recompute_modules_.empty()) return;
  plan.recompute_modules = recompute_modules_;
  if (!recompute_) state(stated, recompute, plan.recompute, {spec::Recompute::selective});
}

void JobFlags::set_precision(spec::StatedJob& stated) const {
  spec::Job& job = stated.job;
  state(stated, spec::JobSetting::precision, job.plan.precision, precision_);
  if (fp8_attention_) job.plan.fp8_attention = true;
  if (!lora_rank_) return;
  if (!task_) state(stated, spec::JobSetting::task, job.task, {spec::Task::lora});
  if (!job.plan.lora) job.plan.lora.emplace();
  job.plan.lora->rank = *lora_rank_;
}

Result<void> JobFlags::set_overlap(spec::Plan& plan) const {
  if (!overlap_) return {};
  plan.overlap_tensor = plan.overlap_gradient = plan.overlap_parameter = false;
  plan.overlap_pipeline = plan.overlap_expert = false;
  for (const std::string& word : TPT_TRY(split_list(*overlap_))) {
    const std::vector<std::string> known = {"tp", "dp", "pp", "ep", "none"};
    if (!holds(known, word))
      return error(
          "--overlap: \"{}\" is no dimension of parallelism (what is named is "
          "hidden behind computing); {}",
          word, did_you_mean(word, known));
    plan.overlap_tensor |= word == "tp";
    plan.overlap_gradient |= word == "dp";
    plan.overlap_parameter |= word == "dp";
    plan.overlap_pipeline |= word == "pp";
    plan.overlap_expert |= word == "ep";
  }
  return {};
}

void JobFlags::set_order(spec::Job& job) const {
  set(job.plan.rank_order, rank_order_);
  set(job.plan.device_order, placement_);
  set(job.plan.layers_per_stage, layers_per_stage_);
}

void JobFlags::set_environment(spec::Job& job) const {
  set(job.environment.ambient, ambient_);
  set(job.environment.cooling, cooling_);
  set(job.environment.power_limit, power_limit_);
  set(job.environment.seed, seed_);
  set_fabric(job.cluster.scale_out);
}

/// Another kind of fabric has other groups, and no uplinks of the one before.
void JobFlags::set_fabric(spec::ScaleOut& fabric) const {
  if (fabric_ && *fabric_ != fabric.kind) {
    fabric.kind = *fabric_;
    fabric.nodes_per_group = 0;
    fabric.oversubscription = 1;
  }
  set(fabric.oversubscription, oversubscription_);
}

}  // namespace triplepoint::flags
