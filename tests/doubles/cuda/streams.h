// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

/// Streams and events of a GPU that is not there: a thread per stream runs what was given to it,
/// in order and later than it was asked, as a device does.
namespace triplepoint::trainer::cuda_double {

using Act = std::function<void()>;

class EventState {
 public:
  uint64_t begin_record();
  void complete(uint64_t record);
  void wait(uint64_t record);
  uint64_t recorded();
  bool is_over(uint64_t record);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t recorded_ = 0, completed_ = 0;
};

class StreamState {
 public:
  StreamState();
  ~StreamState();
  StreamState(const StreamState&) = delete;
  StreamState& operator=(const StreamState&) = delete;

  void give(Act act);  // or keeps it, while a graph is captured
  bool idle();
  void finish();
  void begin_capture();
  std::vector<Act> end_capture();

 private:
  void play();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Act> queue_;
  std::vector<Act> captured_;
  bool busy_ = false, stop_ = false, captures_ = false;
  std::thread thread_;
};

/// A kernel by name, bound to copies of its arguments; empty where none is called so.
struct LaunchShape {
  unsigned grid[3], threads, memory;
};
using Bind = Act (*)(const LaunchShape&, void** arguments);
Bind find_kernel(const char* name);

}  // namespace triplepoint::trainer::cuda_double
