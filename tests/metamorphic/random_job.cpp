// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <optional>

#include "triplepoint/base/random.h"
#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/memory.h"

#include "tests/metamorphic/relation.h"

namespace triplepoint::metamorphic {
namespace {

class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  int64_t below(int64_t n) {
    return static_cast<int64_t>(random_bits({seed_, 88}, drawn_++) % static_cast<uint64_t>(n));
  }
  bool once_in(int64_t n) { return below(n) == 0; }
  double between(double low, double high) {
    return low + (high - low) * (as_real(below(1001)) / 1000);
  }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<int64_t>(list.size())));
  }

 private:
  uint64_t seed_, drawn_ = 0;
};

void draw_machine(Draws& draws, spec::Job& job) {
  const char* cluster = draws.one_of({"hgx-h200", "hgx-h200", "dgx-h100", "hgx-h100", "dgx-a100",
                                      "dgx-b200", "mi300x", "mi250", "gb200-nvl72", "h200-nvl",
                                      "frontier", "aws-p5", "hgx-h100-immersion", "jean-zay-a100"});
  job.cluster = spec::load_cluster(spec::default_library(), cluster).value();
  job.cluster.num_nodes = draws.one_of<int64_t>({1, 1, 2, 2, 4, 8});
  if (job.cluster.liquid_chassis && draws.once_in(5))
    job.environment.cooling = spec::Cooling::liquid;
}

void draw_task(Draws& draws, spec::Job& job) {
  job.task = draws.one_of({spec::Task::pretrain, spec::Task::pretrain, spec::Task::pretrain,
                           spec::Task::pretrain, spec::Task::pretrain, spec::Task::pretrain,
                           spec::Task::pretrain, spec::Task::pretrain, spec::Task::lora,
                           spec::Task::lora, spec::Task::prefill, spec::Task::decode});
}

void draw_model_and_stack(Draws& draws, spec::Job& job) {
  const spec::Library library = spec::default_library();
  const char* model =
      draws.one_of({"llama3-8b", "gpt3-5b", "llama2-13b", "llama3-70b", "gpt3-30b", "mixtral-8x7b",
                    "qwen3-30b-a3b", "deepseek-v2-lite", "gpt-oss-20b", "nemotron-h-8b",
                    "gemma3-12b", "llama3.2-1b", "mistral-7b", "qwen3-4b"});
  job.model = spec::load_model(library, model).value();
  job.model.sequence_length = draws.one_of<int64_t>({1024, 2048, 4096, job.model.sequence_length});
  const char* stack =
      draws.one_of({"megatron-core", "megatron-core", "nemo-profiled", "megatron-graphs",
                    "compiled-pytorch", "eager-pytorch", "nanotron", "megatron-apex"});
  job.stack = spec::load_stack(library, spec::is_inference(job.task) ? "vllm" : stack).value();
  job.plan.optimizer = spec::load_optimizer(library, spec::default_optimizer(job.stack)).value();
  if (job.task == spec::Task::lora) job.plan.lora = spec::Lora{};
}

void draw_sizes(Draws& draws, spec::Job& job) {
  spec::Plan& plan = job.plan;
  plan.tensor_parallel_size = draws.one_of<int64_t>({1, 2, 4, 8});
  plan.pipeline_parallel_size = draws.one_of<int64_t>({1, 1, 2, 4, 8});
  plan.context_parallel_size = draws.one_of<int64_t>({1, 1, 1, 1, 2});
  if (job.model.moe) {
    plan.expert_parallel_size = draws.one_of<int64_t>({1, 2, 4, 8});
    if (draws.once_in(2)) plan.expert_tensor_parallel_size = 1;
  }
  plan.sequence_parallel = plan.tensor_parallel_size > 1 && !draws.once_in(4);
  const int64_t ranks = std::max<int64_t>(plan.model_parallel_size(), 1);
  const int64_t data = std::max<int64_t>(job.world_size() / ranks, 1);
  plan.micro_batch_size = draws.one_of<int64_t>({1, 1, 2, 4});
  plan.global_batch_size =
      plan.micro_batch_size * data * draws.one_of<int64_t>({1, 2, 4, 8, 12, 16});
  if (job.task == spec::Task::decode) plan.micro_batch_size *= 8, plan.global_batch_size *= 8;
}

void draw_schedule(Draws& draws, spec::Plan& plan) {
  if (plan.pipeline_parallel_size == 1) return;
  plan.schedule = draws.one_of({spec::Schedule::one_f_one_b, spec::Schedule::one_f_one_b,
                                spec::Schedule::interleaved, spec::Schedule::gpipe,
                                spec::Schedule::zero_bubble});
  if (plan.schedule == spec::Schedule::interleaved)
    plan.virtual_pipeline_size = draws.one_of<int64_t>({2, 4});
  plan.overlap_pipeline = draws.once_in(3);
}

void draw_memory_and_overlap(Draws& draws, spec::Job& job) {
  spec::Plan& plan = job.plan;
  draw_schedule(draws, plan);
  plan.sharding =
      draws.one_of({spec::Sharding::none, spec::Sharding::optimizer, spec::Sharding::optimizer,
                    spec::Sharding::gradients, spec::Sharding::parameters});
  plan.recompute =
      draws.one_of({spec::Recompute::none, spec::Recompute::selective, spec::Recompute::full});
  if (plan.recompute == spec::Recompute::full && draws.once_in(3)) plan.recompute_layers = 2;
  plan.overlap_tensor = plan.sequence_parallel && draws.once_in(3);
  plan.overlap_gradient = draws.once_in(3);
  plan.overlap_parameter = draws.once_in(3);
  if (job.cluster.gpu.peak_fp8 && draws.once_in(4)) plan.precision = spec::Precision::fp8;
}

spec::Fault drawn_fault(Draws& draws, const spec::Cluster& cluster) {
  using spec::FaultKind;
  spec::Fault fault;
  fault.kind = draws.one_of({FaultKind::power, FaultKind::heat_path, FaultKind::link,
                             FaultKind::host, FaultKind::fan, FaultKind::inlet});
  const bool of_gpu = fault.kind == FaultKind::power || fault.kind == FaultKind::heat_path ||
                      fault.kind == FaultKind::link;
  (of_gpu ? fault.gpu : fault.node) = draws.below(of_gpu ? cluster.num_gpus() : cluster.num_nodes);
  if (fault.kind == FaultKind::inlet)
    fault.rise = draws.between(2, 15) * unit::K;
  else if (fault.kind == FaultKind::heat_path || fault.kind == FaultKind::host)
    fault.share = draws.between(1.2, 3);
  else
    fault.share = draws.between(0.3, 0.9);
  return fault;
}

void draw_room(Draws& draws, spec::Job& job) {
  spec::Environment& room = job.environment;
  room.ambient = Celsius(draws.once_in(5) ? draws.between(36, 46) : draws.between(12, 35));
  if (draws.once_in(4)) room.power_limit = draws.between(0.6, 1) * *job.cluster.gpu.tdp;
  if (draws.once_in(3)) room.faults = {drawn_fault(draws, job.cluster)};
  room.seed = static_cast<uint64_t>(draws.below(1000));
}

std::optional<spec::Job> drawn_job(uint64_t seed, uint64_t attempt) {
  // What is asked of the machine does not depend on how often a layout of it must be drawn.
  Draws of_task(seed), draws(10'000 * seed + attempt);
  spec::Job job;
  job.name = fmt::format("job {}", seed);
  draw_machine(draws, job);
  draw_task(of_task, job);
  draw_model_and_stack(draws, job);
  draw_sizes(draws, job);
  if (!spec::is_inference(job.task)) draw_memory_and_overlap(draws, job);
  draw_room(draws, job);
  if (spec::has_errors(spec::diagnose(job))) return std::nullopt;
  if (!workload::estimate_memory(job).fits()) return std::nullopt;
  return job;
}

bool runs(const spec::Job& job) {
  return !sim::simulate(job, {.timeline = false}).steps.empty();
}

}  // namespace

spec::Job random_job(uint64_t seed) {
  for (uint64_t attempt = 0; attempt < 10'000; ++attempt)
    if (const auto job = drawn_job(seed, attempt); job && runs(*job)) return *job;
  TPT_EXPECT(!"ten thousand draws without a job that runs");
  return {};
}

}  // namespace triplepoint::metamorphic
