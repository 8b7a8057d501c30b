// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/parameter_store.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "triplepoint/base/random.h"

#include "triplepoint/workload/rank_grid.h"

#include "trainer/spans.h"

namespace triplepoint::trainer {
namespace {

/// FNV-1a: a stream of random numbers per name.
uint64_t stream_of(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

using spec::GroupKind;
using spec::Sharding;

/// Ranks of the data group that hold the same element of what is summed; 1 where nothing is
/// divided.
double copies_in_sums(const spec::Job& job) {
  if (job.plan.sharding == Sharding::none) return 1;
  const workload::RankShare share = workload::share_of_rank(job);
  return as_real(share.data / share.shard);
}

using spec::GroupKind;
using spec::Sharding;

std::vector<std::vector<Unit>*> units_of(const std::vector<Chunk*>& chunks) {
  return mapped(chunks, [](Chunk* chunk) { return &chunk->units(); });
}

/// What the gatherer has to know of a chunk. Units are: embedding, layers, head.
ParameterGatherer::Chunk describe(const spec::Job& job, const workload::ChunkLayers& layers,
                                  const std::vector<Unit>& units) {
  const int64_t again = workload::recomputed_layers(job, layers).total();
  ParameterGatherer::Chunk chunk;
  chunk.units = units.size();
  for (const Unit& unit : units) {
    const bool is_layer = unit.layer >= 0;
    chunk.is_layer.push_back(is_layer);
    chunk.is_recomputed.push_back(is_layer && unit.layer - layers.first_layer < again);
  }
  return chunk;
}

size_t at(int64_t place) {
  return as_size(place);
}

}  // namespace

void fill_initial(const Parameter& parameter, uint64_t seed, int64_t begin,
                  std::span<float> values) {
  const Initial& initial = parameter.initial;
  if (initial.standard_deviation == 0) {
    std::ranges::fill(values, static_cast<float>(initial.mean));
    return;
  }
  const RandomKey key{seed, stream_of(parameter.name)};
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t element = begin + static_cast<int64_t>(k);
    const int64_t row = parameter.rows[as_size(element / parameter.columns)];
    const int64_t column = parameter.first_column + element % parameter.columns;
    const auto index = static_cast<uint64_t>(row * parameter.whole_columns + column);
    values[k] =
        static_cast<float>(initial.mean + initial.standard_deviation * random_normal(key, index));
  }
}

double ParameterStore::own_squares() {
  const ScopedSpan span({.name = "gradient_norm"});
  const bool first_tensor_rank = groups_.of(GroupKind::tensor).index() == 0;
  const bool later_stage = groups_.of(GroupKind::pipeline).index() > 0;
  double sum = 0;
  for (Bucket& bucket : buckets_) {
    if (bucket.tied && later_stage) continue;
    const float* gradient = owned_gradient(bucket).data();
    for (const Piece& piece : bucket.owned_pieces()) {
      if (piece.parameter->on_every_tensor_rank && !first_tensor_rank) continue;
      sum += math_.sum_of_squares(piece.end - piece.begin,
                                  gradient + (piece.begin - bucket.owned_begin));
    }
  }
  return sum / copies_in_sums(job_);
}

double ParameterStore::gradient_norm() {
  auto squares = static_cast<float>(own_squares());
  Communicator& data = groups_.of(GroupKind::data);
  if (job_.plan.sharding != Sharding::none && data.size() > 1)
    data.all_reduce({&squares, 1}).wait();
  Communicator& model = groups_.of(GroupKind::model);
  if (model.size() > 1) model.all_reduce({&squares, 1}).wait();
  return std::sqrt(as_real(squares));
}

/// Turns a chunk's events into the store's.
class ParameterStore::Hooks : public UnitHooks {
 public:
  Hooks(ParameterStore& store, size_t chunk) : store_(store), chunk_(chunk) {}

  void before_forward(size_t unit) override {
    store_.wait_for({chunk_, unit});
    if (store_.gatherer_) store_.gatherer_->before_forward({chunk_, unit});
  }
  void after_forward(size_t unit) override {
    if (store_.gatherer_) store_.gatherer_->after_forward({chunk_, unit});
  }
  void before_recompute(size_t unit) override {
    if (store_.gatherer_) store_.gatherer_->before_recompute({chunk_, unit});
  }
  void before_backward(size_t unit) override {
    if (store_.gatherer_) store_.gatherer_->before_backward({chunk_, unit});
    if (store_.shares_words_) store_.reducer_->prepare({chunk_, 0});
    store_.reducer_->before_backward({chunk_, unit});
  }
  void after_backward(size_t unit) override {
    if (store_.gatherer_) store_.gatherer_->after_backward({chunk_, unit});
    store_.reducer_->after_backward({chunk_, unit});
  }

 private:
  ParameterStore& store_;
  size_t chunk_;
};

ParameterStore::ParameterStore(const StoreParts& parts, const std::vector<Chunk*>& chunks,
                               const std::vector<workload::ChunkLayers>& layers, uint64_t seed)
    : job_(parts.job),
      groups_(parts.groups),
      math_(parts.math),
      ledger_(parts.ledger),
      buckets_(make_buckets(parts.job, units_of(chunks), parts.groups)),
      map_(buckets_),
      sharded_parameters_(parts.job.plan.sharding == Sharding::parameters),
      shares_words_(parts.job.model.tied_embeddings && parts.job.plan.pipeline_parallel_size == 1),
      gathering_(buckets_.size()) {
  allocate();
  fill(seed);
  reducer_.emplace(job_, buckets_, math_, ledger_);
  if (sharded_parameters_) {
    std::vector<ParameterGatherer::Chunk> described = numbered(
        chunks.size(), [&](size_t i) { return describe(job_, layers[i], chunks[i]->units()); });
    gatherer_.emplace(job_, buckets_, std::move(described), math_, ledger_);
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    hooks_.push_back(std::make_unique<Hooks>(*this, i));
    chunks[i]->set_hooks(hooks_.back().get());
  }
}

ParameterStore::~ParameterStore() = default;

void ParameterStore::allocate() {
  for (Bucket& bucket : buckets_) {
    if (sharded_parameters_)
      bucket.owned_value = Buffer(ledger_, MemoryTerm::weights, bucket.owned());
    else
      bucket.value = Buffer(ledger_, MemoryTerm::weights, bucket.count);
    bucket.first_moment = Buffer::zeros(ledger_, MemoryTerm::optimizer, bucket.owned());
    bucket.second_moment = Buffer::zeros(ledger_, MemoryTerm::optimizer, bucket.owned());
  }
}

namespace {

void fill_piece(const Piece& piece, uint64_t seed, float* x) {
  fill_initial(*piece.parameter, seed, piece.first, {x, at(piece.end - piece.begin)});
}

}  // namespace

void ParameterStore::fill(uint64_t seed) {
  for (Bucket& bucket : buckets_) {
    if (sharded_parameters_) {
      for (const Piece& piece : bucket.owned_pieces())
        fill_piece(piece, seed, bucket.owned_value.all().data() + piece.begin - bucket.owned_begin);
      continue;
    }
    for (const Piece& piece : bucket.pieces) {
      piece.parameter->value =
          bucket.value.all().subspan(at(piece.begin), at(piece.end - piece.begin));
      fill_piece(piece, seed, piece.parameter->value.data());
    }
  }
}

std::span<float> ParameterStore::owned_value(Bucket& bucket) {
  if (!bucket.owned_value.empty() || sharded_parameters_) return bucket.owned_value.all();
  return bucket.value.all().subspan(at(bucket.owned_begin), at(bucket.owned()));
}

void ParameterStore::begin_step() {
  reducer_->begin_step();
}

void ParameterStore::begin_forward(size_t chunk) {
  if (gatherer_) gatherer_->begin_forward(chunk);
}

void ParameterStore::begin_backward(size_t chunk) {
  if (gatherer_) gatherer_->begin_backward(chunk);
}

void ParameterStore::finish_gradients() {
  reducer_->finish();
  Communicator& tensor = groups_.of(GroupKind::tensor);
  if (job_.plan.sequence_parallel && tensor.size() > 1)
    add_over(tensor, [](const Bucket&, const Parameter& parameter) {
      return parameter.on_every_tensor_rank;
    });
  Communicator& ends = groups_.of(GroupKind::embedding);
  if (job_.model.tied_embeddings && ends.size() > 1)
    add_over(ends, [](const Bucket& bucket, const Parameter&) { return bucket.tied; });
}

/// Adds up gradients over ranks that own the same blocks of the same buckets. The array is that of
/// the whole parameters, zero outside of the owned blocks.
void ParameterStore::add_over(Communicator& group,
                              bool (*belongs)(const Bucket&, const Parameter&)) {
  const auto visit = [&](const auto& act) {
    int64_t place = 0;
    for (Bucket& bucket : buckets_)
      for (const Piece& piece : bucket.pieces) {
        if (!belongs(bucket, *piece.parameter)) continue;
        const int64_t begin = std::max(piece.begin, bucket.owned_begin);
        const int64_t end = std::min(piece.end, bucket.owned_end);
        if (begin < end)
          act(owned_gradient(bucket).data() + (begin - bucket.owned_begin),
              place + begin - piece.begin, end - begin);
        place += piece.end - piece.begin;
      }
    return place;
  };
  const int64_t count = visit([](float*, int64_t, int64_t) {});
  if (count == 0) return;
  Buffer whole = Buffer::zeros(ledger_, MemoryTerm::buffers, count);
  visit([&](const float* gradient, int64_t place, int64_t n) {
    math_.copy(n, gradient, whole.all().data() + place);
  });
  group.all_reduce(whole.all()).wait();
  visit([&](float* gradient, int64_t place, int64_t n) {
    math_.copy(n, whole.all().data() + place, gradient);
  });
}

void ParameterStore::update(const AdamW& adam, double weight_decay) {
  for (Bucket& bucket : buckets_)
    update(bucket, adam, weight_decay);
  if (!sharded_parameters_) gather_updated();
  if (!job_.plan.overlap_parameter) settle();
}

void ParameterStore::update(Bucket& bucket, const AdamW& adam, double weight_decay) {
  const std::span<float> value = owned_value(bucket);
  const std::span<float> gradient = owned_gradient(bucket);
  for (const Piece& piece : bucket.owned_pieces()) {
    AdamW step = adam;
    step.decay = piece.parameter->decays ? static_cast<float>(weight_decay) : 0.0F;
    const int64_t first = piece.begin - bucket.owned_begin;
    math_.adamw(step, piece.end - piece.begin, gradient.data() + first,
                bucket.first_moment.all().data() + first, bucket.second_moment.all().data() + first,
                value.data() + first);
  }
}

void ParameterStore::gather_updated() {
  for (size_t i = 0; i < buckets_.size(); ++i) {
    Bucket& bucket = buckets_[i];
    if (bucket.shard == nullptr) continue;
    const std::span<float> whole = bucket.value.all();
    gathering_[i] =
        bucket.shard->all_gather(whole.subspan(at(bucket.owned_begin), at(bucket.owned())), whole);
  }
}

void ParameterStore::settle() {
  for (Pending& pending : gathering_) {
    pending.wait();
    pending = Pending();
  }
}

void ParameterStore::wait_for(UnitName name) {
  if (sharded_parameters_) return;
  for (const size_t index : map_.of(name)) {
    gathering_[index].wait();
    gathering_[index] = Pending();
  }
}

}  // namespace triplepoint::trainer
