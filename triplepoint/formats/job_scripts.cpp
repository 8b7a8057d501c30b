// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/job_scripts.h"

#include <array>
#include <cmath>

#include "triplepoint/base/installation.h"
#include "triplepoint/base/quoting.h"

namespace triplepoint::formats {
namespace {

void replace_first(std::string& text, std::string_view what, std::string_view with) {
  if (const size_t at = text.find(what); at != std::string::npos)
    text.replace(at, what.size(), with);
}

/// Lines that sbatch reads and bash does not. Ranks that share cores share one node.
std::string slurm_lines(const spec::Job& job, const JobFiles& files, Seconds limit) {
  const spec::Cluster& cluster = job.cluster;
  const bool shared = cluster.shared_cores > 0;
  const bool torchrun = stack_of(job) != TrainingStack::triplepoint &&
                        stack_of(job) != TrainingStack::nemo;  // one task a node starts the others
  std::string text =
      fmt::format("#SBATCH --job-name={}\n#SBATCH --output={}\n",
                  shell_word(comment_text(files.stem)), sbatch_path(files.log().string()));
  text += "#SBATCH --open-mode=append\n";
  text += fmt::format("#SBATCH --time={:.0f}\n", std::ceil(limit / unit::min));
  text += fmt::format("#SBATCH --nodes={}\n", shared ? 1 : cluster.num_nodes);
  if (shared)
    text += fmt::format("#SBATCH --ntasks=1\n#SBATCH --cpus-per-task={}\n", cluster.shared_cores);
  else
    text += fmt::format("#SBATCH --ntasks-per-node={}\n#SBATCH --gpus-per-node={}\n",
                        torchrun ? 1 : cluster.gpus_per_node, cluster.gpus_per_node);
  return text;
}

std::string recorder(const JobFiles& files, const MeasurePlan& plan, const Path& program) {
  return fmt::format(
      "{} record --quiet --job {} --warmup {} --steps all -o {}-$repeat.run -- \\\n  ",
      shell_word(program.string()), shell_word(files.job().string()), plan.warmup,
      shell_word((files.folder / "work" / files.stem).string()));
}

std::string launcher_word(const MeasurePlan& plan) {
  return plan.launcher == "local" || plan.launcher == "slurm" ? "auto" : plan.launcher;
}

std::string train_command(const JobFiles& files, const MeasurePlan& plan, const Path& program) {
  return fmt::format("{} train {} --steps {} --warmup {} --launcher {} --quiet -o {}-$repeat.run\n",
                     shell_word(program.string()), shell_word(files.job().string()), plan.steps,
                     plan.warmup, launcher_word(plan),
                     shell_word((files.folder / "work" / files.stem).string()));
}

/// Where torchrun and NeMo find each other, and where our marks are.
std::string environment_lines() {
  std::string text =
      "export MASTER_ADDR=${MASTER_ADDR:-$( (scontrol show hostnames \"$SLURM_JOB_NODELIST\" "
      "2>/dev/null || echo localhost) | head -1)}\n";
  if (const auto data = data_folder())
    text += fmt::format("export PYTHONPATH={}:{}:$PYTHONPATH\n",
                        shell_word((data->parent_path() / "python").string()),
                        shell_word((data->parent_path() / "examples" / "marking").string()));
  return text +
         "per_node=${SLURM_JOB_ID:+srun --ntasks-per-node=1}\n"
         "per_rank=${SLURM_JOB_ID:+srun}\n";
}

std::string foreign_command(const spec::Job& job, const JobFiles& files, const MeasurePlan& plan,
                            const Path& program) {
  const std::string record = recorder(files, plan, program);
  switch (stack_of(job)) {
    case TrainingStack::megatron:
      return fmt::format(
          "cd \"${{MEGATRON_DIR:-.}}\"\n$per_node {}bash -c 'NODE_RANK=${{SLURM_NODEID:-0}} exec "
          "bash "
          "\"$0\"' {}\n",
          record, shell_word(files.launch(".sh").string()));
    case TrainingStack::nemo:
      return fmt::format(
          "$per_rank {}python \"${{NEMO_DIR:-/opt/NeMo}}\"/examples/nlp/language_modeling/{} "
          "--config-path={} --config-name={}{}\n",
          record, formats::nemo_entry_script(job.task),
          shell_word((files.folder / "launch").string()), shell_word(files.stem),
          job.stack.profiled
              ? fmt::format(" model.chakra_profile.trace_dir={}-$repeat-traces",
                            shell_word((files.folder / "work" / files.stem).string()))
              : "");
    case TrainingStack::torchtitan:
      return fmt::format(
          "cd \"${{TORCHTITAN_DIR:-.}}\"\n$per_node {}torchrun --nnodes {} --nproc-per-node {} "
          "--rdzv-backend c10d --rdzv-endpoint \"$MASTER_ADDR:29500\" -m torchtitan.train "
          "--job.config_file {}\n",
          record, job.cluster.num_nodes, job.cluster.gpus_per_node,
          shell_word(files.launch(".toml").string()));
    default:
      return "";
  }
}

LaunchFile megatron_file(const spec::Job& job, const JobFiles& files, const MeasurePlan& plan) {
  formats::Exported exported = formats::export_megatron_args(job);
  replace_first(exported.text, "--train-iters 20", fmt::format("--train-iters {}", plan.steps));
  // Steps are marked without a change to Megatron-LM.
  replace_first(
      exported.text, "    pretrain_gpt.py",
      fmt::format("    {} pretrain_gpt.py", shell_word(files.launch("-marked.py").string())));
  return {files.launch(".sh"), std::move(exported.text), std::move(exported.unsupported_settings)};
}

constexpr const char* marked_program = R"(import runpy
import sys

try:
    import megatron_steps
    megatron_steps.install()
except ImportError as problem:
    print(f"steps are not marked: {problem}", file=sys.stderr)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
)";

}  // namespace

TrainingStack stack_of(const spec::Job& job) {
  const std::string& framework = job.stack.framework;
  if (framework == "triplepoint train") return TrainingStack::triplepoint;
  if (framework == "Megatron-LM" || framework == "Megatron-Core") return TrainingStack::megatron;
  if (framework == "NeMo" || framework == "NeMo Megatron") return TrainingStack::nemo;
  if (framework == "torchtitan") return TrainingStack::torchtitan;
  return TrainingStack::unknown;
}

Path JobFiles::recording(int64_t number) const {
  return folder / "work" / fmt::format("{}-{}.run", stem, number);
}

Path JobFiles::done(int64_t number) const {
  return folder / "work" / fmt::format("{}-{}.done", stem, number);
}

Path JobFiles::traces(int64_t number) const {
  return folder / "work" / fmt::format("{}-{}-traces", stem, number);
}

std::vector<LaunchFile> launch_files(const spec::Job& job, const JobFiles& files,
                                     const MeasurePlan& plan) {
  switch (stack_of(job)) {
    case TrainingStack::megatron:
      return {megatron_file(job, files, plan), {files.launch("-marked.py"), marked_program, {}}};
    case TrainingStack::nemo: {
      formats::Exported exported = formats::export_nemo_yaml(job, plan.steps);
      if (!exported.refused_by_launcher.empty())
        exported.unsupported_settings.push_back(exported.refused_by_launcher);
      exported.unsupported_settings.emplace_back(
          "marks of steps (add MarkSteps of examples/marking/nemo_callback.py to the trainer's "
          "callbacks)");
      return {{files.launch(".yaml"), std::move(exported.text),
               std::move(exported.unsupported_settings)}};
    }
    case TrainingStack::torchtitan: {
      formats::Exported exported = export_torchtitan(job, plan.steps);
      if (!exported.refused_by_launcher.empty())
        exported.unsupported_settings.push_back(exported.refused_by_launcher);
      return {{files.launch(".toml"), std::move(exported.text),
               std::move(exported.unsupported_settings)}};
    }
    default:
      return {};
  }
}

std::string job_script(const spec::Job& job, const JobFiles& files, const MeasurePlan& plan,
                       Seconds limit, const Path& program) {
  const bool ours = stack_of(job) == TrainingStack::triplepoint;
  std::string text = "#!/bin/bash\n" + slurm_lines(job, files, limit);
  text += fmt::format(
      "# One repetition (its number is the argument) of {}. Written by triplepoint characterize\n"
      "# --measure; also to be started by hand, and by sbatch.\n"
      "set -e\nrepeat=${{1:-1}}\ncd {}\n",
      comment_text(job.name), shell_word(files.folder.string()));
  if (!ours) text += environment_lines();
  text += ours ? train_command(files, plan, program) : foreign_command(job, files, plan, program);
  if (!ours)
    text += fmt::format(
        "if [ ! -e {0}-$repeat.run ]; then {1} merge {0}-$repeat.*.run -o {0}-$repeat.run; fi\n",
        shell_word((files.folder / "work" / files.stem).string()), shell_word(program.string()));
  text += fmt::format("touch {}-$repeat.done\n",
                      shell_word((files.folder / "work" / files.stem).string()));
  return text;
}

namespace {

struct Flavor {
  std::string_view name;
  int64_t layers, hidden;
};
// torchtitan/models/llama3: what its flavors are, by layers and hidden size.
constexpr std::array flavors = {Flavor{"8B", 32, 4096}, Flavor{"70B", 80, 8192},
                                Flavor{"405B", 126, 16384}};

std::optional<Flavor> flavor_of(const spec::Model& model) {
  for (const Flavor& flavor : flavors)
    if (flavor.layers == model.num_layers && flavor.hidden == model.hidden_size && !model.moe)
      return flavor;
  return std::nullopt;
}

std::string_view schedule_name(const spec::Plan& plan) {
  return word_for<spec::Schedule::zero_bubble>(
      {"GPipe", "1F1B", "Interleaved1F1B", "InterleavedZeroBubble"}, plan.schedule);
}

std::vector<std::string> unsupported_by_torchtitan(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  std::vector<std::string> unsupported;
  if (plan.lora) unsupported.emplace_back("LoRA");
  if (!plan.layers_per_stage.empty()) unsupported.emplace_back("uneven stages");
  if (plan.sharding == spec::Sharding::optimizer || plan.sharding == spec::Sharding::gradients)
    unsupported.emplace_back("ZeRO-1 and ZeRO-2 (torchtitan shards parameters, or nothing)");
  if (plan.tensor_parallel_size > 1 && !plan.sequence_parallel)
    unsupported.emplace_back("tensor parallelism without sequence parallelism");
  if (plan.expert_parallel_size > 1) unsupported.emplace_back("expert parallelism");
  if (plan.precision != spec::Precision::bf16)
    unsupported.push_back(
        fmt::format("precision {} (the file trains in bf16)", name_of(plan.precision)));
  if (plan.virtual_pipeline_size > 1)
    unsupported.push_back(
        fmt::format("{} chunks a stage (torchtitan cuts by layers)", plan.virtual_pipeline_size));
  if (plan.recompute_layers || !plan.recompute_modules.empty())
    unsupported.emplace_back("which layers or parts are recomputed");
  unsupported.emplace_back("marks of steps (add examples/marking/pytorch_loop.py's to its loop)");
  return unsupported;
}

std::string parallelism(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const int64_t data = job.data_parallel_size();
  const bool sharded = plan.sharding == spec::Sharding::parameters;
  const int64_t shard = !sharded                       ? 1
                        : plan.sharding_group_size > 0 ? plan.sharding_group_size
                                                       : data;
  return fmt::format(
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
      "pipeline_parallel_degree = {}\npipeline_parallel_schedule = \"{}\"\n"
      "pipeline_parallel_microbatch_size = {}\ncontext_parallel_degree = {}\n"
      "enable_async_tensor_parallel = {}\n",
      data / shard, shard, plan.reshard_after_forward ? "always" : "never",
      plan.tensor_parallel_size, plan.pipeline_parallel_size, schedule_name(plan),
      plan.micro_batch_size, plan.context_parallel_size, plan.overlap_tensor);
}

std::string_view recompute_mode(spec::Recompute recompute) {
  return recompute == spec::Recompute::full        ? "full"
         : recompute == spec::Recompute::selective ? "selective"
                                                   : "none";
}

}  // namespace

formats::Exported export_torchtitan(const spec::Job& job, int64_t steps) {
  const auto flavor = flavor_of(job.model);
  formats::Exported exported;
  exported.unsupported_settings = unsupported_by_torchtitan(job);
  if (!flavor)
    exported.refused_by_launcher =
        fmt::format("torchtitan has no flavor for the model {}: it has 8B, 70B and 405B of llama3",
                    job.model.name);
  for (const std::string& setting : exported.unsupported_settings)
    exported.text += fmt::format("# not said: {}\n", comment_text(setting));
  exported.text += fmt::format(
      "[job]\ndescription = {}\n\n[model]\nname = \"llama3\"\nflavor = {}\n\n"
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nsteps = {}\n\n"
      "[metrics]\nlog_freq = 1\n\n[activation_checkpoint]\nmode = \"{}\"\n\n",
      toml_text(job.name), toml_text(flavor ? flavor->name : std::string_view(job.model.name)),
      // With pipelines a rank's batch is that of all its microbatches.
      job.plan.pipeline_parallel_size > 1
          ? job.plan.global_batch_size / std::max<int64_t>(1, job.data_parallel_size())
          : job.plan.micro_batch_size,
      job.plan.global_batch_size, job.model.sequence_length, steps,
      recompute_mode(job.plan.recompute));
  exported.text += parallelism(job);
  return exported;
}

}  // namespace triplepoint::formats
