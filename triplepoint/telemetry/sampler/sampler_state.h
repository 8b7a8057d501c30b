// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
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

/// One sensor with the readings that were last seen of it. One thread at a time reads it.
struct SensorLane {
  SensorLane(std::unique_ptr<Sensor> sensor, int32_t first_channel_of_it);

  SensorRound round;
  const int32_t first_channel;
  std::string name;              // "GPU 3 (0000:1d:00.0)", "GPUs 0-7", "proc"
  std::vector<int32_t> devices;  // of the sampler
  // By the thread that reads it:
  int64_t next_listing_ns = 0, listing_wait_ns = 1'000'000'000;
  // By the state's mutex:
  int64_t call_began_ns = 0;  // 0: no call is under way
  int64_t overdue_ns = 0;     // the begin of the last call that was reported as overdue
};

/// A thread that reads some sensors. All members but `next_slow_ns` by the state's mutex.
struct SensorReader {
  std::vector<std::shared_ptr<SensorLane>> lanes;
  std::shared_ptr<SensorLane> calling;  // null: between two calls
  int64_t watched_call_ns = 0;          // the call that the last look found under way
  bool is_main = false;                 // its ticks are those that the cost counts
  bool has_new_lanes = false;           // whose update periods are not known yet
  bool ended = false;
  int64_t served = 0;  // requests
  double cpu_s = 0;
  int64_t next_slow_ns = 0;

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
  std::vector<std::shared_ptr<SensorReader>> readers;
  std::vector<Sample> waiting;
  std::vector<std::string> troubles;
  std::vector<std::optional<Seconds>> periods;
  std::map<int32_t, std::vector<int64_t>> processes;  // by device
  double watch_cpu_s = 0;
  SamplerCost cost;

  std::vector<std::shared_ptr<SensorLane>> adopt(std::vector<std::unique_ptr<Sensor>> sensors);
  int32_t index_of(run::Device device);
  void give_to_main(std::vector<std::shared_ptr<SensorLane>> lanes);
  void start_reader(std::vector<std::shared_ptr<SensorLane>> lanes, bool is_main);
  void start_watch();

 private:
  struct Tick {
    int64_t index = 0, due_ns = 0;
    bool slow = false;
  };
  struct Batch {
    std::vector<Sample> samples;
    std::vector<std::string> troubles;
    int64_t all_ns = 0, longest_ns = 0;
    std::string slowest;
  };
  void work(SensorReader& reader);
  void follow_grid(SensorReader& reader);
  void serve_requests(SensorReader& reader);
  bool sleep_until(int64_t time_ns);
  bool has_new_lanes(SensorReader& reader);
  std::optional<TickGrid> probe(SensorReader& reader, Batch& batch);
  int64_t chosen_tick(const SensorReader& reader, double cpu_per_tick);
  void count_lost(const SensorReader& reader, int64_t ticks);
  void sample_on_grid(SensorReader& reader, const TickGrid& grid, Batch& batch);
  void sample(SensorReader& reader, const Tick& tick, Batch& batch);
  void list_processes(SensorLane& lane);
  void read_lane(SensorLane& lane, const Tick& tick, Batch& batch);
  std::shared_ptr<SensorLane> begin_call(SensorReader& reader, size_t number);
  void end_call(SensorReader& reader, SensorLane& lane);
  void publish(SensorReader& reader, const Tick& tick, int64_t began_ns, Batch& batch);
  void add_own(const SensorReader& reader, const Tick& tick, int64_t began_ns, Batch& batch);
  double cpu_of_all() const;

  void watch();
  void look_at(const std::shared_ptr<SensorReader>& reader, int64_t now_ns);
  void divide(SensorReader& reader, const std::shared_ptr<SensorLane>& stuck);
  std::string moment_text(int64_t time_ns) const;
};

}  // namespace triplepoint::telemetry
