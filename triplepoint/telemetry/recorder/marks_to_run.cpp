// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/marks_to_run.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "triplepoint/spec/names.h"

#include "triplepoint/telemetry/recorder/launch_environment.h"

namespace triplepoint::telemetry {

namespace {

using mark::EventKind;

// Steps that some rank never ends must not keep the others waiting for ever.
constexpr size_t most_pending_steps = 1024;
// Ranks are read one after the other, and their first marks are found a little later.
constexpr int64_t grace_ns = 1'000'000'000;
constexpr int64_t numbers_per_round = int64_t{1} << 40U;

std::optional<spec::GroupKind> group_named(std::string_view name) {
  struct Short {
    std::string_view word;
    spec::GroupKind group;
  };
  constexpr std::array shorts = {
      Short{"tp", spec::GroupKind::tensor},        Short{"pp", spec::GroupKind::pipeline},
      Short{"dp", spec::GroupKind::data},          Short{"ep", spec::GroupKind::expert},
      Short{"cp", spec::GroupKind::context},       Short{"edp", spec::GroupKind::expert_data},
      Short{"etp", spec::GroupKind::expert_tensor}};
  for (const Short& each : shorts)
    if (each.word == name) return each.group;
  return spec::enum_from_name<spec::GroupKind>(name);
}

/// "all_reduce", and "tp_all_reduce" or "gradient_reduce_scatter" as the workload calls them.
std::optional<spec::Collective> collective_named(std::string_view name) {
  const auto& names = spec::enum_names<spec::Collective>;
  for (size_t i = 0; i < names.size(); ++i) {
    const bool ends = name.ends_with(names[i]) && (name.size() == names[i].size() ||
                                                   name[name.size() - names[i].size() - 1] == '_');
    if (ends) return static_cast<spec::Collective>(i);
  }
  return std::nullopt;
}

bool has_amounts(const mark::Event& event) {
  return event.flops >= 0 || event.bytes >= 0;
}

run::SpanType type_of_span(const mark::Event& event) {
  run::SpanType type{.name = std::string(event.name)};
  type.collective = collective_named(event.name);
  type.group = group_named(event.group.substr(0, event.group.find(' ')));
  if (type.collective || type.group) {
    type.kind = run::SpanKind::communication;
    type.stream = run::Stream::communication;
    type.op_class = spec::OpClass::communication;
    return type;
  }
  const bool computes = has_amounts(event) || event.name == "compute" || event.name == "gemm" ||
                        event.name == "attention";
  if (!computes) {
    type.kind = run::SpanKind::pass;
    type.stream = run::Stream::host;
    return type;
  }
  const bool streams = event.bytes >= 0 && event.flops < 0;
  type.kind = streams ? run::SpanKind::memory : run::SpanKind::compute;
  type.op_class = streams ? spec::OpClass::elementwise : spec::OpClass::gemm;
  return type;
}

}  // namespace

std::optional<int32_t> MarksToRun::device_of_process(const mark::Process& process, int32_t rank) {
  const auto visible =
      process.visible_devices.empty() ? std::nullopt : std::optional(process.visible_devices);
  auto device = device_of(run_.head().devices, process.local_rank, visible);
  if (!device && run_.head().devices.size() == 1) device = 0;
  if (process.rank || device) know_rank(rank, process.local_rank, visible);
  return device;
}

void MarksToRun::find_devices(const std::vector<mark::Process>& processes) {
  for (size_t i = 0; i < markers_.size(); ++i)
    if (!markers_[i].device) markers_[i].device = device_of_process(processes[i], markers_[i].rank);
}

MarksToRun::Marker& MarksToRun::marker_of(const mark::Event& event,
                                          const std::vector<mark::Process>& processes) {
  if (!threads_.empty())
    if (const auto found = threads_.find({event.process, event.thread}); found != threads_.end())
      return found->second;
  const auto number = as_size(event.process);
  while (markers_.size() <= number) {
    const mark::Process& process = processes[markers_.size()];
    Marker marker;
    const int32_t free_rank = most_of(markers_, [](const Marker& other) { return other.rank + 1; });
    marker.rank = process.rank.value_or(free_rank);
    marker.device = device_of_process(process, marker.rank);
    markers_.push_back(std::move(marker));
  }
  return markers_[number];
}

void MarksToRun::know_rank(int32_t rank, std::optional<int32_t> local_rank,
                           const std::optional<std::string>& visible_devices, bool in_pci_order) {
  const std::vector<run::Device>& devices = run_.head().devices;
  auto found = device_of(devices, local_rank, visible_devices, in_pci_order);
  if (!found && devices.size() == 1) found = 0;
  if (!found) return;
  run::Device device = devices[as_size(*found)];
  if (device.rank) return;
  device.rank = rank;
  run_.set_device(as_size(*found), device);
}

void MarksToRun::place_rank(int32_t rank, size_t position) {
  for (size_t i = 0; i < run_.head().devices.size(); ++i) {
    run::Device device = run_.head().devices[i];
    if (i != position && device.rank != rank) continue;
    device.rank.reset();
    if (i == position) device.rank = rank;
    if (device != run_.head().devices[i]) run_.set_device(i, device);
  }
}

void MarksToRun::forget_ranks() {
  for (size_t i = 0; i < run_.head().devices.size(); ++i) {
    run::Device device = run_.head().devices[i];
    if (!device.rank) continue;
    device.rank.reset();
    run_.set_device(i, device);
  }
}

void MarksToRun::take(const mark::Event& event, const std::vector<mark::Process>& processes) {
  if (event.process < 0 || as_size(event.process) >= processes.size()) return;
  ++events_;
  Marker& marker = marker_of(event, processes);
  switch (event.kind) {
    case EventKind::step_begin:
      return begin_step(marker, event);
    case EventKind::step_end:
      return end_step(marker, event);
    case EventKind::region_begin:
      marker.regions[event.thread].push_back({std::string(event.name), event.begin_ns});
      return;
    case EventKind::region_end:
      return end_region(marker, event);
    case EventKind::span:
      return add_span(marker, event);
    case EventKind::value:
      return add_value(marker, event);
  }
}

void MarksToRun::begin_step(Marker& marker, const mark::Event& event) {
  if (!marker.marks_steps) ++stepping_;
  marker.marks_steps = true;
  const int64_t number = event.number >= 0 ? event.number : marker.steps_begun;
  ++marker.steps_begun;
  if (number <= marker.last_number) ++marker.round;
  marker.last_number = number;
  const int64_t key = marker.round * numbers_per_round + number % numbers_per_round;
  marker.step = key;
  marker.step_begin_ns = event.begin_ns;
  if (key <= last_counted_) return;  // too late to count
  PendingStep& step = steps_[key];
  step.begin_ns = std::min(step.begin_ns, event.begin_ns);
  ++step.begun;
}

void MarksToRun::end_step(Marker& marker, const mark::Event& event) {
  take_core_wait(marker.rank, event.value);
  if (!marker.step) return;  // its begin was lost, or before the recording
  const auto found = steps_.find(*marker.step);
  marker.step.reset();
  add(marker, host_type("step", run::SpanKind::step), marker.step_begin_ns, event.begin_ns, event);
  if (found == steps_.end()) return;
  found->second.end_ns = std::max(found->second.end_ns, event.begin_ns);
  ++found->second.ended;
}

void MarksToRun::take_core_wait(int32_t rank, double seconds) {
  if (seconds < 0) return;
  CoreWait& wait = core_waits_[rank];
  // Another thread or another process of the rank counts from 0.
  if (wait.steps == 0 || seconds < wait.last) wait = {.first = seconds};
  wait.last = seconds;
  ++wait.steps;
}

/// Regions that were begun inside and never ended end with it.
void MarksToRun::end_region(Marker& marker, const mark::Event& event) {
  std::vector<OpenRegion>& open = marker.regions[event.thread];
  if (!event.name.empty() && !holds(open, event.name, &OpenRegion::name)) return;
  while (!open.empty()) {
    const OpenRegion region = std::move(open.back());
    open.pop_back();
    add(marker, host_type(region.name, run::SpanKind::pass), region.begin_ns, event.begin_ns,
        event);
    if (event.name.empty() || region.name == event.name) return;
  }
}

int32_t MarksToRun::host_type(std::string_view name, run::SpanKind kind) {
  return run_.intern({.name = std::string(name), .kind = kind, .stream = run::Stream::host});
}

int32_t MarksToRun::span_type(const mark::Event& event) {
  const bool only_bytes = event.bytes >= 0 && event.flops < 0;
  const auto [found, is_new] =
      types_.try_emplace({event.name.data(), event.group.data(), only_bytes}, 0);
  if (is_new) found->second = run_.intern(type_of_span(event));
  return found->second;
}

void MarksToRun::add_span(const Marker& marker, const mark::Event& event) {
  add(marker, span_type(event), event.begin_ns, event.end_ns, event);
}

void MarksToRun::add(const Marker& marker, int32_t type, int64_t begin_ns, int64_t end_ns,
                     const mark::Event& event) {
  if (end_ns < begin_ns) return;
  const bool is_span = event.kind == EventKind::span;
  const bool has_microbatch = is_span && event.number >= 0 && event.number <= INT32_MAX;
  run_.add(run::Span{.begin = instant(begin_ns),
                     .end = instant(end_ns),
                     .type = type,
                     .rank = marker.rank,
                     .microbatch = has_microbatch ? static_cast<int32_t>(event.number) : -1,
                     .bytes = std::max(0.0, event.bytes) * unit::B,
                     .flops = std::max(0.0, event.flops) * unit::FLOP});
}

/// What the thread says from here on is said by this rank.
void MarksToRun::become_rank(const Marker& of_process, const mark::Event& event) {
  if (!(event.value >= 0 && event.value <= INT32_MAX)) return;
  Marker marker{.rank = static_cast<int32_t>(event.value), .device = of_process.device};
  threads_.insert_or_assign({event.process, event.thread}, std::move(marker));
}

void MarksToRun::add_value(Marker& marker, const mark::Event& event) {
  if (!std::isfinite(event.value)) return;
  if (event.name == "rank") return become_rank(marker, event);
  const bool of_step = event.name == "tokens" || event.name == "samples";
  if (of_step && marker.step) {
    const auto step_of_rank = steps_.find(*marker.step);
    if (step_of_rank == steps_.end()) return;
    PendingStep& step = step_of_rank->second;
    (event.name == "tokens" ? step.tokens : step.samples) += event.value;
    return;
  }
  const int32_t device = marker.device.value_or(-1);
  const std::string signal = "mark_" + std::string(event.name);
  const auto [found, is_new] = series_.emplace(std::pair(signal, device), 0);
  if (is_new) {
    const int32_t index = device < 0 ? 0 : run_.head().devices[as_size(device)].index;
    found->second =
        run_.declare({.signal = signal, .device = index, .of_node = device < 0}, nullptr);
  }
  run_.add(found->second, instant(event.begin_ns), event.value);
}

void MarksToRun::emit(std::map<int64_t, PendingStep>::iterator step) {
  const PendingStep& done = step->second;
  last_counted_ = step->first;
  if (done.ended > 0)
    run_.add(run::StepRecord{.begin = instant(done.begin_ns),
                             .end = instant(done.end_ns),
                             .samples = std::llround(done.samples),
                             .tokens = std::llround(done.tokens)});
  steps_.erase(step);
}

void MarksToRun::keep_finished_steps(int64_t now_ns) {
  while (!steps_.empty()) {
    const PendingStep& first = steps_.begin()->second;
    const bool complete =
        first.ended >= stepping_ && first.ended >= first.begun && first.end_ns < now_ns - grace_ns;
    if (!complete && steps_.size() <= most_pending_steps) return;
    emit(steps_.begin());
  }
}

void MarksToRun::finish() {
  while (!steps_.empty())
    emit(steps_.begin());
  for (const auto& [rank, wait] : core_waits_)
    if (wait.steps > 1)
      run_.set_core_wait(rank, (wait.last - wait.first) * unit::s / as_real(wait.steps - 1));
}

}  // namespace triplepoint::telemetry
