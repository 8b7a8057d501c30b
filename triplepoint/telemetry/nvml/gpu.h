// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/telemetry/driver_values.h"
#include "triplepoint/telemetry/nvml/api.h"
#include "triplepoint/telemetry/sensor.h"

namespace triplepoint::telemetry::nvml {

/// NVIDIA's performance counters (GPU performance monitoring, Hopper and newer): shares of time
/// over the interval between two samples, which the hardware wants at least 100 ms apart. Source:
/// NVML API reference, "GPM Functions"; the 100 ms: NVIDIA/DCGM issue 310.
class Gpm {
 public:
  /// An error says why this GPU has none. `channels` gets what it offers.
  static Result<std::unique_ptr<Gpm>> open(const Driver& driver, Handle handle, int32_t device,
                                           std::vector<Channel>& channels);
  Gpm(const Gpm&) = delete;
  Gpm& operator=(const Gpm&) = delete;
  ~Gpm();

  /// Appends readings if a hundred milliseconds have passed since the last sample.
  int read(Handle handle, std::vector<Reading>& readings);
  void restart() { have_before_ = false; }

 private:
  explicit Gpm(const Api& api) : api_(api) {}
  bool allocate();
  int sample(Handle handle);
  GpmMetric* entries();

  const Api& api_;
  std::array<void*, 2> samples_{};  // [0]: the one before
  bool have_before_ = false;
  int64_t before_ns_ = 0;
  int32_t first_channel_ = 0;
  std::vector<std::byte> request_;
};

/// One number of a batch of field values.
struct FieldSlot {
  int32_t channel = 0;
  bool last_of_channel = true;  // the values of a channel's slots are added
  bool counts = false;
  double unit = 1;
  CounterKind kind;  // of a counter; its width comes with the first value
  Range range;
  Counter counter;
  int bits = 0;  // of the counter; 0: not yet seen
  int64_t stamp_us = 0, stamp_ns = 0;
  uint64_t last_value = 0;  // as it came
  int failures = 0;         // in a row
};

/// What one nvmlDeviceGetFieldValues asks for. `request` is copied into `answer` before each call.
struct FieldBatch {
  std::vector<FieldValue> request, answer;
  std::vector<FieldSlot> slots;
};

/// A number that has its own call.
enum class CallKind : uint8_t {
  die_temperature,
  sm_clock,
  memory_clock,
  utilization,
  memory_utilization,
  reasons,
  memory_used,
  power_limit,
  fan,
  power,
  energy
};
struct CallSlot {
  CallKind kind = CallKind::die_temperature;
  int32_t channel = 0;
  Polling polling = Polling::every_tick;
  Range range;
  Counter counter;
  int failures = 0;
};

/// One GPU, and what of it can be read. Made by open_gpu().
struct Gpu {
  Handle handle = nullptr;
  run::Device device;
  unsigned architecture = 0;  // as nvmlDeviceGetArchitecture counts
  bool mig = false;
  FieldBatch fast, slow;
  std::vector<CallSlot> calls;
  std::unique_ptr<Gpm> gpm;
};

/// Tries everything once. `channels` gets what works, `missing` what the GPU lacks.
Gpu open_gpu(const Driver&, Handle, run::Device, bool gpm, std::vector<Channel>& channels,
             std::vector<Gap>& missing);

/// Reads one GPU; appends readings, and a sentence where something begins to fail.
class GpuReader {
 public:
  GpuReader(const Driver& driver, std::vector<Channel>& channels, UnixTime& clock,
            std::vector<std::string>& troubles)
      : driver_(driver), channels_(channels), clock_(clock), troubles_(troubles) {}

  /// A code for which is_loss() holds means that the GPU is gone.
  int read(Gpu& gpu, bool slow, std::vector<Reading>& readings);

 private:
  int read_batch(Gpu& gpu, FieldBatch& batch, std::vector<Reading>& readings);
  void take_answers(Gpu& gpu, FieldBatch& batch, int64_t now, std::vector<Reading>& readings);
  std::optional<double> value_in(FieldSlot& slot, const FieldValue& answer);
  void stamp(FieldSlot& slot, const FieldValue& answer, int64_t now) const;
  int read_call(Gpu& gpu, CallSlot& call, std::vector<Reading>& readings);
  void count_failure(int& failures, int32_t channel, const Gpu& gpu, int code);
  void note_restart(Counter& counter, int32_t channel, const Gpu& gpu);

  const Driver& driver_;
  std::vector<Channel>& channels_;
  UnixTime& clock_;
  std::vector<std::string>& troubles_;
  Utilization utilization_;  // one call, two channels
};

/// What a call with one number at its end says of a GPU, and whether it says one.
template <class Raw = unsigned, class Call, class... Args>
int ask(const Call& call, Handle handle, double& value, double unit, Args... args) {
  Raw raw = 0;
  const int code = call(handle, args..., &raw);
  if (code == Code::success && is_sentinel(raw, static_cast<int>(8 * sizeof raw)))
    return Code::not_supported;
  value = as_real(raw) * unit;
  return code;
}

/// What a call says, in the unit of its signal (counts, for the energy).
int call_value(const Api&, Handle, CallKind, double& value, Utilization& both);

/// After a loss: goes on with this handle, counters counting on from where they stood.
void resume(Gpu&, Handle);

/// Whether this answer means that the GPU or the driver is gone, not that one number is.
bool is_loss(int code);

}  // namespace triplepoint::telemetry::nvml
