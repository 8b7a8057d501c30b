// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/cuda/kernels/list.h"
#include "trainer/cuda/plugin/arena.h"
#include "trainer/cuda/plugin/libraries.h"

namespace triplepoint::trainer::cuda {

/// Bytes of the compiled kernels in this plug-in; 0: it was built without nvcc.
uint64_t kernel_image_bytes();

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
  /// A sentence for the user that is no error.
  void remark(const std::string& text) const {
    if (settings_.remark) settings_.remark(text);
  }
  Arena& arena() { return *arena_; }  // of what allocate() has returned
  bool holds(const void* address) const { return arena_ && arena_->holds(address); }
  Stream stream() const { return stream_; }
  Context context() const { return context_; }  // for other threads than the rank's
  std::string text() const;

  /// Throws CudaError where memory is full. The first call takes the block of all arrays, so that
  /// what libraries allocate before (communicators, workspaces) is not missing afterwards.
  float* allocate(int64_t count, bool bf16);
  /// The block's size, or what it would be now.
  int64_t bytes_for_arrays() const;
  int64_t shared_bytes() const { return shared_bytes_; }  // that a block of threads can have

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
  /// Called whenever the host is about to wait for the GPU.
  void before_waiting(std::function<void()> act) { before_waiting_ = std::move(act); }
  /// Waits for what was computed, then copies it to the host. The stream writes memory of the Gpu
  /// only, so that a wait that throws leaves no copy into the caller's memory under way.
  void fetch(void* host, const void* place, int64_t bytes);
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
  void take_block();
  void make_ring(int64_t bytes);
  void mark_progress();
  bool has_progressed();

  Libraries libraries_;
  DeviceSettings settings_;
  int device_ = 0, multiprocessors_ = 0, shared_bytes_ = 0;
  std::string name_;
  Context context_ = nullptr;
  Module module_ = nullptr;
  Functions functions_;
  Stream stream_ = nullptr;
  DevicePointer block_ = nullptr, ring_ = nullptr;
  std::unique_ptr<Arena> arena_;
  char* pinned_ = nullptr;   // the ring's other end
  void* fetched_ = nullptr;  // pinned: where copies to the host arrive
  std::function<void()> before_waiting_;
  int64_t ring_bytes_ = 0, ring_at_ = 0;
  int64_t launches_ = 0;
  std::deque<Event> marks_, spare_marks_;  // on the stream, in order; not in use
};

}  // namespace triplepoint::trainer::cuda
