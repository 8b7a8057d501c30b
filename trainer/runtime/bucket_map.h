// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "trainer/runtime/bucket.h"

namespace triplepoint::trainer {

/// Which buckets hold parts of a unit.
class BucketMap {
 public:
  explicit BucketMap(const std::vector<Bucket>& buckets) {
    for (size_t i = 0; i < buckets.size(); ++i)
      for (const UnitName& name : buckets[i].units)
        place(name).push_back(i);
  }
  const std::vector<size_t>& of(UnitName name) const {
    static const std::vector<size_t> none;
    if (name.chunk >= map_.size() || name.unit >= map_[name.chunk].size()) return none;
    return map_[name.chunk][name.unit];
  }

 private:
  std::vector<size_t>& place(UnitName name) {
    if (name.chunk >= map_.size()) map_.resize(name.chunk + 1);
    if (name.unit >= map_[name.chunk].size()) map_[name.chunk].resize(name.unit + 1);
    return map_[name.chunk][name.unit];
  }
  std::vector<std::vector<std::vector<size_t>>> map_;  // [chunk][unit]
};

}  // namespace triplepoint::trainer
