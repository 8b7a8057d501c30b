// SPDX-License-Identifier: Apache-2.0
// How much travels over which links, how well are they used, and in messages of what size?
#include <bit>
#include <cmath>

#include "triplepoint/metrics/run/view.h"

namespace triplepoint::metrics {

namespace {

using run::DeviceSummary;

constexpr size_t num_buckets =
    64;  // bucket i holds messages of more than 2^(i-1) and up to 2^i bytes

struct Histogram {
  std::array<int64_t, num_buckets> count{};
  std::array<double, num_buckets> bytes{};

  void add(Bytes message) {
    const double size = message / unit::B;
    if (!(size > 0) || size > 0x1p62) return;
    const auto bucket = as_size(std::bit_width(static_cast<uint64_t>(std::ceil(size)) - 1));
    ++count[bucket];
    bytes[bucket] += size;
  }
  void add(const Histogram& other, int64_t times) {
    for (size_t i = 0; i < num_buckets; ++i) {
      count[i] += times * other.count[i];
      bytes[i] += as_real(times) * other.bytes[i];
    }
  }
};

class Messages {
 public:
  explicit Messages(const run::Timeline& timeline) : timeline_(timeline) {
    for (const run::Span& span : timeline.spans)
      add(all_, span);
    std::vector<int64_t> uses(timeline.patterns.size(), 0);
    for (const run::PatternInstance& instance : timeline.instances)
      ++uses[as_size(instance.pattern)];
    for (size_t i = 0; i < uses.size(); ++i)
      all_.add(of_pattern(timeline.patterns[i]), uses[i]);
  }

  std::vector<MessageBucket> buckets() const {
    std::vector<MessageBucket> filled;
    for (size_t i = 0; i < num_buckets; ++i)
      if (all_.count[i] > 0)
        filled.push_back({.upper = std::ldexp(1.0, static_cast<int>(i)) * unit::B,
                          .count = all_.count[i],
                          .bytes = all_.bytes[i] * unit::B});
    return filled;
  }

 private:
  void add(Histogram& histogram, const run::Span& span) const {
    const run::SpanType& type = timeline_.types[as_size(span.type)];
    if (type.kind == run::SpanKind::communication) histogram.add(span.bytes);
  }
  Histogram of_pattern(const run::Pattern& pattern) const {
    Histogram all;
    for (const run::PatternPiece& piece : pattern.pieces) {
      Histogram once;
      for (const run::Span& span : piece.spans)
        add(once, span);
      all.add(once, piece.repeat);
    }
    return all;
  }

  const run::Timeline& timeline_;
  Histogram all_;
};

std::optional<double> utilization(std::optional<double> bytes, BytesPerSecond bandwidth,
                                  std::optional<Seconds> time) {
  if (!bytes || !time || bandwidth <= BytesPerSecond()) return std::nullopt;
  return *bytes * unit::B / *time / bandwidth;
}

/// What one device may send through its share of the node's NICs.
BytesPerSecond scale_out_bandwidth(const spec::Cluster& cluster) {
  if (cluster.gpus_per_node <= 0) return {};
  return cluster.scale_out.nic_bandwidth * as_real(cluster.scale_out.nics_per_node) /
         as_real(cluster.gpus_per_node);
}

}  // namespace

void answer_links(const View& view, Metrics& answer) {
  const auto scale_up = mean_of(view.devices, &DeviceSummary::scale_up_bytes);
  const auto scale_out = mean_of(view.devices, &DeviceSummary::scale_out_bytes);
  if (scale_up) answer.links.scale_up = *scale_up * unit::B;
  if (scale_out) answer.links.scale_out = *scale_out * unit::B;
  answer.links.scale_up_per_gpu_bytes = list_of(view.devices, &DeviceSummary::scale_up_bytes);
  answer.links.scale_out_per_gpu_bytes = list_of(view.devices, &DeviceSummary::scale_out_bytes);
  answer.links.scale_up_received_per_gpu_bytes = growth_per_step(view, "scale_up_rx_bytes");
  answer.links.pcie_received_per_gpu_bytes = growth_per_step(view, "pcie_rx_bytes");
  answer.links.pcie_sent_per_gpu_bytes = growth_per_step(view, "pcie_tx_bytes");
  answer.links.messages = Messages(view.timeline()).buckets();
  if (!view.run.manifest.job) return;
  const spec::Cluster& cluster = view.run.manifest.job->cluster;
  answer.links.scale_up_utilization =
      utilization(scale_up, cluster.scale_up.bandwidth, answer.step_time);
  answer.links.scale_out_utilization =
      utilization(scale_out, scale_out_bandwidth(cluster), answer.step_time);
}

}  // namespace triplepoint::metrics
