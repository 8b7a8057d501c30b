// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/gpu.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/calibrate/kernel_benchmark.h"
#include "triplepoint/calibrate/kernel_rows.h"

namespace triplepoint::calibrate {

/// How far predictions are from the rows of one class, in percent of the measured time.
struct Residuals {
  int64_t rows = 0;
  double median_pct = 0, p90_pct = 0;
  friend bool operator==(const Residuals&, const Residuals&) = default;
};

struct FittedNumber {
  std::string key;  // of [kernels], or of the benchmark
  double value = 0;
  bool is_time_us = false;  // written as "2.7 us"
  bool on_bound = false;
  friend bool operator==(const FittedNumber&, const FittedNumber&) = default;
};

/// What one class of kernels of one GPU says: numbers, and how well they do on rows which they have
/// not seen (5 folds over shapes), and how well without any row of this GPU.
struct ClassFit {
  std::string
      name;  // "gemm_16bit", "attention_forward", "attention_backward", "cast torch_flow fp8"
  std::vector<FittedNumber> numbers;
  int64_t rows = 0;
  Residuals large, small;                        // 100 us and more; less
  Residuals held_out_large, held_out_small;      // by shape, in five folds
  Residuals other_gpus_large, other_gpus_small;  // with the mean numbers of the other fitted GPUs
};

struct KernelFit {
  std::string gpu;
  std::vector<ClassFit> classes;
  spec::KernelCoefficients kernels;  // the library's, with the fitted numbers in their places
};

/// Fits the kernel coefficients of a GPU to the rows that are about it.
///
///   minimize  sum_rows w c(|ln(predicted / measured)|),   w: all libraries count alike
///   c(e) = e;   products that were looped:  0.04 ln(1 + e / 0.04), for some multiply zeros
///
/// Classes: 16-bit products (peak share, half k, half tile, wave quantization, start), attention
/// forward (share, half length, half head dimension, wave quantization, start) and backward
/// (share), and per library the quantized products (share, cast). Rows that say little are left
/// out: k or n above 32768 (tables of weights that were never written hold zeros: less power, more
/// speed), best shapes of sweeps. A class with fewer than 12 rows stays as it is. Deterministic;
/// downhill simplex (kernel_simplex.h). Errors: a GPU without rows or coefficients.
Result<KernelFit> fit_kernels(const std::vector<KernelRow>&, const spec::Library&,
                              const std::string& gpu);

/// The whole kernels.toml: fitted numbers with their residuals as source, all others as they were,
/// and the record of the fit in [fit].
Result<std::string> kernels_toml(const KernelFit&, const spec::Library&, const std::string& tables);

/// A GPU without a table of its own takes the numbers that were fitted on its nearest relative.
struct Sibling {
  std::string gpu, like;
  double peak_share = 1;  // on shares of a peak: what the relative's rate is of this GPU's peak
  std::string reason;     // "the same die"
  std::vector<std::string> keep;  // keys of its own: "attention_half_head_dim"
};

/// The whole kernels.toml of such a GPU: keys that a fit wrote into the relative's file, with their
/// shares of a peak scaled; all others as they were.
Result<std::string> sibling_toml(const Sibling&, const spec::Library&);

}  // namespace triplepoint::calibrate
