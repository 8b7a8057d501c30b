// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// What is called of CUDA's driver, cuBLASLt and NCCL, declared here so that neither their headers
/// nor their libraries are needed to build: all are opened at run time. Where the headers are
/// there, check_declarations.cpp compares. Each list: field, name in the library, signature.
namespace triplepoint::trainer::cuda {

using DevicePointer = void*;  // CUdeviceptr: a whole number of the same size
struct StreamOf;
struct EventOf;
struct ModuleOf;
struct FunctionOf;
struct ContextOf;
struct GraphOf;
struct GraphExecOf;
struct GpuUuid {  // CUuuid
  char bytes[16];
};
using Stream = StreamOf*;
using Event = EventOf*;
using Module = ModuleOf*;
using Function = FunctionOf*;
using Context = ContextOf*;
using Graph = GraphOf*;
using GraphExec = GraphExecOf*;

inline constexpr int not_ready = 600;               // CUDA_ERROR_NOT_READY
inline constexpr int out_of_memory = 2;             // CUDA_ERROR_OUT_OF_MEMORY
inline constexpr int no_device = 100;               // CUDA_ERROR_NO_DEVICE
inline constexpr int system_not_ready = 802;        // CUDA_ERROR_SYSTEM_NOT_READY
inline constexpr int system_driver_mismatch = 803;  // CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
inline constexpr unsigned non_blocking = 1;         // CU_STREAM_NON_BLOCKING
inline constexpr unsigned disable_timing = 2;       // CU_EVENT_DISABLE_TIMING
inline constexpr int multiprocessor_count = 16;     // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int capability_major = 75, capability_minor = 76;  // ..._COMPUTE_CAPABILITY_
inline constexpr int shared_memory_per_block = 97;  // ..._MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
inline constexpr int max_dynamic_shared = 8;    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
inline constexpr int capture_thread_local = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

#define TPT_DRIVER_CALLS(X)                                                                     \
  X(init, cuInit, int(unsigned))                                                                \
  X(error_text, cuGetErrorString, int(int, const char**))                                       \
  X(device_count, cuDeviceGetCount, int(int*))                                                  \
  X(device, cuDeviceGet, int(int*, int))                                                        \
  X(driver_version, cuDriverGetVersion, int(int*))                                              \
  X(device_uuid, cuDeviceGetUuid_v2, int(GpuUuid*, int))                                        \
  X(device_name, cuDeviceGetName, int(char*, int, int))                                         \
  X(device_memory, cuDeviceTotalMem_v2, int(size_t*, int))                                      \
  X(device_attribute, cuDeviceGetAttribute, int(int*, int, int))                                \
  X(retain_context, cuDevicePrimaryCtxRetain, int(Context*, int))                               \
  X(release_context, cuDevicePrimaryCtxRelease_v2, int(int))                                    \
  X(set_context, cuCtxSetCurrent, int(Context))                                                 \
  X(memory_info, cuMemGetInfo_v2, int(size_t*, size_t*))                                        \
  X(allocate, cuMemAlloc_v2, int(DevicePointer*, size_t))                                       \
  X(release, cuMemFree_v2, int(DevicePointer))                                                  \
  X(allocate_host, cuMemAllocHost_v2, int(void**, size_t))                                      \
  X(release_host, cuMemFreeHost, int(void*))                                                    \
  X(to_device, cuMemcpyHtoDAsync_v2, int(DevicePointer, const void*, size_t, Stream))           \
  X(to_host, cuMemcpyDtoHAsync_v2, int(void*, DevicePointer, size_t, Stream))                   \
  X(copy, cuMemcpyDtoDAsync_v2, int(DevicePointer, DevicePointer, size_t, Stream))              \
  X(fill, cuMemsetD8Async, int(DevicePointer, unsigned char, size_t, Stream))                   \
  X(make_stream, cuStreamCreate, int(Stream*, unsigned))                                        \
  X(drop_stream, cuStreamDestroy_v2, int(Stream))                                               \
  X(finish_stream, cuStreamSynchronize, int(Stream))                                            \
  X(query_stream, cuStreamQuery, int(Stream))                                                   \
  X(stream_waits, cuStreamWaitEvent, int(Stream, Event, unsigned))                              \
  X(make_event, cuEventCreate, int(Event*, unsigned))                                           \
  X(record, cuEventRecord, int(Event, Stream))                                                  \
  X(query, cuEventQuery, int(Event))                                                            \
  X(drop_event, cuEventDestroy_v2, int(Event))                                                  \
  X(elapsed, cuEventElapsedTime, int(float*, Event, Event))                                     \
  X(load_module, cuModuleLoadData, int(Module*, const void*))                                   \
  X(unload_module, cuModuleUnload, int(Module))                                                 \
  X(function, cuModuleGetFunction, int(Function*, Module, const char*))                         \
  X(set_attribute, cuFuncSetAttribute, int(Function, int, int))                                 \
  X(launch, cuLaunchKernel,                                                                     \
    int(Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
        void**, void**))                                                                        \
  X(begin_capture, cuStreamBeginCapture_v2, int(Stream, int))                                   \
  X(end_capture, cuStreamEndCapture, int(Stream, Graph*))                                       \
  X(instantiate, cuGraphInstantiateWithFlags, int(GraphExec*, Graph, unsigned long long))       \
  X(play_graph, cuGraphLaunch, int(GraphExec, Stream))                                          \
  X(drop_graph, cuGraphDestroy, int(Graph))                                                     \
  X(drop_graph_exec, cuGraphExecDestroy, int(GraphExec))

struct BlasOf;
struct MatmulOf;
struct LayoutOf;
struct PreferenceOf;
using Blas = BlasOf*;
using Matmul = MatmulOf*;
using Layout = LayoutOf*;
using Preference = PreferenceOf*;

struct MatmulAlgorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct MatmulChoice {
  MatmulAlgorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

inline constexpr int type_fp32 = 0, type_bf16 = 14;  // CUDA_R_32F, CUDA_R_16BF
inline constexpr int compute_fp32 = 68;              // CUBLAS_COMPUTE_32F
inline constexpr int compute_tf32 = 77;              // CUBLAS_COMPUTE_32F_FAST_TF32
inline constexpr int matmul_transposes_a = 3, matmul_transposes_b = 4;  // CUBLASLT_MATMUL_DESC_
inline constexpr int transposed = 1;                                    // CUBLAS_OP_T
inline constexpr int most_workspace = 1;                                // CUBLASLT_MATMUL_PREF_
inline constexpr int alignment_a = 5, alignment_b = 6, alignment_c = 7, alignment_d = 8;
inline constexpr int batch_count = 5, batch_stride = 6;  // CUBLASLT_MATRIX_LAYOUT_

#define TPT_BLAS_CALLS(X)                                                                    \
  X(make, cublasLtCreate, int(Blas*))                                                        \
  X(drop, cublasLtDestroy, int(Blas))                                                        \
  X(status_text, cublasLtGetStatusString, const char*(int))                                  \
  X(make_matmul, cublasLtMatmulDescCreate, int(Matmul*, int, int))                           \
  X(drop_matmul, cublasLtMatmulDescDestroy, int(Matmul))                                     \
  X(set_matmul, cublasLtMatmulDescSetAttribute, int(Matmul, int, const void*, size_t))       \
  X(make_layout, cublasLtMatrixLayoutCreate, int(Layout*, int, uint64_t, uint64_t, int64_t)) \
  X(drop_layout, cublasLtMatrixLayoutDestroy, int(Layout))                                   \
  X(set_layout, cublasLtMatrixLayoutSetAttribute, int(Layout, int, const void*, size_t))     \
  X(make_preference, cublasLtMatmulPreferenceCreate, int(Preference*))                       \
  X(drop_preference, cublasLtMatmulPreferenceDestroy, int(Preference))                       \
  X(set_preference, cublasLtMatmulPreferenceSetAttribute,                                    \
    int(Preference, int, const void*, size_t))                                               \
  X(choose, cublasLtMatmulAlgoGetHeuristic,                                                  \
    int(Blas, Matmul, Layout, Layout, Layout, Layout, Preference, int, MatmulChoice*, int*)) \
  X(multiply, cublasLtMatmul,                                                                \
    int(Blas, Matmul, const void*, const void*, Layout, const void*, Layout, const void*,    \
        const void*, Layout, void*, Layout, const MatmulAlgorithm*, void*, size_t, Stream))

struct NcclOf;
using Nccl = NcclOf*;
struct NcclId {
  char bytes[128];
};
inline constexpr int nccl_int8 = 0, nccl_fp32 = 7, nccl_bf16 = 9;  // ncclDataType_t
inline constexpr int nccl_sum = 0, nccl_maximum = 2;               // ncclRedOp_t
inline constexpr int nccl_in_progress = 7;                         // ncclInProgress

#define TPT_NCCL_CALLS(X)                                                                       \
  X(version, ncclGetVersion, int(int*))                                                         \
  X(error_text, ncclGetErrorString, const char*(int))                                           \
  X(make_id, ncclGetUniqueId, int(NcclId*))                                                     \
  X(join, ncclCommInitRank, int(Nccl*, int, NcclId, int))                                       \
  X(leave, ncclCommDestroy, int(Nccl))                                                          \
  X(give_up, ncclCommAbort, int(Nccl))                                                          \
  X(state, ncclCommGetAsyncError, int(Nccl, int*))                                              \
  X(begin, ncclGroupStart, int())                                                               \
  X(end, ncclGroupEnd, int())                                                                   \
  X(all_reduce, ncclAllReduce, int(const void*, void*, size_t, int, int, Nccl, Stream))         \
  X(all_gather, ncclAllGather, int(const void*, void*, size_t, int, Nccl, Stream))              \
  X(reduce_scatter, ncclReduceScatter, int(const void*, void*, size_t, int, int, Nccl, Stream)) \
  X(reduce, ncclReduce, int(const void*, void*, size_t, int, int, int, Nccl, Stream))           \
  X(broadcast, ncclBroadcast, int(const void*, void*, size_t, int, int, Nccl, Stream))          \
  X(send, ncclSend, int(const void*, size_t, int, int, Nccl, Stream))                           \
  X(receive, ncclRecv, int(void*, size_t, int, int, Nccl, Stream))

namespace detail {
template <class Signature>
struct PointerTo;
template <class Result, class... Arguments>
struct PointerTo<Result(Arguments...)> {
  using Type = Result (*)(Arguments...);
};
}  // namespace detail

#define TPT_FIELD(field, name, ...) detail::PointerTo<__VA_ARGS__>::Type field = nullptr;
struct Driver {
  TPT_DRIVER_CALLS(TPT_FIELD)
};
struct BlasLibrary {
  TPT_BLAS_CALLS(TPT_FIELD)
};
struct NcclLibrary {
  TPT_NCCL_CALLS(TPT_FIELD)
};
#undef TPT_FIELD

}  // namespace triplepoint::trainer::cuda
