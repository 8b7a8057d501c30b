// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/trace/pair_by_time.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "triplepoint/base/statistics.h"

namespace triplepoint::metrics {
namespace {

using Kernels = std::vector<UnnumberedKernel>;
using Pairs = std::vector<std::pair<size_t, size_t>>;  // places in the one list and the other

constexpr int64_t most_missing = 16;   // of one rank; more are another window of time
constexpr int64_t end_noise = 20'000;  // ns; ends of one collective scatter by less

bool end_together(const UnnumberedKernel& a, const UnnumberedKernel& b, int64_t offset) {
  const int64_t apart = std::abs(b.end - offset - a.end);
  return a.label == b.label && 2 * apart <= std::min(a.end - a.begin, b.end - b.begin);
}

/// One rank's kernels beside those of the ranks before, its clock ahead by `offset`.
struct Fit {
  int64_t offset = 0, score = 0, scatter = 0;
  Pairs pairs;

  /// Scatter tells only above the noise.
  bool is_better_than(const Fit& other) const {
    if (score != other.score) return score > other.score;
    return 2 * std::max(scatter, end_noise) < other.scatter;
  }
};

Fit fit_at(const Kernels& all, const Kernels& own, int64_t offset) {
  Fit fit{.offset = offset};
  std::vector<int64_t> apart;
  for (size_t i = 0, j = 0; i < all.size() && j < own.size();) {
    if (end_together(all[i], own[j], offset)) {
      fit.score += all[i].elements == own[j].elements ? 2 : 1;
      apart.push_back(own[j].end - offset - all[i].end);
      fit.pairs.emplace_back(i++, j++);
    } else {
      (all[i].end < own[j].end - offset ? i : j) += 1;
    }
  }
  if (apart.empty()) return fit;
  const int64_t middle = lower_median(apart);
  for (int64_t& distance : apart)
    distance = std::abs(distance - middle);
  fit.scatter = lower_median(std::move(apart));
  fit.offset += middle;
  return fit;
}

/// The clocks as given, then the median difference of ends at each shift, nearest first.
std::vector<Fit> fits_of(const Kernels& all, const Kernels& own) {
  std::vector<Fit> fits = {fit_at(all, own, 0)};
  const auto number = [](const Kernels& list) { return static_cast<int64_t>(list.size()); };
  const int64_t most = std::min(std::abs(number(all) - number(own)) + 2, most_missing + 2);
  for (int64_t n = 0; n <= 2 * most; ++n) {
    const int64_t shift = n % 2 == 0 ? n / 2 : -(n + 1) / 2;
    std::vector<int64_t> apart;
    for (int64_t j = std::max<int64_t>(0, -shift); j < number(own) && j + shift < number(all); ++j)
      apart.push_back(own[static_cast<size_t>(j)].end - all[static_cast<size_t>(j + shift)].end);
    if (!apart.empty()) fits.push_back(fit_at(all, own, lower_median(std::move(apart))));
  }
  return fits;
}

/// Kernels of all ranks so far in one order, and the spans of each.
class Order {
 public:
  explicit Order(const Kernels& first) : kernels_(first) {
    for (const UnnumberedKernel& kernel : first)
      spans_.push_back({kernel.span});
  }

  void add(int32_t rank, const Kernels& own, PairedKernels& result) {
    const std::vector<Fit> fits = fits_of(kernels_, own);
    const Fit* best = &fits.front();
    for (const Fit& fit : fits)
      if (fit.is_better_than(*best)) best = &fit;
    const bool is_given = best == &fits.front();
    result.by_given_clocks = result.by_given_clocks && is_given;
    for (const Fit& fit : fits)
      if (!is_given && !best->is_better_than(fit) && fit.pairs != best->pairs)
        result.doubt = {rank, best->offset, fit.offset};
    merge(own, *best);
  }

  std::vector<std::vector<int32_t>> take() { return std::move(spans_); }

 private:
  void merge(const Kernels& own, const Fit& fit) {
    Kernels kernels;
    std::vector<std::vector<int32_t>> spans;
    size_t i = 0, j = 0;
    const auto keep = [&](size_t until) {
      for (; i < until; ++i) {
        kernels.push_back(kernels_[i]);
        spans.push_back(std::move(spans_[i]));
      }
    };
    const auto insert = [&](size_t until, size_t before) {
      for (; j < until; ++j) {
        UnnumberedKernel alone = own[j];
        alone.begin -= fit.offset;
        alone.end -= fit.offset;
        while (i < before && kernels_[i].end < alone.end)
          keep(i + 1);
        kernels.push_back(alone);
        spans.push_back({alone.span});
      }
    };
    for (const auto& [of_all, of_own] : fit.pairs) {
      insert(of_own, of_all);
      keep(of_all + 1);
      spans.back().push_back(own[j++].span);
    }
    insert(own.size(), kernels_.size());
    keep(kernels_.size());
    kernels_ = std::move(kernels);
    spans_ = std::move(spans);
  }

  Kernels kernels_;
  std::vector<std::vector<int32_t>> spans_;
};

}  // namespace

PairedKernels pair_by_time(const std::map<int32_t, std::vector<UnnumberedKernel>>& ranks) {
  PairedKernels result;
  const auto most =
      std::ranges::max_element(ranks, {}, [](const auto& rank) { return rank.second.size(); });
  if (most == ranks.end()) return result;
  Order order(most->second);
  for (const auto& [rank, kernels] : ranks)
    if (rank != most->first) order.add(rank, kernels, result);
  result.collectives = order.take();
  for (const std::vector<int32_t>& spans : result.collectives)
    if (spans.size() > 1) result.matched += static_cast<int64_t>(spans.size());
  return result;
}

}  // namespace triplepoint::metrics
