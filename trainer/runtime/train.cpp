// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/train.h"

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "triplepoint/mark/mark.h"

#include "trainer/math/math.h"
#include "trainer/runtime/pipeline.h"
#include "trainer/spans.h"

namespace triplepoint::trainer {

namespace {

Result<void> check_positive(const char* flag, double value) {
  const auto stored = static_cast<float>(value);  // as the optimizer has it
  if (std::isfinite(stored) && stored > 0) return {};
  return error(
      "{} {} is no finite number above 0 (the optimizer divides by it or multiplies "
      "with it); give one",
      flag, value);
}

Result<void> check_not_negative(const char* flag, double value) {
  if (std::isfinite(static_cast<float>(value)) && value >= 0) return {};
  return error("{} {} is no finite number from 0 up; give one", flag, value);
}

/// A step multiplies weights by 1 - rate x decay.
Result<void> check_decay(double rate, double decay) {
  if (rate * decay < 1) return {};
  return error(
      "--weight-decay {} times --lr {} is {:.3g} (each step multiplies weights by 1 "
      "minus that, so they would change sign or grow); lower one of them",
      decay, rate, rate * decay);
}

Result<void> check_steps(const char* flag, int64_t steps, int64_t least) {
  constexpr int64_t most = int64_t{1} << 40;
  if (steps >= least && steps <= most) return {};
  return error("{} {} is not between {} and {}; give another number", flag, steps, least, most);
}

constexpr size_t pieces = 4;  // of a double: whole numbers of 16 bits, which a float holds exactly

void append(std::vector<float>& numbers, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  for (size_t piece = 0; piece < pieces; ++piece)
    numbers.push_back(static_cast<float>((bits >> (16 * piece)) & 0xffff));
}

double read(const float*& numbers) {
  uint64_t bits = 0;
  for (size_t piece = 0; piece < pieces; ++piece)
    bits |= static_cast<uint64_t>(*numbers++) << (16 * piece);
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// Every number of a report that ranks differ in, in one order.
template <class Report, class Act>
void visit(Report& report, const Act& act) {
  for (auto* table : {&report.traffic, &report.expected})
    for (auto& group : *table)
      for (auto& bytes : group)
        act(bytes);
  for (auto* memory : {&report.memory, &report.expected_memory})
    for (auto& bytes : *memory)
      act(bytes);
  act(report.rank_peak_flops);
}

}  // namespace

Result<void> check_settings(const TrainSettings& settings) {
  TPT_TRY(check_steps("--steps", settings.steps, 1));
  TPT_TRY(check_steps("--warmup", settings.rate.warmup_steps, 0));
  TPT_TRY(check_positive("--lr", settings.rate.peak));
  TPT_TRY(check_not_negative("--weight-decay", settings.weight_decay));
  TPT_TRY(check_not_negative("--clip", settings.clip));
  return check_decay(settings.rate.peak, settings.weight_decay);
}

std::vector<TrainReport> exchange_reports(Communicator& world, const TrainReport& own) {
  std::vector<float> mine;
  append(mine, as_real(own.stage));
  visit(own, [&](const double& value) { append(mine, value); });
  std::vector<float> all(mine.size() * as_size(world.size()));
  world.all_gather(mine, all).wait();
  const float* numbers = all.data();
  std::vector<TrainReport> reports(as_size(world.size()));
  for (size_t rank = 0; rank < reports.size(); ++rank) {
    reports[rank].rank = static_cast<int>(rank);
    reports[rank].stage = as_size(read(numbers));
    visit(reports[rank], [&](double& value) { value = read(numbers); });
    reports[rank].all_peak_flops = own.all_peak_flops;
  }
  return reports;
}

namespace {

/// Flops per second of a matrix product whose operands fit into the cache (512 cubed), over
/// `seconds`: the reference rate of MFU.
double measure_gemm_rate(Math& math, double seconds) {
  constexpr int64_t n = 512;
  const std::vector<float> a(n * n, 0.5F), b(n * n, 0.5F);
  std::vector<float> c(n * n);
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = n;
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.a_stride = gemm.b_stride = gemm.c_stride = n;
  math.gemm(gemm);  // brings the operands in
  const int64_t begin = triplepoint_now();
  double flops = 0, passed = 0;
  while (passed < seconds) {
    math.gemm(gemm);
    flops += 2.0 * as_real(n * n * n);
    passed = as_real(triplepoint_now() - begin) * 1e-9;
  }
  return flops / passed;
}

using spec::Collective;
using spec::GroupKind;
using workload::ActionKind;

class Sum {
 public:
  explicit Sum(const workload::RankGrid& grid) : grid_(grid) {}

  void add(const spec::Op& op, double times) {
    if (op.is_communication()) add(op.group, op.collective, times * (op.payload / unit::B));
  }
  void add(GroupKind group, Collective collective, double bytes) {
    if (grid_.shape(group).ranks > 1) table_[as_size(group)][as_size(collective)] += bytes;
  }
  void add(const std::vector<workload::OpGroup>& groups) {
    for (const workload::OpGroup& group : groups)
      for (const spec::Op& op : group.ops)
        add(op, as_real(group.repeat));
  }
  void add(const std::vector<spec::Op>& ops) {
    for (const spec::Op& op : ops)
      add(op, 1);
  }
  const TrafficTable& table() const { return table_; }

 private:
  const workload::RankGrid& grid_;
  TrafficTable table_{};
};

/// The passes that an action runs, and what it sends on.
void add_action(const workload::WorkGraph& graph, size_t stage, const workload::Action& action,
                Sum& sum) {
  const auto chunk = as_size(action.chunk);
  const workload::ChunkWork& work = graph.works[as_size(graph.chunk_work[stage][chunk])];
  const double boundary = graph.boundary_bytes / unit::B;
  switch (action.kind) {
    case ActionKind::forward:
      sum.add(work.forward);
      if (!work.has_head) sum.add(GroupKind::pipeline, Collective::send_recv, boundary);
      return;
    case ActionKind::backward:
    case ActionKind::backward_input:
      sum.add(work.recompute);
      sum.add(work.backward_input);
      if (action.kind == ActionKind::backward) sum.add(work.backward_weight);
      if (!work.has_embedding) sum.add(GroupKind::pipeline, Collective::send_recv, boundary);
      return;
    case ActionKind::backward_weight:
      return sum.add(work.backward_weight);
  }
}

}  // namespace

TrafficTable expected_traffic(const workload::WorkGraph& graph, size_t stage) {
  Sum sum(graph.grid);
  for (const workload::Action& action : graph.programs[stage])
    add_action(graph, stage, action, sum);
  const auto step = as_size(graph.step_work[stage]);
  const workload::StepWork& work = graph.step_works[step];
  for (const auto* ops : {&work.gradient_sync, &work.gradient_norm, &work.parameter_sync})
    sum.add(*ops);
  return sum.table();
}

TrafficTable measured_traffic(const RankGroups& groups) {
  TrafficTable table{};
  for (size_t kind = 0; kind < table.size(); ++kind) {
    const Communicator& group = groups.of(static_cast<GroupKind>(kind));
    for (size_t collective = 0; collective < table[kind].size() && group.size() > 1; ++collective)
      table[kind][collective] = group.traffic(static_cast<Collective>(collective)).payload;
  }
  return table;
}

std::array<double, memory_term_count> expected_memory(const workload::WorkGraph& graph,
                                                      size_t stage) {
  const workload::StageMemory& memory = graph.memory.stages[stage];
  const std::array<Bytes, memory_term_count> terms = {memory.weights,   memory.gradients,
                                                      memory.optimizer, memory.activations,
                                                      memory.logits,    memory.buffers};
  std::array<double, memory_term_count> bytes{};
  for (size_t i = 0; i < terms.size(); ++i)
    bytes[i] = terms[i] / unit::B;
  return bytes;
}

namespace {

using spec::GroupKind;

std::vector<int> all_ranks(int size) {
  std::vector<int> ranks(as_size(size));
  for (int rank = 0; rank < size; ++rank)
    ranks[as_size(rank)] = rank;
  return ranks;
}

template <class T>
Result<void> nothing_of(const Result<T>& result) {
  if (!result) return tl::unexpected(result.error());
  return {};
}

double since(int64_t begin_ns) {
  return as_real(triplepoint_now() - begin_ns) * 1e-9;
}

/// Everything that one rank needs, in the order in which it is made and (backwards) let go.
class Rank {
 public:
  Rank(const spec::Job& job, const TrainSettings& settings, Endpoint& endpoint,
       std::unique_ptr<TokenSource> tokens, std::unique_ptr<Communicator> world)
      : job_(job),
        settings_(settings),
        graph_(workload::build_work_graph(job)),
        math_(make_cpu_math()),
        world_(std::move(world)),
        groups_(graph_.grid, endpoint.rank(),
                [&](GroupKind kind, const std::vector<int>& ranks) {
                  return endpoint.communicator(kind, ranks);
                }),
        tokens_(std::move(tokens)) {
    const auto stage = as_size(groups_.of(GroupKind::pipeline).index());
    const auto layers = workload::lay_out_layers(job)[stage];
    for (const workload::ChunkLayers& of_chunk : layers) {
      owned_.push_back(
          std::make_unique<Chunk>(job_, of_chunk, groups_.of(GroupKind::tensor), *math_, ledger_));
      chunks_.push_back(owned_.back().get());
    }
    store_.emplace(StoreParts{job_, groups_, *math_, ledger_}, chunks_, layers, settings.seed);
    pipeline_.emplace(PipelineParts{job_, groups_, chunks_, *store_, *tokens_, ledger_});
    report_.rank = endpoint.rank();
    report_.stage = stage;
    report_.expected = expected_traffic(graph_, stage);
    report_.expected_memory = trainer::expected_memory(graph_, stage);
  }

  Result<TrainOutcome> run(const OnStep& on_step) {
    measure_peak();
    for (; step_ < settings_.steps && !report_.stopped; ++step_) {
      const StepResult result = train_step();
      report_.steps.push_back(result);
      if (on_step && report_.rank == 0) on_step(result, report_);
      TPT_TRY(check_finite(result));
    }
    store_->settle();
    report_.traffic = measured_traffic(groups_);
    for (size_t term = 0; term < memory_term_count; ++term)
      report_.memory[term] = as_real(ledger_.at_peak(static_cast<MemoryTerm>(term)));
    std::vector<TrainReport> all = exchange_reports(*world_, report_);
    return TrainOutcome{std::move(report_), std::move(all)};
  }

 private:
  /// All ranks see the same numbers, so all of them stop.
  Result<void> check_finite(const StepResult& result) const {
    if (!diverged_) return {};
    return error(
        "step {}: loss {} and gradient norm {} are not both finite, so the training "
        "stops. Likely causes: {}",
        result.step + 1, result.loss, result.gradient_norm, likely_cause());
  }

  std::string likely_cause() const {
    std::string causes = fmt::format("the learning rate (--lr {})", settings_.rate.peak);
    if (settings_.clip == 0) causes += ", gradients that are not clipped (--clip 0)";
    causes += settings_.rate.warmup_steps == 0 ? ", no --warmup" : ", a short --warmup";
    if (settings_.data != synthetic_data) causes += ", or the samples of this step";
    return causes + "; try a lower rate";
  }

  void measure_peak() {
    world_->barrier();
    report_.rank_peak_flops =
        settings_.peak_flops > 0 ? settings_.peak_flops : measure_gemm_rate(*math_, 0.2);
    // In units that a float holds well.
    auto all = static_cast<float>(report_.rank_peak_flops * 1e-9);
    world_->all_reduce({&all, 1}).wait();
    report_.all_peak_flops = as_real(all) * 1e9;
  }

  StepResult train_step() {
    const int64_t begin = triplepoint_now();
    const mark::Step step(step_);
    StepResult result{.step = step_, .rate = settings_.rate.at(step_)};
    const double loss = pipeline_->run(step_);
    {
      const mark::Region region("gradient_sync");
      store_->finish_gradients();
    }
    result.gradient_norm = clip_and_update(result.rate);
    result.loss = mean_loss(loss, result.gradient_norm);
    result.seconds = since(begin);
    log_values(result);
    return result;
  }

  double clip_and_update(double rate) {
    const mark::Region region("optimizer");
    const ScopedSpan span({.name = "optimizer"});
    const double norm = store_->gradient_norm();
    const auto times = as_real(step_ + 1);
    const double scale = settings_.clip > 0 && norm > settings_.clip ? settings_.clip / norm : 1;
    AdamW update;
    update.rate = static_cast<float>(rate);
    update.correction1 = static_cast<float>(1 - std::pow(as_real(update.beta1), times));
    update.correction2 = static_cast<float>(1 - std::pow(as_real(update.beta2), times));
    update.gradient_scale = static_cast<float>(scale);
    store_->update(update, settings_.weight_decay);
    return norm;
  }

  /// Of the global batch. The tensor ranks of the last stage all have the same sum: one says it.
  /// With it travels what ends the training: a request, or numbers that are not finite anywhere.
  double mean_loss(double own, double norm) {
    constexpr float diverged = 65536;  // above any number of ranks that ask for the end
    const bool says = groups_.of(GroupKind::tensor).index() == 0;
    const double sum = says ? own : 0;
    const auto high = static_cast<float>(sum);
    const bool stop = settings_.stop != nullptr && settings_.stop->load();
    std::array<float, 3> parts = {high, static_cast<float>(sum - as_real(high)),
                                  (std::isfinite(norm) ? 0.0F : diverged) + (stop ? 1.0F : 0.0F)};
    world_->all_reduce(parts).wait();
    diverged_ = parts[2] >= diverged || !std::isfinite(parts[0]) || !std::isfinite(parts[1]);
    report_.stopped = parts[2] > 0;
    return (as_real(parts[0]) + as_real(parts[1])) / as_real(graph_.tokens_per_step);
  }

  void log_values(const StepResult& result) const {
    if (triplepoint_marking() == 0) return;
    const auto ranks = as_real(world_->size());
    triplepoint_value("tokens", as_real(graph_.tokens_per_step) / ranks);
    triplepoint_value("samples", as_real(job_.plan.global_batch_size) / ranks);
    if (report_.rank != 0) return;
    triplepoint_value("loss", result.loss);
    triplepoint_value("gradient_norm", result.gradient_norm);
    triplepoint_value("achieved_flops", graph_.model_flops / unit::FLOP / result.seconds);
  }

  const spec::Job& job_;
  const TrainSettings& settings_;
  workload::WorkGraph graph_;
  std::unique_ptr<Math> math_;
  MemoryLedger ledger_;
  std::unique_ptr<Communicator> world_;
  RankGroups groups_;
  std::unique_ptr<TokenSource> tokens_;
  std::vector<std::unique_ptr<Chunk>> owned_;
  std::vector<Chunk*> chunks_;
  std::optional<ParameterStore> store_;
  std::optional<Pipeline> pipeline_;
  int64_t step_ = 0;  // at work
  TrainReport report_;
  bool diverged_ = false;
};

}  // namespace

EndpointSettings endpoint_settings(const spec::Job& job, double timeout_seconds) {
  const spec::Plan& plan = job.plan;
  EndpointSettings settings;
  settings.timeout_seconds = timeout_seconds;
  settings.progress_thread = plan.overlap_gradient || plan.overlap_parameter ||
                             plan.overlap_pipeline || plan.sharding == spec::Sharding::parameters;
  return settings;
}

Result<TrainOutcome> train(const spec::Job& job, const TrainSettings& settings, Endpoint& endpoint,
                           const OnStep& on_step) {
  if (endpoint.size() != job.world_size())
    return error(
        "{} ranks were started and the job has {} (num_nodes x "
        "gpus_per_node); start as many as it has",
        endpoint.size(), job.world_size());
  TPT_TRY(check_settings(settings));
  const TokenNeeds needs{job.model.sequence_length, job.model.vocabulary_size, settings.seed};
  // The runtime's own talk is on its own group, so that the job's counts stay exact.
  auto world = endpoint.communicator(GroupKind::model, all_ranks(endpoint.size()), 1);
  auto tokens = open_tokens(settings.data, needs);
  TPT_TRY(agree(*world, nothing_of(tokens), "open the data"));
  Rank rank(job, settings, endpoint, *std::move(tokens), std::move(world));
  try {
    return rank.run(on_step);
  } catch (const std::exception& lost) {
    // Before the rank's buffers go: nothing may move numbers into them any more.
    endpoint.abort(lost.what());
    throw;
  }
}

}  // namespace triplepoint::trainer
