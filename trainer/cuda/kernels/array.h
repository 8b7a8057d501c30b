// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/math/functors.h"
#include "trainer/math/math.h"

// What kernels are written with. One source for nvcc and for the host's compiler, which runs a
// block's threads one after the other: that is what tests run.
namespace triplepoint::trainer::cuda {

/// Numbers of a device: fp32, or bf16 that are read and written as floats.
struct Array {
  void* data = nullptr;
  int64_t bf16 = 0;

  TPT_HOST_DEVICE bool there() const { return data != nullptr; }
  TPT_HOST_DEVICE float operator[](int64_t i) const {
    if (bf16 != 0) return float_of(static_cast<uint32_t>(static_cast<uint16_t*>(data)[i]) << 16U);
    return static_cast<float*>(data)[i];
  }
  TPT_HOST_DEVICE void put(int64_t i, float x) const {
    if (bf16 != 0)
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits_of(round_to_bf16(x)) >> 16U);
    else
      static_cast<float*>(data)[i] = x;
  }
  TPT_HOST_DEVICE void add(int64_t i, float x) const { put(i, (*this)[i] + x); }
  TPT_HOST_DEVICE Array from(int64_t i) const {
    return {static_cast<char*>(data) + i * (bf16 != 0 ? 2 : 4), bf16};
  }
};

TPT_HOST_DEVICE inline float largest_of(float a, float b) {
  return a > b ? a : b;
}

#if defined(__CUDACC__)

extern __shared__ float block_memory[];

/// The threads of a block, in phases: `each` lets all do something and then waits for all.
template <int thread_count>
struct Block {
  static constexpr int threads = thread_count;
  /// A number of each thread's own that outlives a phase.
  template <class T>
  struct PerThread {
    T mine;
    __device__ T& operator[](int) { return mine; }
  };

  __device__ int64_t index() const { return blockIdx.x; }
  __device__ int64_t second_index() const { return blockIdx.y; }
  __device__ int64_t third_index() const { return blockIdx.z; }
  __device__ float* memory() const { return block_memory; }
  template <class Body>
  __device__ void each(const Body& body) const {
    body(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  template <class T, class Combine>
  __device__ T combined(PerThread<T>& own, const Combine& combine) const {
    __shared__ T partial[32];
    T x = own.mine;
    for (int distance = 16; distance > 0; distance /= 2)
      x = combine(x, __shfl_xor_sync(0xffffffffU, x, distance));
    __syncthreads();  // of an earlier use
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
    __syncthreads();
    T all = partial[0];
    for (int warp = 1; warp < threads / 32; ++warp)
      all = combine(all, partial[warp]);
    return all;
  }
  template <class T>
  __device__ T sum(PerThread<T>& own) const {
    return combined(own, [](T a, T b) { return a + b; });
  }
  __device__ float maximum(PerThread<float>& own) const {
    return combined(own, [](float a, float b) { return largest_of(a, b); });
  }
};

#else

template <int thread_count>
struct Block {
  static constexpr int threads = thread_count;
  template <class T>
  struct PerThread {
    T all[thread_count];
    T& operator[](int thread) { return all[thread]; }
  };

  int64_t place[3] = {0, 0, 0};
  float* shared = nullptr;

  int64_t index() const { return place[0]; }
  int64_t second_index() const { return place[1]; }
  int64_t third_index() const { return place[2]; }
  float* memory() const { return shared; }
  template <class Body>
  void each(const Body& body) const {
    for (int thread = 0; thread < thread_count; ++thread)
      body(thread);
  }
  /// In the order of the device: within warps by halves, then warp after warp.
  template <class T, class Combine>
  T combined(PerThread<T>& own, const Combine& combine) const {
    T all{};
    for (int warp = 0; warp < thread_count / 32; ++warp) {
      T x[32];
      for (int lane = 0; lane < 32; ++lane)
        x[lane] = own.all[warp * 32 + lane];
      for (int distance = 16; distance > 0; distance /= 2)
        for (int lane = 0; lane < distance; ++lane)
          x[lane] = combine(x[lane], x[lane + distance]);
      all = warp == 0 ? x[0] : combine(all, x[0]);
    }
    return all;
  }
  template <class T>
  T sum(PerThread<T>& own) const {
    return combined(own, [](T a, T b) { return a + b; });
  }
  float maximum(PerThread<float>& own) const {
    return combined(own, [](float a, float b) { return largest_of(a, b); });
  }
};

#endif

}  // namespace triplepoint::trainer::cuda
