// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "triplepoint/spec/model.h"

#include "trainer/model/linear.h"

namespace triplepoint::trainer {

/// Where the copies of a rank's tokens go: row counts, grouped by expert.
///
/// With a capacity an expert takes its first tokens and drops the rest; all experts together have
/// ceil(tokens x top-k x factor) places on each rank, dealt out evenly. With padding every place is
/// sent, taken or not.
struct Dispatch {
  std::vector<int64_t> rows_of;  // per expert: rows sent
  std::vector<int32_t> place;    // [tokens x top-k]: row among those sent; -1: dropped
  std::vector<int32_t> row_of;   // per row sent: its token; -1: padding
  int64_t sent() const { return static_cast<int64_t>(row_of.size()); }
};

/// `chosen`: [tokens x top-k].
void plan_dispatch(const spec::MixtureOfExperts&, int64_t tokens, const int32_t* chosen,
                   Dispatch& dispatch);

/// Places of each expert for the tokens of one rank; nothing where none are dropped.
std::vector<int64_t> expert_places(const spec::MixtureOfExperts&, int64_t tokens);

/// The rows that one rank's experts work on, and how they come: as received, rank after rank, each
/// grouped by expert; and sorted, expert after expert.
struct ExpertRowsHere {
  std::vector<int64_t> rows_of;       // per local expert, of all ranks
  std::vector<int32_t> received_row;  // per sorted row: where it was received
  std::vector<int32_t> sorted_row;    // per received row: where it is sorted to
  bool in_order = false;              // sorted = received
  int64_t received() const { return static_cast<int64_t>(sorted_row.size()); }
  int64_t sorted() const { return static_cast<int64_t>(received_row.size()); }
};

/// `counts`: rows of [source][local expert]; `first_row`: where each source's rows begin; `total`:
/// rows received.
void sort_by_expert(const std::vector<int64_t>& counts, const std::vector<int64_t>& first_row,
                    int64_t total, ExpertRowsHere& here);

/// What a rank's experts keep of a microbatch.
struct ExpertsKept {
  ExpertRowsHere here;
  Buffer input;          // sorted rows
  Buffer up, activated;  // product before the activation, then its gradient; and after it
  Buffer output_gradient;

  void release() {
    input.release();
    up.release();
    activated.release();
    output_gradient.release();
  }
};

/// The experts of one rank, each an MLP over its rows; their hidden units are cut over the
/// expert-tensor group.
class Experts {
 public:
  Experts(ModelContext&, int64_t layer, std::vector<Parameter>& parameters);

  int64_t count() const { return static_cast<int64_t>(up_.size()); }
  /// kept.input -> y, both sorted by expert.
  void forward(ExpertsKept&, float* y);
  /// kept.output_gradient -> dx (written in the input half).
  void backward(Half, ExpertsKept&, float* dx);

 private:
  int64_t width() const { return down_.front().in(); }

  ModelContext& context_;
  std::deque<Linear> up_, down_;
};

}  // namespace triplepoint::trainer
