// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/files.h"
#include "triplepoint/base/result.h"

namespace triplepoint::mark {

/// Names the folder in which marking processes leave their rings; the recorder sets it for the
/// command it starts. Without it every marker is a no-op.
inline constexpr const char* folder_variable = "TRIPLEPOINT_MARKS";

enum class EventKind : uint8_t { step_begin, step_end, region_begin, region_end, span, value };

/// What a training program said. Regions nest per thread. Numbers that do not apply are -1.
struct Event {
  EventKind kind = EventKind::value;
  int32_t process = 0;            // index into Reader::processes()
  int32_t thread = 0;             // kernel's id of the thread
  int64_t begin_ns = 0;           // CLOCK_MONOTONIC
  int64_t end_ns = 0;             // of a span
  int64_t number = -1;            // of a step, if the program counts
  std::string_view name;          // of region, span, value; lives as long as the reader
  std::string_view group;         // of a span: "tp", "dp", ...
  double bytes = -1, flops = -1;  // of a span
  // Of a value: tokens, samples, loss. Of a step's end: seconds that its thread has waited for a
  // core since it began, -1: not known.
  double value = 0;
};

/// A process that marks: what it said of itself when it began.
struct Process {
  int64_t pid = 0;
  std::optional<int32_t> rank, local_rank, world_size;  // as its launcher's environment says
  std::string visible_devices;  // CUDA_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES, as set
};

/// Reads the rings of a folder while processes write them. A ring that was overrun, or whose
/// process was killed in the middle of an entry, loses entries and says how many; never blocks a
/// writer, never crashes on any bytes.
class Reader {
 public:
  static Result<Reader> watch(const Path& folder);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader();

  /// Calls visit for every event since the last call, per process in the order it was said.
  void drain(const std::function<void(const Event&)>& visit);
  const std::vector<Process>& processes() const;
  int64_t lost() const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State>);
  std::unique_ptr<State> state_;
};

}  // namespace triplepoint::mark
