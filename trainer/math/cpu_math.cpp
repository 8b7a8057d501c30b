// SPDX-License-Identifier: Apache-2.0
#include "trainer/math/cpu_math.h"

#include <cblas.h>

namespace triplepoint::trainer {
namespace {

Math* new_widest() {
#ifdef TPT_X86_KERNELS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
    return new_cpu_math_avx512();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return new_cpu_math_avx2();
#endif
  return new_cpu_math_generic();
}

}  // namespace

std::unique_ptr<Math> make_cpu_math() {
  // A rank is one thread: more of them on the same cores make small products ten times slower.
  openblas_set_num_threads(1);
  return std::unique_ptr<Math>(new_widest());
}

}  // namespace triplepoint::trainer
