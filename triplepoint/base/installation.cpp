// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/installation.h"

#include <cstdlib>
#include <system_error>

#include <dlfcn.h>

namespace triplepoint {
namespace {

constexpr char installed[] = "share/triplepoint/data";

/// Where this code lies: the program's folder, or that of the shared object that it was linked
/// into, such as the Python module.
Path folder_of_code() {
  Dl_info info{};
  if (dladdr(&installed, &info) != 0 && info.dli_fname != nullptr)
    if (const Path file = info.dli_fname; file.extension() == ".so")
      return absolute_path(file).parent_path();
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path();
}

/// data/ of the tree that the program was built in: programs lie in build/PRESET/bin, tests deeper.
Path data_of_source_tree(Path folder) {
  for (int level = 0; level < 5 && folder.has_relative_path(); ++level) {
    folder = folder.parent_path();
    if (is_folder(folder / "data/gpus") && path_exists(folder / "CMakePresets.json"))
      return folder / "data";
  }
  return {};
}

}  // namespace

Result<Path> data_folder() {
  if (const char* chosen = std::getenv("TRIPLEPOINT_DATA")) {
    if (is_folder(chosen)) return Path(chosen);
    return error(
        "TRIPLEPOINT_DATA names {}, which is not a folder (models and GPUs are "
        "described there); unset it or correct it",
        chosen);
  }
  const Path code = folder_of_code();
  const Path beside = code.parent_path() / installed;
  for (const Path& folder :
       {code / installed, beside, data_of_source_tree(code), Path(TPT_INSTALL_DATA_DIR)})
    if (is_folder(folder)) return folder;
  return error("no data folder (neither {} nor {} exists); set TRIPLEPOINT_DATA to it",
               beside.string(), TPT_INSTALL_DATA_DIR);
}

std::string program_version() {
  return "triplepoint " TPT_VERSION;
}

}  // namespace triplepoint
