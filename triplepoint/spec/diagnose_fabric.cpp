// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "triplepoint/spec/diagnose_parts.h"
#include "triplepoint/spec/names.h"

namespace triplepoint::spec {
namespace {

using Code = DiagnosisCode;

class FabricExamination : Findings {
 public:
  explicit FabricExamination(const Job& job) : cluster_(job.cluster), fabric_(cluster_.scale_out) {}

  std::vector<Diagnosis> run() {
    numbers_are_possible();
    keys_are_of_this_kind();
    if (fabric_.kind == FabricKind::torus) torus_is_whole();
    if (fabric_.kind == FabricKind::dragonfly) groups_are_of_whole_leaves();
    return all();
  }

 private:
  void numbers_are_possible() {
    if (!(fabric_.oversubscription > 0))
      error(Code::inconsistent,
            "scale_out.oversubscription is {} (it is bandwidth below over bandwidth above); set it "
            "to 1 or more",
            fabric_.oversubscription);
    if (fabric_.hop_latency < Seconds())
      error(Code::inconsistent,
            "scale_out.hop_latency is negative (a switch takes time); set it to 0 s or more");
    if (fabric_.nodes_per_group < 0)
      error(
          Code::inconsistent,
          "scale_out.nodes_per_group is {} (it counts nodes); set it to 1 or more, or leave it out",
          fabric_.nodes_per_group);
  }

  void keys_are_of_this_kind() {
    if (!fabric_.torus_shape.empty() && fabric_.kind != FabricKind::torus)
      error(Code::inconsistent,
            "scale_out.torus_shape is given for a {} fabric (only a torus has rings); leave it out "
            "or set kind = \"torus\"",
            enum_name(fabric_.kind));
    if (fabric_.nodes_per_group > 0 && fabric_.kind != FabricKind::dragonfly)
      error(Code::inconsistent,
            "scale_out.nodes_per_group is given for a {} fabric (only a dragonfly has groups); "
            "leave it out or set kind = \"dragonfly\"",
            enum_name(fabric_.kind));
  }

  void torus_is_whole() {
    const std::vector<int64_t>& shape = fabric_.torus_shape;
    if (!shape.empty() && !holds_all_nodes(shape))
      error(Code::inconsistent,
            "scale_out.torus_shape {} does not hold {} nodes (each node has one place in the "
            "rings); make its product the number of nodes, or leave it out",
            fmt::join(shape, " x "), cluster_.num_nodes);
    if (fabric_.oversubscription > 1)
      error(Code::inconsistent,
            "scale_out.oversubscription is {} on a torus (it has no switches to save on); set it "
            "to 1",
            fabric_.oversubscription);
    if (cluster_.scale_up.domain_size > cluster_.gpus_per_node)
      error(Code::unsupported,
            "a torus of nodes that share NVLink domains of {} devices is not modelled (which of "
            "them has the ring's port?); choose another kind of fabric",
            cluster_.scale_up.domain_size);
  }

  bool holds_all_nodes(const std::vector<int64_t>& shape) const {
    int64_t left = std::max<int64_t>(1, cluster_.num_nodes);
    for (const int64_t around : shape) {
      if (around < 1 || left % around != 0) return false;
      left /= around;
    }
    return left == 1;
  }

  void groups_are_of_whole_leaves() {
    const int64_t group = fabric_.nodes_per_group, leaf = fabric_.nodes_per_leaf;
    if (group <= 0 || group <= leaf || group % leaf == 0) return;
    error(
        Code::inconsistent,
        "scale_out.nodes_per_leaf {} does not divide nodes_per_group {} (a group is made of whole "
        "leaf switches); try groups of {} or {} nodes",
        leaf, group, group / leaf * leaf, (group / leaf + 1) * leaf);
  }

  const Cluster& cluster_;
  const ScaleOut& fabric_;
};

}  // namespace

std::vector<Diagnosis> diagnose_fabric(const Job& job) {
  return FabricExamination(job).run();
}

}  // namespace triplepoint::spec
