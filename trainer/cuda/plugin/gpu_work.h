// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/cuda/plugin/gpu.h"

namespace triplepoint::trainer::cuda {

/// A stream and who talks on it.
struct GpuChannel {
  Nccl nccl = nullptr;
  Stream stream = nullptr;
};
using ChannelAct = std::function<void(const GpuChannel&)>;

/// One collective or message: the events around it, and what must be done with its copy.
class GpuWork final : public PendingWork {
 public:
  GpuWork(Gpu& gpu, const GpuChannel& channel)
      : gpu_(gpu), channel_(channel), ready_(gpu.make_event()), over_(gpu.make_event()) {
    gpu_.libraries().check(gpu_.driver().record(ready_, gpu_.stream()), "record an event");
  }
  ~GpuWork() override {
    gpu_.driver().drop_event(ready_);
    gpu_.driver().drop_event(over_);
    for (const float* array : copies_)
      gpu_.arena().release(array);
  }
  GpuWork(const GpuWork&) = delete;
  GpuWork& operator=(const GpuWork&) = delete;
  GpuWork(GpuWork&&) = delete;
  GpuWork& operator=(GpuWork&&) = delete;

  void set_act(ChannelAct act) { act_ = std::move(act); }
  const GpuChannel& channel() const { return channel_; }
  void issue() {
    if (!act_) return;
    const ChannelAct act = std::exchange(act_, nullptr);
    check(gpu_.driver().stream_waits(channel_.stream, ready_, 0));
    act(channel_);
    check(gpu_.driver().record(over_, channel_.stream));
  }
  bool done() override {
    issue();
    if (copied_back_.there()) return false;  // wait() writes it
    const int result = gpu_.driver().query(over_);
    if (result != not_ready) check(result);
    return result == 0;
  }
  void wait() override {
    issue();
    check(gpu_.driver().stream_waits(gpu_.stream(), over_, 0));
    if (copied_back_.there())
      gpu_.each(gpu_.functions().Copy, Copy{travelled_, copied_back_, 0, 0}, 1, count_);
    copied_back_ = {};
  }
  /// A copy in bf16, which lives as long as this; filled before it travels, and copied back after.
  Array copy_of(const Array& array, int64_t count, bool written) {
    copies_.push_back(gpu_.allocate(count, true));
    const Array copy = gpu_.arena().at(copies_.back());
    gpu_.each(gpu_.functions().Copy, Copy{array, copy, 0, 0}, 1, count);
    gpu_.libraries().check(gpu_.driver().record(ready_, gpu_.stream()), "record an event");
    if (written) travelled_ = copy, copied_back_ = array, count_ = count;
    return copy;
  }

 private:
  void check(int result) const { gpu_.libraries().check(result, "order its streams"); }

  Gpu& gpu_;
  GpuChannel channel_;
  Event ready_, over_;
  ChannelAct act_;
  std::vector<float*> copies_;
  Array travelled_, copied_back_;
  int64_t count_ = 0;
};

}  // namespace triplepoint::trainer::cuda
