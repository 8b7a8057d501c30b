// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace triplepoint::trainer::cuda {

/// The compiled kernels, contained in the plug-in; some bytes that are none where no nvcc was
/// found.
const void* kernel_image();
bool has_kernel_image();

}  // namespace triplepoint::trainer::cuda
