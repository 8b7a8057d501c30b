// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iterator>
#include <utility>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::spec {

/// Options that have no effect on this job: overlap of what is not there, recompute of parts the
/// model does not have, training in inference. Part of diagnose().
std::vector<Diagnosis> diagnose_options(const Job&);

/// Whether the model's parts belong together: its pattern of layers, windows, state-space layers,
/// latent experts and multi-token prediction; and whether the plan can split and train them. Part
/// of diagnose().
std::vector<Diagnosis> diagnose_model(const Job&);

/// Whether a job's records are a table that it can train on, in the layout of its plan. Part of
/// diagnose().
std::vector<Diagnosis> diagnose_records(const Job&);

/// Whether the sends between a job's stages can be cut and joined as its plan says. Part of
/// diagnose().
std::vector<Diagnosis> diagnose_sends(const Job&);

/// What is impossible about the fabric between a job's nodes: keys of another kind of fabric, rings
/// that do not hold the nodes, groups that cut a leaf switch. Part of diagnose().
std::vector<Diagnosis> diagnose_fabric(const Job&);

/// What is impossible about a job's room, limits and faults. Part of diagnose().
std::vector<Diagnosis> diagnose_environment(const Job&);

/// Ranks that share the cores of one machine have no individual power, heat and clock: such a job
/// is predicted without them.
bool predicted_without_power(const Job&);

/// What a job needs to know of its cluster and does not: numbers of the GPU that no source states,
/// slots, packages, orders of devices and nodes that are no permutations. Part of diagnose().
std::vector<Diagnosis> diagnose_cluster(const Job&);

/// What an examination of a job has found so far.
class Findings {
 protected:
  template <class... Args>
  void error(DiagnosisCode code, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(
        {code, Diagnosis::Severity::error, fmt::format(text, std::forward<Args>(args)...)});
  }
  template <class... Args>
  void warn(DiagnosisCode code, fmt::format_string<Args...> text, Args&&... args) {
    found_.push_back(
        {code, Diagnosis::Severity::warning, fmt::format(text, std::forward<Args>(args)...)});
  }

  bool none() const { return found_.empty(); }
  void add(std::vector<Diagnosis> others) {
    std::move(others.begin(), others.end(), std::back_inserter(found_));
  }
  std::vector<Diagnosis> all() { return std::move(found_); }

 private:
  std::vector<Diagnosis> found_;
};

}  // namespace triplepoint::spec
