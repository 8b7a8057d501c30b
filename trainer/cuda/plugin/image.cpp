// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/plugin/image.h"

#ifdef TPT_KERNEL_IMAGE
// The file that nvcc has made, as it is.
asm(".section .rodata\n"
    ".balign 64\n"
    ".local tpt_kernel_image\n"
    "tpt_kernel_image:\n"
    ".incbin \"" TPT_KERNEL_IMAGE
    "\"\n"
    ".byte 0\n"
    ".text\n");
extern "C" const unsigned char tpt_kernel_image[];
#else
namespace {
const unsigned char tpt_kernel_image[64] = {};
}
#endif

namespace triplepoint::trainer::cuda {

const void* kernel_image() {
  return tpt_kernel_image;
}

bool has_kernel_image() {
#ifdef TPT_KERNEL_IMAGE
  return true;
#else
  return false;
#endif
}

}  // namespace triplepoint::trainer::cuda
