// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/installation.h"

#include <cstdlib>
#include <system_error>

#include <fmt/format.h>

namespace triplepoint {
namespace {

Path beside_program() {
  std::error_code ignored;
  const Path program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return program.parent_path().parent_path() / "share/triplepoint/data";
}

}  // namespace

Result<Path> data_folder() {
  if (const char* chosen = std::getenv("TRIPLEPOINT_DATA")) {
    if (is_folder(chosen)) return Path(chosen);
    return error(
        fmt::format("TRIPLEPOINT_DATA names {}, which is not a folder (models and GPUs are "
                    "described there); unset it or correct it",
                    chosen));
  }
  for (const Path& folder :
       {beside_program(), Path(TPT_SOURCE_DATA_DIR), Path(TPT_INSTALL_DATA_DIR)})
    if (is_folder(folder)) return folder;
  return error(fmt::format("no data folder (neither {} nor {} exists); set TRIPLEPOINT_DATA to it",
                           TPT_SOURCE_DATA_DIR, TPT_INSTALL_DATA_DIR));
}

std::string program_version() {
  return "triplepoint " TPT_VERSION;
}

}  // namespace triplepoint
