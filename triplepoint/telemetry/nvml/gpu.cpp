// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/gpu.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "triplepoint/telemetry/nvml/fields.h"

namespace triplepoint::telemetry::nvml {
namespace {

struct Metric {
  uint32_t id;
  const char* signal;
};

// NVML_GPM_METRIC_*: percent of the interval. The series keep shares.
constexpr std::array<Metric, 8> metrics = {{{1, "graphics_active"},
                                            {2, "sm_active"},
                                            {3, "sm_occupancy"},
                                            {5, "tensor_active"},
                                            {10, "memory_active"},
                                            {11, "fp64_active"},
                                            {12, "fp32_active"},
                                            {13, "fp16_active"}}};
constexpr int64_t interval_ns = 100'000'000;

Channel channel_of(const Metric& metric, int32_t device) {
  Channel channel;
  channel.about.signal = metric.signal;
  channel.about.device = device;
  channel.about.kind = run::ReadingKind::average;
  channel.about.sensor = fmt::format("nvml gpm {}", metric.id);
  channel.about.period = interval_ns * unit::ns;
  channel.about.window = interval_ns * unit::ns;
  return channel;
}

// Consecutive failures before a message is printed.
constexpr int failures_to_say = 10;

int ask_temperature(const Api& api, Handle handle, double& value) {
  Temperature newer;
  unsigned raw = 0;
  int code = api.temperature_v(handle, &newer);
  if (code == Code::success)
    raw = static_cast<unsigned>(newer.celsius);
  else
    code = api.temperature(handle, 0, &raw);
  if (code == Code::success && is_sentinel(raw, 32)) return Code::not_supported;
  value = static_cast<int32_t>(raw);
  return code;
}

int ask_utilization(const Api& api, Handle handle, Utilization& both, double& value) {
  both = {.gpu = 0xffffffff, .memory = 0xffffffff};
  Utilization asked;
  const int code = api.utilization(handle, &asked);
  if (code == Code::success) both = asked;
  value = both.gpu / 100.0;
  return code;
}

int ask_memory(const Api& api, Handle handle, double& value) {
  MemoryV2 newer;
  Memory older;
  const bool is_new = api.memory_v2(handle, &newer) == Code::success;
  const int code = is_new ? Code::success : api.memory(handle, &older);
  const uint64_t used = is_new ? newer.used : older.used;
  if (code == Code::success && is_sentinel(used, 64)) return Code::not_supported;
  value = as_real(used);
  return code;
}

}  // namespace

Result<std::unique_ptr<Gpm>> Gpm::open(const Driver& driver, Handle handle, int32_t device,
                                       std::vector<Channel>& channels) {
  const Api& api = driver.api();
  if (!api.gpm_support || !api.gpm_alloc || !api.gpm_sample || !api.gpm_metrics || !api.gpm_free)
    return error("the driver is older than 520");
  GpmSupport support;
  const int code = api.gpm_support(handle, &support);
  if (code != Code::success) return error(driver.words(code));
  if (support.supported == 0) return error("the GPU is older than Hopper");
  std::unique_ptr<Gpm> gpm(new Gpm(api));
  if (!gpm->allocate()) return error("NVML gives no sample buffers");
  gpm->first_channel_ = static_cast<int32_t>(channels.size());
  for (const Metric& metric : metrics)
    channels.push_back(channel_of(metric, device));
  return gpm;
}

Gpm::~Gpm() {
  for (void* const sample : samples_)
    if (sample != nullptr) api_.gpm_free(sample);
}

bool Gpm::allocate() {
  request_.resize(sizeof(GpmRequest) + gpm_entries * sizeof(GpmMetric));
  for (void*& sample : samples_)
    if (api_.gpm_alloc(&sample) != Code::success) return false;
  return true;
}

GpmMetric* Gpm::entries() {
  return reinterpret_cast<GpmMetric*>(request_.data() + sizeof(GpmRequest));
}

int Gpm::sample(Handle handle) {
  const int code = api_.gpm_sample(handle, samples_[1]);
  if (code != Code::success) return code;
  std::memset(request_.data(), 0, request_.size());
  const GpmRequest head{.version = 1,
                        .count = static_cast<uint32_t>(metrics.size()),
                        .before = samples_[0],
                        .after = samples_[1]};
  std::memcpy(request_.data(), &head, sizeof head);
  for (std::size_t i = 0; i < metrics.size(); ++i)
    entries()[i].id = metrics[i].id;
  std::swap(samples_[0], samples_[1]);
  return Code::success;
}

int Gpm::read(Handle handle, std::vector<Reading>& readings) {
  const int64_t now = monotonic_now_ns();
  if (have_before_ && now - before_ns_ <= interval_ns) return Code::success;
  const int code = sample(handle);
  if (code != Code::success) {
    have_before_ = false;
    return code;
  }
  const bool both = std::exchange(have_before_, true);
  before_ns_ = now;
  if (!both) return Code::success;
  if (const int answer = api_.gpm_metrics(request_.data()); answer != Code::success) return answer;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const double share = entries()[i].value / 100;
    if (entries()[i].code == Code::success && plausible_range(metrics[i].signal).holds(share))
      readings.push_back({first_channel_ + static_cast<int32_t>(i), now, share});
  }
  return Code::success;
}

bool is_loss(int code) {
  return code == Code::gpu_is_lost || code == Code::reset_required || code == Code::uninitialized ||
         code == Code::gpu_not_found;
}

int call_value(const Api& api, Handle handle, CallKind kind, double& value, Utilization& both) {
  switch (kind) {
    case CallKind::die_temperature:
      return ask_temperature(api, handle, value);
    case CallKind::sm_clock:
      return ask(api.clock, handle, value, 1, Clock::sm);
    case CallKind::memory_clock:
      return ask(api.clock, handle, value, 1, Clock::memory);
    case CallKind::utilization:
      return ask_utilization(api, handle, both, value);
    case CallKind::memory_utilization:
      value = both.memory / 100.0;
      return Code::success;
    case CallKind::reasons:
      return ask<unsigned long long>(api.reasons, handle, value, 1);
    case CallKind::memory_used:
      return ask_memory(api, handle, value);
    case CallKind::power_limit:
      return ask(api.power_limit, handle, value, 1e-3);
    case CallKind::fan:
      return ask(api.fan, handle, value, 1e-2);
    case CallKind::power:
      return ask(api.power, handle, value, 1e-3);
    case CallKind::energy:
      return ask<unsigned long long>(api.energy, handle, value, 1);
  }
  return Code::not_supported;
}

void resume(Gpu& gpu, Handle handle) {
  gpu.handle = handle;
  for (FieldBatch* const batch : {&gpu.fast, &gpu.slow})
    for (FieldSlot& slot : batch->slots)
      slot.counter.rebase();
  for (CallSlot& call : gpu.calls)
    call.counter.rebase();
  if (gpu.gpm != nullptr) gpu.gpm->restart();
}

int GpuReader::read(Gpu& gpu, bool slow, std::vector<Reading>& readings) {
  if (const int code = read_batch(gpu, gpu.fast, readings); is_loss(code)) return code;
  if (slow)
    if (const int code = read_batch(gpu, gpu.slow, readings); is_loss(code)) return code;
  for (CallSlot& call : gpu.calls) {
    if (call.polling == Polling::slow && !slow) continue;
    if (const int code = read_call(gpu, call, readings); is_loss(code)) return code;
  }
  if (gpu.gpm != nullptr)
    if (const int code = gpu.gpm->read(gpu.handle, readings); is_loss(code)) return code;
  return Code::success;
}

int GpuReader::read_batch(Gpu& gpu, FieldBatch& batch, std::vector<Reading>& readings) {
  if (batch.request.empty()) return Code::success;
  std::ranges::copy(batch.request, batch.answer.begin());
  const int code = driver_.api().field_values(gpu.handle, static_cast<int>(batch.answer.size()),
                                              batch.answer.data());
  const int64_t now = monotonic_now_ns();
  clock_.look(now);
  if (code != Code::success) {
    for (FieldSlot& slot : batch.slots)
      if (slot.last_of_channel) count_failure(slot.failures, slot.channel, gpu, code);
    return code;
  }
  // A GPU that is lost may still let the call succeed, and each field fail.
  for (const FieldValue& answer : batch.answer)
    if (is_loss(answer.code)) return answer.code;
  take_answers(gpu, batch, now, readings);
  return code;
}

void GpuReader::take_answers(Gpu& gpu, FieldBatch& batch, int64_t now,
                             std::vector<Reading>& readings) {
  double sum = 0;
  bool whole = true;
  for (std::size_t i = 0; i < batch.slots.size(); ++i) {
    FieldSlot& slot = batch.slots[i];
    stamp(slot, batch.answer[i], now);
    const auto value = value_in(slot, batch.answer[i]);
    whole = whole && value.has_value();
    sum += value.value_or(0);
    if (slot.counts) note_restart(slot.counter, slot.channel, gpu);
    if (!slot.last_of_channel) continue;
    if (whole && slot.range.holds(sum)) {
      slot.failures = 0;
      readings.push_back({slot.channel, slot.stamp_ns, sum});
    } else {
      count_failure(slot.failures, slot.channel, gpu, batch.answer[i].code);
    }
    sum = 0, whole = true;
  }
}

void GpuReader::stamp(FieldSlot& slot, const FieldValue& answer, int64_t now) const {
  const bool same_stamp = answer.timestamp_us != 0 && answer.timestamp_us == slot.stamp_us;
  const bool same_value = answer.value.u64 == slot.last_value;
  slot.stamp_us = answer.timestamp_us;
  slot.last_value = answer.value.u64;
  if (same_stamp && same_value) return;
  // A value that changed under the same stamp is newer than that says. And a stamp never goes back,
  // whatever the time of day does.
  const auto said = same_stamp ? std::nullopt : clock_.monotonic(answer.timestamp_us);
  slot.stamp_ns = std::max(slot.stamp_ns, said.value_or(now));
}

std::optional<double> GpuReader::value_in(FieldSlot& slot, const FieldValue& answer) {
  if (!slot.counts) {
    const auto number = number_in(answer);
    return number ? std::optional(*number * slot.unit) : std::nullopt;
  }
  const auto raw = count_in(answer);
  if (!raw) return std::nullopt;
  if (raw->bits != slot.bits) {
    slot.bits = raw->bits;
    CounterKind kind = slot.kind;
    if (raw->bits < 64) kind.modulus = 1ULL << static_cast<unsigned>(raw->bits);
    slot.counter = Counter(kind);
  }
  return slot.counter.update(raw->value, slot.stamp_ns);
}

int GpuReader::read_call(Gpu& gpu, CallSlot& call, std::vector<Reading>& readings) {
  double value = 0;
  const int code = call_value(driver_.api(), gpu.handle, call.kind, value, utilization_);
  const int64_t now = monotonic_now_ns();
  if (code != Code::success || !call.range.holds(value)) {
    count_failure(call.failures, call.channel, gpu, code);
    return code;
  }
  call.failures = 0;
  if (call.kind == CallKind::energy) {
    value = call.counter.update(static_cast<uint64_t>(value), now);
    note_restart(call.counter, call.channel, gpu);
  }
  readings.push_back({call.channel, now, value});
  return code;
}

void GpuReader::count_failure(int& failures, int32_t channel, const Gpu& gpu, int code) {
  if (++failures != failures_to_say) return;
  const std::string& signal = channels_.at(as_size(channel)).about.signal;
  troubles_.push_back(fmt::format(
      "{} of GPU {} cannot be read ({}); its series has a gap", signal, gpu.device.local,
      code == Code::success ? "the driver answers no number" : driver_.words(code)));
}

void GpuReader::note_restart(Counter& counter, int32_t channel, const Gpu& gpu) {
  if (!counter.take_restart()) return;
  const std::string& signal = channels_.at(as_size(channel)).about.signal;
  troubles_.push_back(fmt::format(
      "counter {} of GPU {} began anew (the driver was reset?); what it missed is not counted",
      signal, gpu.device.local));
}

}  // namespace triplepoint::telemetry::nvml
