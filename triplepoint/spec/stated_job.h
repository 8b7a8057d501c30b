// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

struct Library;

/// What a job may leave out: `with_defaults` has one rule for each.
enum class JobSetting {
  task,
  nodes,
  sequence_length,
  micro_batch_size,
  global_batch_size,
  precision,
  recompute,
  sharding,
  stack,
  optimizer
};

/// A job as a file or flags state it. What is not stated has no meaning in `job` yet.
struct StatedJob {
  Job job;
  std::set<JobSetting> stated;
  std::string length_from = "the model's";  // where a sequence length comes from that is not stated
  // Defaults of the launcher that the file is written for, as in "fp32 (Megatron's)".
  std::vector<std::string> of_launcher;

  bool states(JobSetting setting) const { return stated.contains(setting); }
};

inline constexpr int64_t default_nodes = 1;           // of a cluster of the library
inline constexpr int64_t default_global_batch = 128;  // sequences; the batch of the MICRO'25 study

/// Whether a cluster is the user's own file, whose num_nodes are meant, and not one of the library.
inline bool is_own_cluster(std::string_view name) {
  return name.ends_with(".toml");
}

/// The job with what was left out, by the same rules for every reader (docs/cli.md lists them).
Result<Job> with_defaults(const Library&, StatedJob);

/// Makes the first note of a job "sequence length 4096 (the model's); by default 1 node, batch
/// 128": the length, and what `with_defaults` filled in. `searched`: settings that a search will
/// choose, which the note leaves out.
void note_defaults(Job&, const StatedJob&, const std::set<JobSetting>& searched = {});

/// A job that states everything, as a stored one does.
StatedJob fully_stated(Job);

/// load_job and parse_job without defaults, for flags to go on top.
Result<StatedJob> load_stated_job(const Library&, const std::string& path);
Result<StatedJob> parse_stated_job(const Library&, std::string_view text, const std::string& file);

}  // namespace triplepoint::spec
