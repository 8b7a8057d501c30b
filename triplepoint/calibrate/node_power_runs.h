// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::calibrate {

/// A published benchmark on a published machine, as far as its power depends on it.
struct NodeRun {
  std::string gpu;        // as the table spells it
  std::string benchmark;  // "llama2_70b_lora", "gpt3", "bert"
  std::string cooling;    // "immersion (...)", "direct water (...)", "air"
  int64_t nodes = 1, gpus = 8;
  friend auto operator<=>(const NodeRun&, const NodeRun&) = default;
};

/// How a run's steps follow each other.
struct NodePace {
  Seconds step, host;  // host: the pause of it, in which devices rest
  double batch = 1;    // sequences of a step
};

/// What one node draws, by where it is measured.
struct NodeLevels {
  struct Side {
    Watts busy, idle;
  };
  Side wall, supplied;  // before and behind the power supplies
  NodePace pace;
};

/// The job of a benchmark on a machine: layout and batch of its published configurations.
Result<spec::Job> job_of(const NodeRun&, const spec::Library&);

/// Simulates a run's job and adds what a node is besides its devices. Each run once.
class NodePredictor {
 public:
  explicit NodePredictor(const spec::Library& library) : library_(library) {}
  const Result<NodeLevels>& levels(const NodeRun&);

 private:
  const spec::Library& library_;
  std::map<NodeRun, Result<NodeLevels>> known_;
};

}  // namespace triplepoint::calibrate
