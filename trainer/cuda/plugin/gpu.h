// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "trainer/cuda/api/driver.h"
#include "trainer/cuda/device.h"
#include "trainer/cuda/kernels/array.h"
#include "trainer/cuda/kernels/list.h"

namespace triplepoint::trainer::cuda {

/// What a library of the vendor's did not do. Ends the rank, as a lost peer does.
class CudaError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bytes of the compiled kernels in this plug-in; 0: it was built without nvcc.
uint64_t kernel_image_bytes();

/// The vendor's libraries, opened by name.
struct Libraries {
  Driver driver;
  BlasLibrary blas;
  NcclLibrary nccl;

  void check(int result, const char* what) const;       // of the driver
  void check_blas(int status, const char* what) const;  // of cuBLASLt
  void check_nccl(int result, const char* what) const;
};

/// `folder`: of all of them; empty: as the system finds them. NCCL only where it is wanted. Throws
/// CudaError with a sentence.
Libraries open_libraries(const std::string& folder, bool nccl);

/// All arrays of a device, in one block of its memory.
///
/// What it gives out are addresses of two windows that nothing lies behind: one in which a float is
/// four bytes of the block (exact), and one in which it is two (value, bf16). So the model counts
/// in floats whatever is stored, a number's place follows from its address alone, and who looks
/// into an array on the host stops there and then.
///
///   exact: block + (address - window)      value: block + (address - window) / 2
class Arena {
 public:
  Arena(char* block, int64_t bytes);  // block: of the device
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// Null where there is no room.
  float* allocate(int64_t count, bool bf16);
  void release(const float* address);
  bool holds(const void* address) const;
  /// The device's array behind an address; an absent one behind null.
  Array at(const float* address) const;

  int64_t bytes() const { return bytes_; }
  int64_t used() const { return used_; }

 private:
  bool in_values(const char* address) const;

  char* block_;
  int64_t bytes_, used_ = 0;
  char *exact_, *values_;             // windows
  std::map<int64_t, int64_t> free_;   // offset -> bytes
  std::map<int64_t, int64_t> taken_;  // the same
};

/// A context on one GPU: its kernels, its arrays, and the stream that everything is computed on.
class Gpu {
 public:
  Gpu(const DeviceSettings&, const Libraries&);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const Libraries& libraries() const { return libraries_; }
  const Driver& driver() const { return libraries_.driver; }
  const DeviceSettings& settings() const { return settings_; }
  Arena& arena() { return *arena_; }
  Stream stream() const { return stream_; }
  std::string text() const;

  float* allocate(int64_t count, bool bf16);  // throws CudaError where memory is full

  template <class Body>
  void each(Function function, const Body& body, int64_t rows, int64_t width) {
    if (rows <= 0 || width <= 0) return;
    Body parameters = body;
    Extent extent{rows, width};
    void* arguments[] = {&parameters, &extent};
    launch(function, element_grid(rows, width), element_threads, 0, arguments);
  }
  struct Grid {
    int64_t x = 1, y = 1, z = 1;
  };
  template <class Body>
  void blocks(Function function, const Body& body, Grid grid, int64_t memory = 0,
              int threads = row_threads) {
    if (grid.x <= 0 || grid.y <= 0 || grid.z <= 0) return;
    Body parameters = body;
    void* arguments[] = {&parameters};
    launch(function, grid, threads, memory, arguments);
  }

  /// Whole numbers for a kernel that is launched next.
  const int32_t* upload(const int32_t* numbers, int64_t count);
  /// Waits; throws CommError where other ranks take part and nothing has ended for too long.
  void finish(Stream);
  Event make_event() const;
  static GpuIdentity identify(const DeviceSettings&, const Libraries&);

#define TPT_FUNCTION(Body, ...) Function Body = nullptr;
  struct Functions {
    TPT_ELEMENTWISE_KERNELS(TPT_FUNCTION)
    TPT_BLOCK_KERNELS(TPT_FUNCTION)
  };
#undef TPT_FUNCTION
  const Functions& functions() const {
    return functions_;
  }

 private:
  static Grid element_grid(int64_t rows, int64_t width);
  void launch(Function, Grid, int threads, int64_t memory, void** arguments);
  void load_kernels();
  void make_ring(int64_t bytes);
  void mark_progress();
  bool has_progressed();

  Libraries libraries_;
  DeviceSettings settings_;
  int device_ = 0, multiprocessors_ = 0;
  std::string name_;
  Module module_ = nullptr;
  Functions functions_;
  Stream stream_ = nullptr;
  DevicePointer block_ = nullptr, ring_ = nullptr;
  std::unique_ptr<Arena> arena_;
  char* pinned_ = nullptr;  // the ring's other end
  int64_t ring_bytes_ = 0, ring_at_ = 0;
  int64_t launches_ = 0;
  std::deque<Event> marks_, spare_marks_;  // on the stream, in order; not in use
};

}  // namespace triplepoint::trainer::cuda
