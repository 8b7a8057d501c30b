// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/gpm.h"

#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "triplepoint/telemetry/plausible.h"

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

}  // namespace

Result<std::unique_ptr<Gpm>> Gpm::open(const Driver& driver, Handle handle, int32_t device,
                                       std::vector<Channel>& channels) {
  const Api& api = driver.api();
  if (api.gpm_support == nullptr || api.gpm_alloc == nullptr || api.gpm_sample == nullptr ||
      api.gpm_metrics == nullptr || api.gpm_free == nullptr)
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

}  // namespace triplepoint::telemetry::nvml
