// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace triplepoint::trainer {

/// Folders that may hold CUDA's libraries and that the system's loader need not know: of a CUDA
/// toolkit, of conda, and of Python packages (pip install nvidia-cublas-cu12 puts libraries into
/// site-packages/nvidia/cublas/lib). Only those that exist, nearest to the user first.
///
/// `variable` reads the environment; `root` is put before folders of the system, for tests.
std::vector<std::string> cuda_library_folders(
    const std::function<std::optional<std::string>(const char*)>& variable,
    const std::string& root = {});

}  // namespace triplepoint::trainer
