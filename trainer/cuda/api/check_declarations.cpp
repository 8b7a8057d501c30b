// SPDX-License-Identifier: Apache-2.0
// Compiled only where NVIDIA's headers are: that what driver.h declares is what they declare. Types
// are told apart as far as a call can tell them: by number and size of arguments, and pointers.
#include <type_traits>

#include <cublasLt.h>
#include <cuda.h>
#include <nccl.h>

#include "trainer/cuda/api/driver.h"

namespace triplepoint::trainer::cuda {
namespace {

template <class A, class B>
constexpr bool alike =
    (std::is_pointer_v<A> == std::is_pointer_v<B> || std::is_same_v<B, CUdeviceptr>)&&(
        std::is_same_v<A, void> ? std::is_same_v<B, void>
                                : sizeof(std::conditional_t<std::is_void_v<A>, int, A>) ==
                                      sizeof(std::conditional_t<std::is_void_v<B>, int, B>));

template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class R, class... A, class S, class... B>
struct SameCall<R(A...), S(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) != sizeof...(B))
      return false;
    else
      return alike<R, S> && (alike<A, B> && ...);
  }();
};

#define TPT_CHECK(field, name, ...) \
  static_assert(SameCall<__VA_ARGS__, decltype(::name)>::value, #name);
TPT_DRIVER_CALLS(TPT_CHECK)
TPT_BLAS_CALLS(TPT_CHECK)
TPT_NCCL_CALLS(TPT_CHECK)
#undef TPT_CHECK

static_assert(not_ready == CUDA_ERROR_NOT_READY && out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(no_device == CUDA_ERROR_NO_DEVICE &&
              system_not_ready == CUDA_ERROR_SYSTEM_NOT_READY &&
              system_driver_mismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(non_blocking == CU_STREAM_NON_BLOCKING && disable_timing == CU_EVENT_DISABLE_TIMING);
static_assert(multiprocessor_count == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              capability_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(shared_memory_per_block == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(max_dynamic_shared == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(capture_thread_local == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(sizeof(MatmulChoice) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(sizeof(MatmulAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(offsetof(MatmulChoice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
static_assert(offsetof(MatmulChoice, workspace) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(type_fp32 == CUDA_R_32F && type_bf16 == CUDA_R_16BF && transposed == CUBLAS_OP_T);
static_assert(compute_fp32 == CUBLAS_COMPUTE_32F && compute_tf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(matmul_transposes_a == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(matmul_transposes_b == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(most_workspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(alignment_a == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              alignment_d == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(batch_count == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              batch_stride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(nccl_int8 == ncclInt8 && nccl_fp32 == ncclFloat32 && nccl_bf16 == ncclBfloat16);
static_assert(nccl_sum == ncclSum && nccl_maximum == ncclMax);
static_assert(nccl_in_progress == ncclInProgress);

}  // namespace
}  // namespace triplepoint::trainer::cuda
