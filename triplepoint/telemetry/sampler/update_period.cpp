// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/sampler/update_period.h"

#include <algorithm>

namespace triplepoint::telemetry {

void UpdatePeriod::see_update(int64_t at) {
  // The first update seen began before anybody looked: it only starts the first distance.
  if (updates_++ > 0) {
    const int64_t distance = at - last_update_;
    shortest_ = updates_ == 2 ? distance : std::min(shortest_, distance);
    longest_ = std::max(longest_, distance);
    sum_ += distance;
  }
  last_update_ = at;
}

void UpdatePeriod::see(int64_t read_ns, int64_t stamp_ns, double value) {
  if (readings_ > 0) {
    longest_wait_ = std::max(longest_wait_, read_ns - last_read_);
    if (stamp_ns == last_stamp_) ++repeated_stamps_;
    const bool stamped = repeated_stamps_ > 0;
    if (stamped && stamp_ns != last_stamp_) see_update(stamp_ns);
    if (!stamped && value != last_value_) see_update(read_ns);
    // What was counted before the first stamp came again were not updates.
    if (repeated_stamps_ == 1 && stamp_ns == last_stamp_)
      shortest_ = longest_ = sum_ = updates_ = 0;
  }
  ++readings_;
  last_read_ = read_ns;
  last_stamp_ = stamp_ns;
  last_value_ = value;
}

std::optional<int64_t> UpdatePeriod::found_ns() const {
  if (updates_ <= enough) return std::nullopt;
  const int64_t mean = sum_ / (updates_ - 1);
  const bool slower_than_readings = mean * 2 > longest_wait_ * 3;
  const bool regular = longest_ - shortest_ <= longest_wait_ + mean / 2;
  if (!slower_than_readings || !regular) return std::nullopt;
  return mean;
}

}  // namespace triplepoint::telemetry
