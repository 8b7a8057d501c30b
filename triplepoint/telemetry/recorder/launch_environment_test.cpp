// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/launch_environment.h"

#include <map>

#include <doctest/doctest.h>

namespace triplepoint::telemetry {
namespace {

LaunchEnvironment read(const std::map<std::string, std::string>& variables) {
  return read_launch_environment(
      [&](const char* name) -> std::optional<std::string> { return value_at(variables, name); });
}

TEST_CASE("without a launcher nothing is known") {
  const LaunchEnvironment found = read({});
  CHECK(found.launcher.empty());
  CHECK_FALSE(found.rank);
  CHECK_FALSE(found.visible_devices);
}

TEST_CASE("torchrun says ranks, also inside of a Slurm job") {
  const LaunchEnvironment found = read({{"RANK", "9"},
                                        {"LOCAL_RANK", "1"},
                                        {"WORLD_SIZE", "16"},
                                        {"LOCAL_WORLD_SIZE", "8"},
                                        {"GROUP_WORLD_SIZE", "2"},
                                        {"MASTER_ADDR", "node1"},
                                        {"SLURM_JOB_ID", "3"},
                                        {"SLURM_PROCID", "0"},
                                        {"SLURM_STEP_ID", "0"}});
  CHECK(found.launcher == "torchrun");
  CHECK(found.rank == 9);
  CHECK(found.local_rank == 1);
  CHECK(found.world_size == 16);
  CHECK(found.local_size == 8);
  CHECK(found.num_nodes == 2);
  CHECK(found.job.find("node1") != std::string::npos);
}

TEST_CASE("Open MPI says ranks, also inside of a Slurm job") {
  const LaunchEnvironment found = read({{"OMPI_COMM_WORLD_RANK", "3"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                        {"PMIX_NAMESPACE", "77"},
                                        {"SLURM_JOB_ID", "3"}});
  CHECK(found.launcher == "open mpi");
  CHECK(found.rank == 3);
  CHECK(found.local_rank == 1);
  CHECK(found.world_size == 4);
  CHECK(found.local_size == 2);
  CHECK(found.job == "openmpi-77");
}

TEST_CASE("MPICH says ranks by PMI") {
  const LaunchEnvironment found = read(
      {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}});
  CHECK(found.launcher == "mpich");
  CHECK(found.rank == 3);
  CHECK(found.local_rank == 1);
  CHECK(found.local_size == 2);
}

TEST_CASE("srun says ranks, and how many are on which node") {
  std::map<std::string, std::string> variables = {
      {"SLURM_JOB_ID", "41"}, {"SLURM_STEP_ID", "2"},    {"SLURM_PROCID", "5"},
      {"SLURM_LOCALID", "1"}, {"SLURM_NTASKS", "7"},     {"SLURM_NNODES", "3"},
      {"SLURM_NODEID", "0"},  {"SLURMD_NODENAME", "n2"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"}};
  CHECK(read(variables).launcher == "slurm");
  CHECK(read(variables).rank == 5);
  CHECK(read(variables).world_size == 7);
  CHECK(read(variables).num_nodes == 3);
  CHECK(read(variables).job == "slurm-41.2");
  CHECK(read(variables).node == "n2");
  CHECK(read(variables).local_size == 3);
  variables["SLURM_NODEID"] = "2";
  CHECK(read(variables).local_size == 1);
  variables["SLURM_STEP_TASKS_PER_NODE"] = "3(x2";
  CHECK_FALSE(read(variables).local_size);
}

TEST_CASE("a batch script is no rank of the training it starts") {
  const LaunchEnvironment found = read({{"SLURM_JOB_ID", "41"},
                                        {"SLURM_PROCID", "0"},
                                        {"SLURM_LOCALID", "0"},
                                        {"SLURM_NTASKS", "64"},
                                        {"SLURM_NNODES", "8"}});
  CHECK(found.launcher == "slurm");
  CHECK_FALSE(found.rank);
  CHECK_FALSE(found.local_rank);
  CHECK_FALSE(found.world_size);
  CHECK(found.job == "slurm-41");
}

TEST_CASE("numbers that are none are not believed") {
  const LaunchEnvironment found = read({{"OMPI_COMM_WORLD_RANK", "-1"},
                                        {"OMPI_COMM_WORLD_SIZE", "4x"},
                                        {"OMPI_COMM_WORLD_LOCAL_RANK", ""}});
  CHECK_FALSE(found.rank);
  CHECK_FALSE(found.world_size);
  CHECK_FALSE(found.local_rank);
}

std::vector<run::Device> four_gpus() {
  return numbered(4, [](int32_t i) {
    return run::Device{.index = i,
                       .local = i,
                       .uuid = "GPU-" + std::to_string(i) + "aaa-bbbb",
                       .pci = "0000:" + std::to_string(i) + "b:00.0"};
  });
}

TEST_CASE("a rank's GPU is the one that its visible devices name") {
  const auto devices = four_gpus();
  using Text = std::optional<std::string>;
  CHECK(device_of(devices, 2, std::nullopt) == 2);
  CHECK(device_of(devices, 1, Text("3,2,1,0")) == 2);
  CHECK(device_of(devices, 1, Text(" 3, 2")) == 2);
  CHECK(device_of(devices, 5, Text("3")) == 3);
  CHECK(device_of(devices, std::nullopt, Text("3")) == 3);
  CHECK(device_of(devices, 0, Text("GPU-2aaa-bbbb,GPU-1aaa-bbbb")) == 2);
  CHECK(device_of(devices, 1, Text("gpu-2aaa,gpu-1a")) == 1);
  CHECK(device_of(devices, 0, Text("3b:00.0")) == 3);
}

TEST_CASE("a rank's GPU that cannot be told is not guessed") {
  const auto devices = four_gpus();
  using Text = std::optional<std::string>;
  CHECK_FALSE(device_of(devices, std::nullopt, std::nullopt));
  CHECK_FALSE(device_of(devices, 4, std::nullopt));
  CHECK_FALSE(device_of(devices, 0, Text("")));
  CHECK_FALSE(device_of(devices, 2, Text("0,1")));
  CHECK_FALSE(device_of(devices, 0, Text("-1")));
  CHECK_FALSE(device_of(devices, 0, Text("GPU-9")));
  CHECK_FALSE(device_of({}, 0, std::nullopt));
}

TEST_CASE("devices that are left out of a recording keep their numbers") {
  auto devices = four_gpus();
  devices.erase(devices.begin(), devices.begin() + 2);
  CHECK(device_of(devices, 3, std::nullopt) == 1);
  CHECK_FALSE(device_of(devices, 0, std::nullopt));
}

TEST_CASE("HIP counts the devices that ROCm's runtime has left") {
  CHECK(read({{"ROCR_VISIBLE_DEVICES", "4,5,6"}, {"HIP_VISIBLE_DEVICES", "2,0"}}).visible_devices ==
        "6,4");
  CHECK(read({{"ROCR_VISIBLE_DEVICES", "GPU-1a,GPU-2b"}, {"CUDA_VISIBLE_DEVICES", "1"}})
            .visible_devices == "GPU-2b");
  CHECK(read({{"ROCR_VISIBLE_DEVICES", "4"}, {"HIP_VISIBLE_DEVICES", "1"}}).visible_devices == "");
  CHECK(read({{"ROCR_VISIBLE_DEVICES", "4"}}).visible_devices == "4");
  CHECK(read({{"CUDA_VISIBLE_DEVICES", "3"}, {"HIP_VISIBLE_DEVICES", "2"}}).visible_devices == "3");
}

TEST_CASE("CUDA's numbers of different GPUs are not the driver's, unless it is told so") {
  auto devices = four_gpus();
  using Text = std::optional<std::string>;
  CHECK(device_of(devices, 1, std::nullopt, false) == 1);
  devices[2].name = "another";
  CHECK_FALSE(device_of(devices, 1, std::nullopt, false));
  CHECK_FALSE(device_of(devices, 0, Text("1"), false));
  CHECK(device_of(devices, 0, Text("GPU-1aaa"), false) == 1);
  CHECK(device_of(devices, 1, std::nullopt, true) == 1);
  CHECK(read({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}).in_pci_order);
  CHECK_FALSE(read({{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}).in_pci_order);
}

TEST_CASE("a MIG instance belongs to the GPU that its name has") {
  using Text = std::optional<std::string>;
  CHECK(device_of(four_gpus(), 0, Text("MIG-GPU-2aaa-bbbb/7/0")) == 2);
  CHECK_FALSE(device_of(four_gpus(), 0, Text("MIG-5f0cd0e4-7d3b")));
}

}  // namespace
}  // namespace triplepoint::telemetry
