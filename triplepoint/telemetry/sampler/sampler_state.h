// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/telemetry/sampler/sampling_plan.h"
#include "triplepoint/telemetry/sampler/sensor_round.h"

/// Inside of the sampler: what its threads share.
namespace triplepoint::telemetry {

/// The sampler's own series, behind those of the sensors it begins with.
enum OwnChannel { cpu_s, late_s, lost_ticks, call_s, num_own_channels };

/// One sensor with the readings that were last seen of it, and what its thread is at.
struct SensorThread {
  SensorThread(std::unique_ptr<Sensor> sensor, int32_t first_channel_of_it);

  SensorRound round;
  const int32_t first_channel;
  std::string name;              // "GPU 3 (0000:1d:00.0)", "proc"
  std::vector<int32_t> devices;  // of the sampler
  // By the thread:
  int64_t next_slow_ns = 0, next_listing_ns = 0, listing_wait_ns = 1'000'000'000;
  // By the state's mutex:
  int64_t call_began_ns = 0;    // 0: no call is under way
  int64_t watched_call_ns = 0;  // the call that the last look found under way
  int64_t overdue_ns = 0;       // the begin of the last call that was reported as overdue
  bool ended = false;
  int64_t served = 0;                        // requests
  double cpu_s = 0, late_s = 0, call_s = 0;  // all of its time; of the last tick

  /// A call of it is under way for so long that no other thread waits for it.
  bool is_stuck(int64_t now_ns) const;
};

/// Held by the sampler and by every thread: one that never returns from a call keeps it alive.
struct SamplerState : std::enable_shared_from_this<SamplerState> {
  explicit SamplerState(const SamplingPlan& wanted) : plan(wanted) {}

  const SamplingPlan plan;
  // Only by the thread that owns the sampler:
  std::vector<run::Device> devices, silent;
  std::vector<run::SeriesSource> channels;
  std::vector<Gap> gaps;
  bool started = false, on_request = false;
  // Set before the first thread starts:
  int64_t begin_ns = 0;
  int32_t first_own = 0;  // channel

  std::mutex mutex;
  std::condition_variable wake, changed;  // of the threads; of those who wait for them
  bool stopping = false, watch_ended = false;
  int64_t requested = 0;
  bool request_slow = false;
  std::vector<std::shared_ptr<SensorThread>> threads;
  std::vector<Sample> waiting;
  std::vector<std::string> troubles;
  std::vector<std::optional<Seconds>> periods;
  std::map<int32_t, std::vector<int64_t>> processes;  // by device
  double watch_cpu_s = 0;
  SamplerCost cost;

  std::vector<std::shared_ptr<SensorThread>> adopt(std::vector<std::unique_ptr<Sensor>> sensors);
  int32_t index_of(run::Device device);
  void start(const std::shared_ptr<SensorThread>& thread);
  void start_watch();

 private:
  struct Tick {
    int64_t index = 0, due_ns = 0;
    bool slow = false;
  };
  void work(SensorThread& thread);
  void follow_grid(SensorThread& thread);
  void serve_requests(SensorThread& thread);
  bool sleep_until(int64_t time_ns);
  std::optional<TickGrid> probe(SensorThread& thread);
  int64_t chosen_tick(const SensorThread& thread, double cpu_per_tick);
  void sample_on_grid(SensorThread& thread, TickGrid& grid);
  void sample(SensorThread& thread, const Tick& tick);
  void list_processes(SensorThread& thread);
  void keep(const std::vector<Sample>& samples);
  void add_own();

  void watch();
  void look_at(SensorThread& thread, int64_t now_ns);
  std::string moment_text(int64_t time_ns) const;
};

}  // namespace triplepoint::telemetry
