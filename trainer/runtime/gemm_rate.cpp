// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/gemm_rate.h"

#include <vector>

#include "triplepoint/mark/mark.h"

namespace triplepoint::trainer {

double measure_gemm_rate(Math& math, double seconds) {
  constexpr int64_t n = 512;
  std::vector<float> a(n * n, 0.5F), b(n * n, 0.25F), c(n * n);
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = n;
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.a_stride = gemm.b_stride = gemm.c_stride = n;
  math.gemm(gemm);  // brings the operands in
  const int64_t begin = triplepoint_now();
  double flops = 0, passed = 0;
  while (passed < seconds) {
    math.gemm(gemm);
    flops += 2.0 * n * n * n;
    passed = static_cast<double>(triplepoint_now() - begin) * 1e-9;
  }
  return flops / passed;
}

}  // namespace triplepoint::trainer
