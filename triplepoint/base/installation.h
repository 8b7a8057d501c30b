// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/files.h"

namespace triplepoint {

/// Where models/, gpus/, clusters/ ... lie. The first that exists of: the environment's
/// TRIPLEPOINT_DATA; share/triplepoint/data in the folder of the running program, or of the Python
/// module, and beside that folder; the source tree that it lies in; the install prefix.
///
/// A TRIPLEPOINT_DATA that is not a folder is an error.
Result<Path> data_folder();

/// "triplepoint 0.1.0"
std::string program_version();

}  // namespace triplepoint
