// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/files.h"

#include "triplepoint/run/run.h"

namespace triplepoint::telemetry {

/// Which place in a distributed job this process has, as its launcher's environment says.
struct LaunchEnvironment {
  std::string launcher;  // "torchrun", "open mpi", "mpich", "slurm"; "" if there is none
  std::optional<int32_t> rank, local_rank;
  std::optional<int32_t> world_size, local_size;  // ranks of the job; ranks on this node
  std::optional<int32_t> num_nodes;
  std::string job;   // the same for all ranks of this launch, and for no other one; "" if unknown
  std::string node;  // the launcher's name of this node; "" if it gives none
  /// CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES; with ROCR_VISIBLE_DEVICES, those entries of it
  /// that HIP_VISIBLE_DEVICES names.
  std::optional<std::string> visible_devices;
  bool in_pci_order = false;  // CUDA_DEVICE_ORDER=PCI_BUS_ID: CUDA numbers GPUs as the driver does
};

/// The value of an environment variable; nothing if it is not set.
using Variable = std::function<std::optional<std::string>(const char* name)>;

/// Asks torchrun's, Open MPI's, MPICH's (PMI) and Slurm's variables, in this order: what is
/// launched inside of an allocation knows more than the allocation. In a batch script, outside of
/// srun, Slurm's rank is that of the script and says nothing about a training.
LaunchEnvironment read_launch_environment(const Variable&);
/// The process' own environment.
std::optional<std::string> process_variable(const char* name);

/// Index into `devices` of the GPU on which a process works: the entry of its visible devices
/// (indexes, UUIDs, prefixes of UUIDs, MIG-GPU-UUID/GI/CI, PCI addresses) for its local rank; all
/// devices are visible if the variable is not set. Nothing where that cannot be told: CUDA numbers
/// different NVIDIA models by speed, unless `in_pci_order`.
std::optional<int32_t> device_of(const std::vector<run::Device>& devices,
                                 std::optional<int32_t> local_rank,
                                 const std::optional<std::string>& visible_devices,
                                 bool in_pci_order = true);

/// The name of this node, as its launcher or the kernel has it.
std::string this_host(const LaunchEnvironment&);
/// Unless it is known that all ranks of the launch are on this node, there are other nodes.
bool is_one_of_many_nodes(const LaunchEnvironment&);
/// "run-slurm-17.0.run", the same on all nodes; "run-20260102-030405.run" without a launcher.
std::string default_recording_name(const LaunchEnvironment&);

/// What a recorded command needs in its environment: where its marks go, and libraries of ours.
std::map<std::string, std::string> recording_variables(const Path& marks);

}  // namespace triplepoint::telemetry
