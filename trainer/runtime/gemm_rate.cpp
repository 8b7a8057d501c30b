// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/gemm_rate.h"

#include <vector>

#include "triplepoint/mark/mark.h"

namespace triplepoint::trainer {

double measure_gemm_rate(Math& math, double seconds) {
  const int64_t n = math.on_host() ? 512 : 8192;
  MathArray a(math, Storage::value, n * n), b(math, Storage::value, n * n),
      c(math, Storage::value, n * n);
  const std::vector<float> numbers(static_cast<size_t>(n * n), 0.5F);
  math.put(n * n, numbers.data(), a.data());
  math.put(n * n, numbers.data(), b.data());
  Gemm gemm;
  gemm.m = gemm.n = gemm.k = n;
  gemm.a = a.data();
  gemm.b = b.data();
  gemm.c = c.data();
  gemm.a_stride = gemm.b_stride = gemm.c_stride = n;
  math.gemm(gemm);  // brings the operands in
  math.finish();
  const int64_t begin = triplepoint_now();
  double flops = 0, passed = 0;
  while (passed < seconds) {
    math.gemm(gemm);
    math.finish();
    flops += 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    passed = static_cast<double>(triplepoint_now() - begin) * 1e-9;
  }
  return flops / passed;
}

}  // namespace triplepoint::trainer
