// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/settings.h"

namespace triplepoint::formats {

/// Reads clusters, stacks and models of the library, each file once: a folder has hundreds of jobs
/// and few clusters.
class LibraryCache {
 public:
  explicit LibraryCache(const spec::Library& library) : library_(library) {}

  const spec::Library& library() const { return library_; }
  Result<spec::Cluster> cluster(const std::string& name);
  Result<spec::Stack> stack(const std::string& name);
  Result<spec::OptimizerState> optimizer(const std::string& name);
  std::optional<spec::Model> model(const std::string& name);  // nothing if there is none
  const std::vector<std::string>& cluster_names();
  const std::vector<std::string>& model_names();

 private:
  spec::Library library_;
  std::map<std::string, Result<spec::Cluster>> clusters_;
  std::map<std::string, Result<spec::Stack>> stacks_;
  std::map<std::string, Result<spec::OptimizerState>> optimizers_;
  std::map<std::string, std::optional<spec::Model>> models_;
  std::optional<std::vector<std::string>> cluster_names_, model_names_;
};

/// What a launch file says about the machines, each possibly nothing.
struct MachineFacts {
  std::optional<std::string> cluster;  // named by an exported file
  std::optional<std::string> stack;
  std::optional<std::string> optimizer;
  std::optional<int64_t> num_nodes;
  std::optional<int64_t> gpus_per_node;
  std::optional<int64_t> processes;  // of all nodes, one a device
  bool has_tasks = true;             // a task of the batch lines is a process
  bool has_ranks = false;            // the number of nodes follows from other sizes
  std::string_view nodes_key;        // where num_nodes stands in the file, for messages
  std::string_view gpus_key;
  bool profiled = false;
  std::string_view plain_stack;  // of the framework, without profiler
  std::string_view profiled_stack;
};

/// Sets cluster and stack of a job: from hints, else from the file, the job script, words of the
/// path; else the paper's main cluster, which is then noted as assumed.
Result<void> set_cluster_and_stack(LibraryCache& cache, Settings& settings,
                                   const ImportHints& hints, const MachineFacts& facts,
                                   spec::StatedJob& stated);

/// The library's model of this shape, of whatever sequence length: the one whose name stands in
/// `place`, else the first.
std::optional<spec::Model> model_of_shape(LibraryCache& cache, const spec::Model& model,
                                          std::string_view place);

/// Names of the library for what the file spells out: the published sizes of the model of that name
/// and shape, and the optimizer that an exported file names, where it has these bytes.
void adopt_names(LibraryCache& cache, const std::optional<std::string>& optimizer, spec::Job& job);

}  // namespace triplepoint::formats
