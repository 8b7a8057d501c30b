// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "triplepoint/base/random.h"

#include "triplepoint/workload/rank_grid.h"

#include "trainer/comm/comm_testing.h"
#include "trainer/math/math.h"
#include "trainer/memory_ledger.h"
#include "trainer/model/chunk.h"
#include "trainer/model/reference_testing.h"

/// Tiny models on ranks that are threads, and the reference beside them.
namespace triplepoint::trainer::testing {

inline spec::Model tiny_gpt() {
  spec::Model model;
  model.name = "tiny";
  model.num_layers = 2;
  model.hidden_size = 16;
  model.ffn_hidden_size = 32;
  model.num_attention_heads = model.num_query_groups = 4;
  model.kv_channels = 4;
  model.sequence_length = 8;
  model.vocabulary_size = 21;
  model.vocabulary_divisible_by = 4;
  model.biases = true;
  return model;
}

inline spec::Model tiny_llama() {
  spec::Model model = tiny_gpt();
  model.ffn_hidden_size = 24;
  model.num_query_groups = 2;
  model.activation = spec::Activation::swiglu;
  model.normalization = spec::Normalization::rms_norm;
  model.position_embedding = spec::PositionEmbedding::rope;
  model.biases = false;
  return model;
}

inline spec::Job job_of(spec::Model model, int64_t ranks = 1) {
  spec::Job job;
  job.model = std::move(model);
  job.cluster.num_nodes = 1;
  job.cluster.gpus_per_node = ranks;
  job.plan.micro_batch_size = 2;
  job.plan.global_batch_size = 4;
  job.plan.precision = spec::Precision::fp32;
  return job;
}

inline uint64_t key_of(const std::string& text) {
  uint64_t key = 14695981039346656037ULL;
  for (const char letter : text)
    key = (key ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  return key;
}

/// A value for every element of every parameter, none of them special.
inline double test_value(const std::string& name, int64_t row, int64_t column) {
  const double noise =
      random_normal({key_of(name), static_cast<uint64_t>(row)}, static_cast<uint64_t>(column));
  const bool gain = name.find("norm.weight") != std::string::npos;
  return as_real(static_cast<float>((gain ? 1.0 : 0.0) + 0.2 * noise));
}

inline int32_t test_token(const spec::Model& model, int64_t sample, int64_t position) {
  const RandomKey key{11, static_cast<uint64_t>(sample)};
  return static_cast<int32_t>(random_uniform(key, static_cast<uint64_t>(position)) *
                              as_real(model.vocabulary_size));
}

struct TestBatch {
  std::vector<int32_t> inputs, targets;
};

inline TestBatch test_batch(const spec::Model& model, int64_t first_sample, int64_t sequences) {
  TestBatch batch;
  for (int64_t s = first_sample; s < first_sample + sequences; ++s)
    for (int64_t i = 0; i < model.sequence_length; ++i) {
      batch.inputs.push_back(test_token(model, s, i));
      batch.targets.push_back(test_token(model, s, i + 1));
    }
  return batch;
}

using Gradients = std::map<std::string, std::vector<double>>;

struct Outcome {
  double loss = 0;
  Gradients gradients;  // whole, row by row
};

inline Outcome reference_outcome(const spec::Job& job) {
  const TestBatch batch = test_batch(job.model, 0, job.plan.global_batch_size);
  ReferenceInput input{job.model};
  input.sequences = job.plan.global_batch_size;
  input.inputs = batch.inputs;
  input.targets = batch.targets;
  input.value = test_value;
  ReferenceResult result = run_reference(input);
  return {result.loss, std::move(result.gradients)};
}

/// Values and gradients of a chunk's parameters, as a store would keep them.
class TestStore {
 public:
  explicit TestStore(Chunk& chunk) : chunk_(chunk) {
    for_each([this](Parameter& parameter) {
      values_.emplace_back();
      for (const int64_t row : parameter.rows)
        for (int64_t j = 0; j < parameter.columns; ++j)
          values_.back().push_back(
              static_cast<float>(test_value(parameter.name, row, parameter.first_column + j)));
      gradients_.emplace_back(values_.back().size(), 0.0F);
      parameter.value = values_.back();
      parameter.gradient = gradients_.back();
    });
  }
  /// Adds this rank's gradients to those of the whole model.
  void add_to(Gradients& whole, bool counts_replicated) {
    for_each([&](const Parameter& parameter) {
      if (parameter.on_every_tensor_rank && !counts_replicated) return;
      std::vector<double>& sums = whole[parameter.name];
      sums.resize(as_size(parameter.whole_rows * parameter.whole_columns), 0.0);
      size_t i = 0;
      for (const int64_t row : parameter.rows)
        for (int64_t j = 0; j < parameter.columns; ++j)
          sums[as_size(row * parameter.whole_columns + parameter.first_column + j)] +=
              as_real(parameter.gradient[i++]);
    });
  }

 private:
  template <class Body>
  void for_each(const Body& body) {
    for (Unit& unit : chunk_.units())
      for (Parameter& parameter : unit.parameters)
        body(parameter);
  }

  Chunk& chunk_;
  std::deque<std::vector<float>> values_, gradients_;
};

/// How the backward pass is run.
enum class Backward { whole, split };

/// One rank of a layout: all its microbatches through all stages of the pipeline (on this rank, one
/// after the other, as the chunks' boundaries are what is of interest here).
struct RankWork {
  const spec::Job& job;
  int64_t data_index;
  Communicator& tensor;
  Backward backward;

  double train_job(Gradients& whole, std::mutex& mutex, bool counts_replicated) const {
    MemoryLedger ledger;
    const auto math = make_cpu_math();
    std::deque<Chunk> chunks;
    std::deque<TestStore> stores;
    for (const auto& stage : workload::lay_out_layers(job))
      for (const workload::ChunkLayers& layers : stage) {
        chunks.emplace_back(job, layers, tensor, *math, ledger);
        stores.emplace_back(chunks.back());
      }
    const int64_t share = job.plan.global_batch_size / job.data_parallel_size();
    std::vector<TestBatch> batches;
    std::vector<Tokens> tokens;
    for (int64_t m = 0; m < share / job.plan.micro_batch_size; ++m) {
      const int64_t first = data_index * share + m * job.plan.micro_batch_size;
      batches.push_back(test_batch(job.model, first, job.plan.micro_batch_size));
      tokens.push_back({m, {}, {}});
    }
    double loss = 0;
    for (size_t m = 0; m < tokens.size(); ++m) {
      tokens[m].inputs = batches[m].inputs;
      tokens[m].targets = batches[m].targets;
      loss += forward(chunks, tokens[m]);
    }
    for (size_t m = tokens.size(); m-- > 0;)
      run_backward(chunks, tokens[m]);
    if (backward == Backward::split)
      for (const Tokens& one : tokens)
        for (Chunk& chunk : chunks)
          chunk.backward_weight(one);
    for (size_t term = 0; term < memory_term_count; ++term)
      TPT_SAME(ledger.now(static_cast<MemoryTerm>(term)), 0);
    const std::lock_guard lock(mutex);
    for (TestStore& store : stores)
      store.add_to(whole, counts_replicated);
    return loss;
  }

 private:
  std::vector<float> boundary() const {
    return std::vector<float>(
        as_size(workload::share_of_rank(job).sharded_tokens * job.model.hidden_size));
  }
  double forward(std::deque<Chunk>& chunks, const Tokens& tokens) const {
    std::vector<float> input, output;
    for (Chunk& chunk : chunks) {
      output = boundary();
      chunk.forward(tokens, input, output);
      std::swap(input, output);
    }
    return chunks.back().take_loss_sum();
  }
  void run_backward(std::deque<Chunk>& chunks, const Tokens& tokens) const {
    std::vector<float> output, input;
    for (size_t c = chunks.size(); c-- > 0;) {
      input = boundary();
      if (backward == Backward::split)
        chunks[c].backward_input(tokens, output, input, 1);
      else
        chunks[c].backward(tokens, output, input, 1);
      std::swap(output, input);
    }
  }
};

/// The group of this kind that holds the endpoint's rank.
inline auto group_of(const workload::RankGrid& grid, Endpoint& endpoint, spec::GroupKind kind) {
  std::vector<int> members;
  for (const int64_t member : grid.members(kind, endpoint.rank()))
    members.push_back(static_cast<int>(member));
  return endpoint.communicator(kind, members);
}

/// Loss and gradients of the whole model, run on as many threads as the job's TP, CP and DP ask
/// for.
inline Outcome train_job(const spec::Job& job, Backward backward = Backward::whole) {
  spec::Job flat = job;  // groups as without a pipeline: every rank runs all of its stages
  flat.cluster.gpus_per_node /= job.plan.pipeline_parallel_size;
  flat.plan.pipeline_parallel_size = 1;
  const workload::RankGrid grid(flat);
  Outcome outcome;
  std::mutex mutex;
  const auto ranks = static_cast<int>(grid.world_size());
  on_transports(thread_transports(ranks), {}, [&](Endpoint& endpoint) {
    const auto tensor = group_of(grid, endpoint, spec::GroupKind::tensor);
    const RankWork work{job, grid.coordinates(endpoint.rank()).data, *tensor, backward};
    const bool partial = job.plan.sequence_parallel && tensor->size() > 1;
    const double loss = work.train_job(outcome.gradients, mutex, partial || tensor->index() == 0);
    const std::lock_guard lock(mutex);
    if (tensor->index() == 0) outcome.loss += loss;
  });
  return outcome;
}

/// Largest difference of a gradient over the largest of its parameter's, over all parameters.
inline double worst_difference(const Gradients& ours, const Gradients& theirs) {
  double worst = 0;
  for (const auto& [name, gradient] : ours) {
    const auto found = theirs.find(name);
    if (found == theirs.end()) {
      FAIL_CHECK("no reference for " << name);
      continue;
    }
    double largest = 1e-6, difference = 0;
    for (size_t i = 0; i < found->second.size(); ++i) {
      largest = std::max(largest, std::abs(found->second[i]));
      difference = std::max(difference, std::abs(found->second[i] - gradient[i]));
    }
    if (difference / largest > 1e-3) MESSAGE(name << ": " << difference / largest);
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

/// The job as it is laid out, against the reference.
inline void check_against_reference(const spec::Job& job, Backward backward = Backward::whole) {
  const Outcome ours = train_job(job, backward), theirs = reference_outcome(job);
  CHECK(ours.loss == doctest::Approx(theirs.loss).epsilon(1e-5));
  CHECK(!ours.gradients.empty());
  CHECK(worst_difference(ours.gradients, theirs.gradients) < 1e-3);
}

}  // namespace triplepoint::trainer::testing
