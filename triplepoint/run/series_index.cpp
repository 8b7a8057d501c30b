// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/series_index.h"

#include <algorithm>
#include <utility>

namespace triplepoint::run {
namespace {

std::pair<bool, int32_t> owner_of(const Series* series) {
  return {series->of_node, series->device};
}

}  // namespace

SeriesIndex::SeriesIndex(const Run& run) {
  series_.reserve(run.series.size());
  for (const Series& series : run.series)
    series_.push_back(&series);
  // Stable, so that the first of two with one name is found, as by find_series().
  if (!std::ranges::is_sorted(series_, {}, owner_of))
    std::ranges::stable_sort(series_, {}, owner_of);
}

const Series* SeriesIndex::find(std::string_view signal, int32_t device, bool of_node) const {
  const auto own = std::ranges::equal_range(series_, std::pair(of_node, device), {}, owner_of);
  const auto found =
      std::ranges::find_if(own, [&](const Series* series) { return series->signal == signal; });
  return found == own.end() ? nullptr : *found;
}

}  // namespace triplepoint::run
