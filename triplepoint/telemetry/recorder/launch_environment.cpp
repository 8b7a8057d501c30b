// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/launch_environment.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include <fmt/chrono.h>
#include <unistd.h>

#include "triplepoint/base/text.h"

#include "triplepoint/mark/reader.h"

namespace triplepoint::telemetry {
namespace {

std::optional<int32_t> small_number(std::string_view text) {
  const auto number = whole_number(text);
  return number && *number <= INT32_MAX ? std::optional(static_cast<int32_t>(*number))
                                        : std::nullopt;
}

/// Asks the environment, and keeps the first answer of several.
class VariableReader {
 public:
  explicit VariableReader(const Variable& variable) : variable_(variable) {}

  std::optional<std::string> text(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (auto value = variable_(name); value && !value->empty()) return value;
    return std::nullopt;
  }
  std::optional<int32_t> number(std::initializer_list<const char*> names) const {
    for (const char* name : names)
      if (const auto value = variable_(name))
        if (const auto parsed = small_number(*value)) return parsed;
    return std::nullopt;
  }
  bool has(const char* name) const { return variable_(name).has_value(); }

 private:
  const Variable& variable_;
};

/// "2(x3),1" is 2,2,2,1 tasks; the entry of this node.
std::optional<int32_t> tasks_of_node(std::string_view list, int32_t node) {
  for (const std::string& item : split(list, ',')) {
    const size_t open = std::min(item.find("(x"), item.size());
    const auto tasks = small_number(item.substr(0, open));
    const std::string_view times = trimmed(std::string_view(item).substr(open), "(x)");
    const auto nodes = times.empty() ? std::optional(1) : small_number(times);
    if (!tasks || !nodes) return std::nullopt;
    if (node < *nodes) return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

LaunchEnvironment torchrun(const VariableReader& ask) {
  return {.launcher = "torchrun",
          .rank = ask.number({"RANK"}),
          .local_rank = ask.number({"LOCAL_RANK"}),
          .world_size = ask.number({"WORLD_SIZE"}),
          .local_size = ask.number({"LOCAL_WORLD_SIZE"}),
          .num_nodes = ask.number({"GROUP_WORLD_SIZE"}),
          .job = fmt::format("torchrun-{}-{}-{}", ask.text({"TORCHELASTIC_RUN_ID"}).value_or(""),
                             ask.text({"MASTER_ADDR"}).value_or(""),
                             ask.text({"MASTER_PORT"}).value_or(""))};
}

LaunchEnvironment open_mpi(const VariableReader& ask) {
  LaunchEnvironment found{.launcher = "open mpi",
                          .rank = ask.number({"OMPI_COMM_WORLD_RANK"}),
                          .local_rank = ask.number({"OMPI_COMM_WORLD_LOCAL_RANK"}),
                          .world_size = ask.number({"OMPI_COMM_WORLD_SIZE"}),
                          .local_size = ask.number({"OMPI_COMM_WORLD_LOCAL_SIZE"}),
                          .num_nodes = ask.number({"OMPI_MCA_orte_num_nodes"})};
  if (const auto job = ask.text({"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}))
    found.job = "openmpi-" + *job;
  return found;
}

LaunchEnvironment mpich(const VariableReader& ask) {
  return {.launcher = "mpich",
          .rank = ask.number({"PMI_RANK", "PMIX_RANK"}),
          .local_rank = ask.number({"MPI_LOCALRANKID"}),
          .world_size = ask.number({"PMI_SIZE"}),
          .local_size = ask.number({"MPI_LOCALNRANKS"})};
}

LaunchEnvironment slurm(const VariableReader& ask) {
  LaunchEnvironment found{.launcher = "slurm",
                          .num_nodes = ask.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}),
                          .node = ask.text({"SLURMD_NODENAME"}).value_or("")};
  const auto job = ask.text({"SLURM_JOB_ID", "SLURM_JOBID"}), step = ask.text({"SLURM_STEP_ID"});
  if (job) found.job = fmt::format("slurm-{}{}{}", *job, step ? "." : "", step.value_or(""));
  if (!step) {
    found.num_nodes.reset();  // of the allocation; this script runs on one of them
    return found;
  }
  found.rank = ask.number({"SLURM_PROCID"});
  found.local_rank = ask.number({"SLURM_LOCALID"});
  found.world_size = ask.number({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  if (const auto tasks = ask.text({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}))
    found.local_size = tasks_of_node(*tasks, ask.number({"SLURM_NODEID"}).value_or(0));
  return found;
}

LaunchEnvironment launcher_of(const VariableReader& ask) {
  if (ask.has("LOCAL_RANK") && ask.has("RANK") && ask.has("WORLD_SIZE")) return torchrun(ask);
  if (ask.has("OMPI_COMM_WORLD_RANK")) return open_mpi(ask);
  if (ask.has("PMI_RANK") && ask.has("MPI_LOCALRANKID")) return mpich(ask);
  if (ask.has("SLURM_JOB_ID") || ask.has("SLURM_JOBID")) return slurm(ask);
  if (ask.has("PMI_RANK")) return mpich(ask);
  return {};
}

/// The entries of a list, without blanks around them.
std::vector<std::string> entries_of(std::string_view list) {
  std::vector<std::string> entries = list.empty() ? std::vector<std::string>() : split(list, ',');
  for (std::string& entry : entries)
    entry = trimmed(entry);
  return entries;
}

/// Both drivers take the beginning of a UUID; of a PCI address the domain may be missing.
bool answers_to(const run::Device& device, const std::string& word) {
  if (word.empty()) return false;
  const std::string name = lower_case(word), pci = lower_case(device.pci);
  return (!device.uuid.empty() && lower_case(device.uuid).starts_with(name)) ||
         (!pci.empty() && contains(word, ':') && pci.ends_with(name));
}

/// GPUs of different models, which CUDA by default numbers by speed and not as the driver does.
bool are_mixed(const std::vector<run::Device>& devices) {
  return std::ranges::any_of(
      devices, [&](const run::Device& device) { return device.name != devices.front().name; });
}

/// The UUID of the GPU in "MIG-GPU-UUID/GI/CI"; the word itself for any other.
std::string gpu_of_mig(const std::string& word) {
  constexpr std::string_view prefix = "MIG-";
  if (!word.starts_with("MIG-GPU-")) return word;
  return word.substr(prefix.size(), word.find('/') - prefix.size());
}

std::optional<int32_t> device_named(const std::vector<run::Device>& devices,
                                    const std::string& entry, bool in_pci_order) {
  const std::string word = gpu_of_mig(entry);
  if (const auto number = small_number(word)) {
    if (!in_pci_order && are_mixed(devices)) return std::nullopt;
    for (size_t i = 0; i < devices.size(); ++i)
      if (devices[i].local == *number) return static_cast<int32_t>(i);
    return std::nullopt;
  }
  for (size_t i = 0; i < devices.size(); ++i)
    if (answers_to(devices[i], word)) return static_cast<int32_t>(i);
  return std::nullopt;
}

/// ROCm's runtime hides devices first; HIP counts those that are left.
std::string composed(const std::string& runtime, const std::string& hip) {
  const std::vector<std::string> there = entries_of(runtime);
  std::string visible;
  for (const std::string& entry : entries_of(hip)) {
    const auto number = small_number(entry);
    if (number && as_size(*number) >= there.size()) break;  // as HIP does
    visible += (visible.empty() ? "" : ",") + (number ? there[as_size(*number)] : entry);
  }
  return visible;
}

std::optional<std::string> visible_devices(const Variable& variable) {
  const auto cuda = variable("CUDA_VISIBLE_DEVICES"), hip = variable("HIP_VISIBLE_DEVICES"),
             runtime = variable("ROCR_VISIBLE_DEVICES");
  const auto& counted = runtime && hip ? hip : cuda ? cuda : hip;
  if (!runtime || !counted) return counted ? counted : runtime;
  return composed(*runtime, *counted);
}

/// A library of ours: beside the program as it is built, or as it is installed.
std::optional<std::string> our_library(const std::string& name) {
  std::error_code problem;
  const Path folder = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
  for (const char* place : {"../lib", "../" TPT_LIBRARY_FOLDER})
    if (const Path path = folder / place / name; std::filesystem::exists(path, problem))
      return std::filesystem::weakly_canonical(path, problem).string();
  return std::nullopt;
}

}  // namespace

LaunchEnvironment read_launch_environment(const Variable& variable) {
  const VariableReader ask(variable);
  LaunchEnvironment found = launcher_of(ask);
  if (found.node.empty()) found.node = ask.text({"SLURMD_NODENAME"}).value_or("");
  found.visible_devices = visible_devices(variable);
  found.in_pci_order = variable("CUDA_DEVICE_ORDER") == "PCI_BUS_ID";
  return found;
}

std::optional<std::string> process_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return value;
}

std::optional<int32_t> device_of(const std::vector<run::Device>& devices,
                                 std::optional<int32_t> local_rank,
                                 const std::optional<std::string>& visible_devices,
                                 bool in_pci_order) {
  if (!visible_devices) {
    if (local_rank) return device_named(devices, std::to_string(*local_rank), in_pci_order);
    return std::nullopt;
  }
  const std::vector<std::string> visible = entries_of(*visible_devices);
  if (visible.size() == 1) return device_named(devices, visible[0], in_pci_order);
  if (!local_rank || as_size(*local_rank) >= visible.size()) return std::nullopt;
  return device_named(devices, visible[as_size(*local_rank)], in_pci_order);
}

std::string this_host(const LaunchEnvironment& environment) {
  if (!environment.node.empty()) return environment.node;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "node";
  const std::string host = name.data();
  return host.substr(0, host.find('.'));
}

bool is_one_of_many_nodes(const LaunchEnvironment& environment) {
  if (environment.num_nodes) return *environment.num_nodes > 1;
  if (!environment.rank) return false;
  return !environment.world_size || environment.local_size != environment.world_size;
}

std::string default_recording_name(const LaunchEnvironment& environment) {
  if (environment.rank && !environment.job.empty()) return "run-" + environment.job + ".run";
  return fmt::format("run-{:%Y%m%d-%H%M%S}.run", fmt::localtime(time(nullptr)));
}

std::map<std::string, std::string> recording_variables(const Path& marks) {
  std::map<std::string, std::string> variables = {{mark::folder_variable, marks.string()}};
  if (const auto library = our_library("libtriplepoint_mark.so"))
    variables["TRIPLEPOINT_MARK_LIBRARY"] = *library;
  // NVTX ranges become regions, unless a profiler has them already.
  constexpr const char* injection = "NVTX_INJECTION64_PATH";
  if (const auto library = our_library("libtriplepoint_nvtx.so");
      library && !process_variable(injection))
    variables[injection] = *library;
  return variables;
}

}  // namespace triplepoint::telemetry
