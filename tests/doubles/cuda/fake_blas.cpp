// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, on host memory: products by columns, as plainly as may be, with the checks that the
// real one makes of its descriptions.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/doubles/cuda/settings.h"
#include "tests/doubles/cuda/streams.h"
#include "trainer/cuda/api/driver.h"
#include "trainer/cuda/kernels/array.h"

using namespace triplepoint::trainer::cuda;
using triplepoint::trainer::cuda_double::Act;

#define TPT_EXPORTED extern "C" __attribute__((visibility("default")))

void give_to_stream(Stream stream, Act act);
TPT_EXPORTED triplepoint::trainer::cuda_double::Settings* fake_cuda_settings();

namespace triplepoint::trainer::cuda {
struct MatmulOf {
  int32_t transposes[2] = {0, 0};
};
struct LayoutOf {
  int type;
  int64_t rows, columns, stride;  // by columns
  int32_t copies = 1;
  int64_t step = 0;
};
struct PreferenceOf {
  uint32_t alignments[4] = {0, 0, 0, 0};
};
}  // namespace triplepoint::trainer::cuda

namespace {

constexpr int invalid_value = 7, not_supported = 15;
constexpr int number_at = 4;  // of an algorithm, which number it is

Array array_of(const void* data, const LayoutOf& layout) {
  return {const_cast<void*>(data), layout.type == type_bf16 ? 1 : 0};
}

/// op(matrix) by rows.
std::vector<float> packed(const Array& x, const LayoutOf& layout, bool is_transposed) {
  const int64_t rows = is_transposed ? layout.columns : layout.rows;
  const int64_t columns = is_transposed ? layout.rows : layout.columns;
  std::vector<float> all(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      all[static_cast<size_t>(i * columns + j)] =
          is_transposed ? x[i * layout.stride + j] : x[j * layout.stride + i];
  return all;
}

struct Product {
  MatmulOf how;
  LayoutOf a, b, c;
  Array a_data, b_data, c_data;
  float alpha, beta;

  void operator()() const {
    for (int32_t i = 0; i < c.copies; ++i) {
      Product one = *this;
      one.a_data = a_data.from(i * a.step);
      one.b_data = b_data.from(i * b.step);
      one.c_data = c_data.from(i * c.step);
      one.multiply();
    }
  }
  void multiply() const {
    const auto left = packed(a_data, a, how.transposes[0] != 0);
    const auto right = packed(b_data, b, how.transposes[1] != 0);
    const int64_t m = c.rows, n = c.columns, k = how.transposes[0] != 0 ? a.rows : a.columns;
    std::vector<float> row(static_cast<size_t>(n));
    for (int64_t i = 0; i < m; ++i) {
      std::fill(row.begin(), row.end(), 0.0F);
      for (int64_t p = 0; p < k; ++p) {
        const float factor = left[static_cast<size_t>(i * k + p)];
        const float* from = right.data() + p * n;
        for (int64_t j = 0; j < n; ++j)
          row[static_cast<size_t>(j)] += factor * from[j];
      }
      for (int64_t j = 0; j < n; ++j) {
        const int64_t at = j * c.stride + i;
        const float old = beta != 0 ? beta * c_data[at] : 0.0F;  // what is there may be no number
        c_data.put(at, alpha * row[static_cast<size_t>(j)] + old);
      }
    }
  }
};

bool fits(const MatmulOf& how, const LayoutOf& a, const LayoutOf& b, const LayoutOf& c) {
  const bool at = how.transposes[0] != 0, bt = how.transposes[1] != 0;
  const bool sizes = (at ? a.columns : a.rows) == c.rows &&
                     (bt ? b.rows : b.columns) == c.columns &&
                     (at ? a.rows : a.columns) == (bt ? b.columns : b.rows);
  const bool strides = a.stride >= a.rows && b.stride >= b.rows && c.stride >= c.rows;
  const bool types = a.type == b.type && (a.type == type_bf16 || c.type == type_fp32);
  const bool copies = a.copies == c.copies && b.copies == c.copies;
  return sizes && strides && types && copies && (c.copies == 1 || c.step != 0);
}

}  // namespace

TPT_EXPORTED int cublasLtCreate(Blas* blas) {
  static char one = 0;
  *blas = reinterpret_cast<Blas>(&one);
  return 0;
}
TPT_EXPORTED int cublasLtDestroy(Blas) {
  return 0;
}
TPT_EXPORTED const char* cublasLtGetStatusString(int status) {
  return status == not_supported ? "not supported" : "invalid value";
}
TPT_EXPORTED int cublasLtMatmulDescCreate(Matmul* matmul, int compute, int scale) {
  *matmul = new MatmulOf;
  return (compute == compute_fp32 || compute == compute_tf32) && scale == type_fp32 ? 0
                                                                                    : invalid_value;
}
TPT_EXPORTED int cublasLtMatmulDescDestroy(Matmul matmul) {
  delete matmul;
  return 0;
}
TPT_EXPORTED int cublasLtMatmulDescSetAttribute(Matmul matmul, int attribute, const void* value,
                                                size_t size) {
  if (size != 4 || attribute < matmul_transposes_a || attribute > matmul_transposes_b)
    return invalid_value;
  std::memcpy(&matmul->transposes[attribute - matmul_transposes_a], value, size);
  return 0;
}
TPT_EXPORTED int cublasLtMatrixLayoutCreate(Layout* layout, int type, uint64_t rows,
                                            uint64_t columns, int64_t stride) {
  *layout =
      new LayoutOf{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), stride, 1, 0};
  return 0;
}
TPT_EXPORTED int cublasLtMatrixLayoutDestroy(Layout layout) {
  delete layout;
  return 0;
}
TPT_EXPORTED int cublasLtMatrixLayoutSetAttribute(Layout layout, int attribute, const void* value,
                                                  size_t size) {
  if (attribute == batch_count && size == 4) return std::memcpy(&layout->copies, value, 4), 0;
  if (attribute == batch_stride && size == 8) return std::memcpy(&layout->step, value, 8), 0;
  return invalid_value;
}
TPT_EXPORTED int cublasLtMatmulPreferenceCreate(Preference* preference) {
  *preference = new PreferenceOf;
  return 0;
}
TPT_EXPORTED int cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete preference;
  return 0;
}
TPT_EXPORTED int cublasLtMatmulPreferenceSetAttribute(Preference preference, int attribute,
                                                      const void* value, size_t size) {
  if (attribute == most_workspace) return size == sizeof(size_t) ? 0 : invalid_value;
  if (size != 4 || attribute < alignment_a || attribute > alignment_d) return invalid_value;
  std::memcpy(&preference->alignments[attribute - alignment_a], value, size);
  return 0;
}
TPT_EXPORTED int cublasLtMatmulAlgoGetHeuristic(Blas, Matmul matmul, Layout a, Layout b, Layout c,
                                                Layout, Preference preference, int most,
                                                MatmulChoice* choices, int* found) {
  *found = 0;
  if (!fits(*matmul, *a, *b, *c)) return not_supported;
  *found = std::min<int>(most, fake_cuda_settings()->algorithms);
  for (int i = 0; i < *found; ++i) {
    choices[i] = {};
    std::memcpy(choices[i].algorithm.data, preference->alignments, sizeof preference->alignments);
    choices[i].algorithm.data[number_at] = static_cast<uint64_t>(i);
  }
  return 0;
}
TPT_EXPORTED size_t cublasLtGetCudartVersion() {
  return static_cast<size_t>(fake_cuda_settings()->cublas_runtime);
}
TPT_EXPORTED int cublasLtMatmul(Blas, Matmul matmul, const void* alpha, const void* a,
                                Layout a_layout, const void* b, Layout b_layout, const void* beta,
                                const void* c, Layout c_layout, void* d, Layout d_layout,
                                const MatmulAlgorithm* algorithm, void* workspace, size_t,
                                Stream stream) {
  auto& settings = *fake_cuda_settings();
  if (algorithm->data[number_at] < static_cast<uint64_t>(settings.broken_algorithms))
    return not_supported;
  ++settings.products;
  uint32_t promised[4];
  std::memcpy(promised, algorithm->data, sizeof promised);
  const void* given[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (promised[i] == 0 || reinterpret_cast<uintptr_t>(given[i]) % promised[i] != 0)
      return invalid_value;
  if (c != d || c_layout != d_layout || workspace == nullptr) return not_supported;
  if (!fits(*matmul, *a_layout, *b_layout, *c_layout)) return invalid_value;
  give_to_stream(stream,
                 Product{*matmul, *a_layout, *b_layout, *c_layout, array_of(a, *a_layout),
                         array_of(b, *b_layout), array_of(d, *d_layout),
                         *static_cast<const float*>(alpha), *static_cast<const float*>(beta)});
  return 0;
}
