// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/library_folders.h"

#include <map>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

namespace triplepoint::trainer {
namespace {

std::string folder_in(const Path& root, const std::string& path) {
  REQUIRE(make_folder(root / path));
  return (root / path).string();
}

TEST_CASE("CUDA of pip, conda and a toolkit is looked for where it is installed") {
  const ScratchFolder scratch;
  const Path& root = scratch.folder();
  std::map<std::string, std::string> environment;
  const auto found = [&] {
    return cuda_library_folders(
        [&](const char* name) -> std::optional<std::string> {
          const auto entry = environment.find(name);
          if (entry == environment.end()) return std::nullopt;
          return entry->second;
        },
        root.string());
  };
  CHECK(found().empty());
  const std::string packages = "/lib/python3.11/site-packages/nvidia/";
  const std::string blas = folder_in(root, "venv" + packages + "cublas/lib");
  const std::string nccl = folder_in(root, "venv" + packages + "nccl/lib");
  folder_in(root, "venv" + packages + "without_libraries");
  const std::string of_system = folder_in(root, "usr/local/cuda/lib64");
  const std::string of_home = folder_in(root, "home/.local" + packages + "cu13/lib");
  const std::string of_debian = folder_in(root, "usr/lib/python3/dist-packages/nvidia/nccl/lib");
  const std::string toolkit = folder_in(root, "cuda-12.4/lib64");
  CHECK(found() == std::vector<std::string>{of_system, of_debian});
  environment = {{"VIRTUAL_ENV", (root / "venv").string()},
                 {"HOME", (root / "home").string()},
                 {"CUDA_HOME", (root / "cuda-12.4").string()}};
  CHECK(found() == std::vector<std::string>{toolkit, blas, nccl, of_home, of_system, of_debian});
  // The shell's python3, and a folder that Python is told of.
  folder_in(root, "venv/bin");
  REQUIRE(write_file_atomically(root / "venv/bin/python3", ""));
  environment = {{"PATH", "/nowhere:" + (root / "venv/bin").string()}};
  CHECK(found() == std::vector<std::string>{blas, nccl, of_system, of_debian});
  environment = {{"PYTHONPATH", (root / "venv/lib/python3.11/site-packages").string()}};
  CHECK(found() == std::vector<std::string>{blas, nccl, of_system, of_debian});
}

}  // namespace
}  // namespace triplepoint::trainer
