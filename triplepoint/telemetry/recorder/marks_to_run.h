// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "triplepoint/mark/reader.h"
#include "triplepoint/store/growing_run.h"

namespace triplepoint::telemetry {

/// Puts what training processes say into a growing run.
///
///   region     a span of kind pass on the host stream, named as the program names it
///   span       one with a group, or whose name is that of a collective or ends in one (all_reduce,
///              tp_all_reduce), is communication; one with flops, or called compute, gemm or
///              attention, is compute; one with bytes alone is memory; any other is a pass. Groups:
///              tp, pp, dp, ep, cp, or the words of spec::GroupKind; what follows behind a blank is
///              left aside. The number of a span is its microbatch
///   step       a span of kind step per rank; one StepRecord of the run from the first rank's begin
///              to the last rank's end
///   value      tokens and samples are added to the step they are said in, over all ranks; any
///   other
///              is a series mark_<name> of the rank's device, or of the node
///   step's end how long each rank waits for a core in a step, on average
///
/// A process without a rank counts as the next free one. Its device is found by its local rank and
/// visible devices. A thread that says the value `rank` is that rank: ranks may be threads.
class MarksToRun {
 public:
  MarksToRun(run::GrowingRun& run, int64_t epoch_ns) : run_(run), epoch_ns_(epoch_ns) {}

  void take(const mark::Event& event, const std::vector<mark::Process>& processes);
  /// After each drain: keeps the steps that ended long enough before `now_ns` for every rank to
  /// have said so.
  void keep_finished_steps(int64_t now_ns);
  /// A rank that introduced itself by another way than by marking.
  void know_rank(int32_t rank, std::optional<int32_t> local_rank,
                 const std::optional<std::string>& visible_devices, bool in_pci_order = true);
  /// The driver has seen the rank on this device.
  void place_rank(int32_t rank, size_t position);
  /// What was known of ranks was another launcher's view: the devices have none again.
  void forget_ranks();
  /// GPUs were added to the run: ranks that had no device may have one now.
  void find_devices(const std::vector<mark::Process>& processes);
  /// Steps that not all ranks have ended are kept as they are.
  void finish();

  int64_t num_events() const { return events_; }

 private:
  struct OpenRegion {
    std::string name;
    int64_t begin_ns = 0;
  };
  struct Marker {  // a process that marks
    int32_t rank = 0;
    std::optional<int32_t> device;
    std::map<int32_t, std::vector<OpenRegion>> regions;  // by thread
    std::optional<int64_t> step;                         // key of the one it is in
    int64_t step_begin_ns = 0;
    int64_t steps_begun = 0, last_number = -1;
    int64_t round = 0;  // programs may count from 0 again
    bool marks_steps = false;
  };
  struct PendingStep {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    int64_t begun = 0, ended = 0;  // number of processes
    double tokens = 0, samples = 0;
  };

  std::optional<int32_t> device_of_process(const mark::Process& process, int32_t rank);
  Marker& marker_of(const mark::Event& event, const std::vector<mark::Process>& processes);
  void begin_step(Marker& marker, const mark::Event& event);
  void end_step(Marker& marker, const mark::Event& event);
  void take_core_wait(int32_t rank, double seconds);
  void end_region(Marker& marker, const mark::Event& event);
  void add_span(const Marker& marker, const mark::Event& event);
  void add_value(Marker& marker, const mark::Event& event);
  void emit(std::map<int64_t, PendingStep>::iterator step);
  Instant instant(int64_t time_ns) const { return Instant(time_ns - epoch_ns_); }
  void add(const Marker& marker, int32_t type, int64_t begin_ns, int64_t end_ns,
           const mark::Event& event);
  int32_t span_type(const mark::Event& event);
  int32_t host_type(std::string_view name, run::SpanKind kind);
  void become_rank(const Marker& of_process, const mark::Event& event);

  run::GrowingRun& run_;
  int64_t epoch_ns_;
  std::vector<Marker> markers_;
  std::map<std::pair<int32_t, int32_t>, Marker> threads_;  // that are ranks; by process and thread
  // By the texts' addresses, which the reader keeps once each.
  std::map<std::tuple<const char*, const char*, bool>, int32_t> types_;
  struct CoreWait {
    double first = 0, last = 0;  // since the thread began, at the ends of steps, s
    int64_t steps = 0;
  };
  std::map<int32_t, CoreWait> core_waits_;  // by rank
  std::map<int64_t, PendingStep> steps_;
  std::map<std::pair<std::string, int32_t>, size_t> series_;  // of values; -1: the node's
  int64_t last_counted_ = -1;                                 // key
  int64_t events_ = 0, stepping_ = 0;
};

}  // namespace triplepoint::telemetry
