// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/learn/knobs.h"

#include <algorithm>
#include <cmath>

#include "triplepoint/spec/names.h"

namespace triplepoint::learn {

Knobs knobs_of(const spec::Job& job) {
  const spec::Plan& plan = job.plan;
  const spec::ParameterCount parameters = spec::count_parameters(job.model);
  const std::array<double, size_knobs.size() - 1> sizes = {
      static_cast<double>(plan.micro_batch_size),
      static_cast<double>(plan.tensor_parallel_size),
      static_cast<double>(plan.pipeline_parallel_size),
      static_cast<double>(plan.virtual_pipeline_size),
      static_cast<double>(plan.context_parallel_size),
      static_cast<double>(plan.expert_parallel_size),
      static_cast<double>(job.data_parallel_size()),
      static_cast<double>(job.cluster.num_nodes),
      static_cast<double>(job.model.sequence_length),
      static_cast<double>(plan.global_batch_size),
      parameters.total(),
      parameters.active()};
  Knobs knobs;
  for (std::size_t k = 0; k < sizes.size(); ++k)
    knobs.sizes[k] = std::log2(std::max(1.0, sizes[k]));
  knobs.sizes.back() = static_cast<double>(plan.recompute);
  knobs.words = {job.model.name,
                 job.cluster.gpu.name,
                 job.stack.name,
                 std::string(spec::enum_name(plan.precision)),
                 std::string(spec::enum_name(plan.sharding)),
                 std::string(spec::name_of(job.task))};
  return knobs;
}

}  // namespace triplepoint::learn
