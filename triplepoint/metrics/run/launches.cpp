// SPDX-License-Identifier: Apache-2.0
// How many kernels, thread blocks and warps does a GPU launch in a step, and how full are its
// compute units while they run?
#include <string>

#include "triplepoint/metrics/run/view.h"
#include "triplepoint/metrics/trace/breakdown.h"
#include "triplepoint/metrics/trace/kernel_class.h"

namespace triplepoint::metrics {
namespace {

/// Occupancy is a mean over time, everything else a sum.
class Total {
 public:
  void add(const Launches& part, double seconds) {
    sum_.count += part.count;
    add(sum_.blocks, part.blocks, known_blocks_);
    add(sum_.warps, part.warps, known_blocks_);
    if (!part.occupancy) return;
    share_seconds_ += *part.occupancy * seconds;
    seconds_ += seconds;
  }
  Launches value() const {
    Launches total = sum_;
    if (!known_blocks_) total.blocks = total.warps = std::nullopt;
    if (seconds_ > 0) total.occupancy = share_seconds_ / seconds_;
    return total;
  }

 private:
  static void add(std::optional<double>& sum, const std::optional<double>& part, bool& known) {
    if (!part) known = false;
    sum = sum.value_or(0) + part.value_or(0);
  }

  Launches sum_;
  bool known_blocks_ = true;
  double share_seconds_ = 0, seconds_ = 0;
};

std::map<std::string, Launches> simulated(const std::vector<run::KernelLaunches>& classes) {
  std::map<std::string, Launches> launches;
  Total total;
  for (const run::KernelLaunches& of : classes) {
    const Launches one{of.launches, of.blocks, of.warps, of.occupancy};
    launches[std::string(label_of({.name = {}, .kind = of.kind, .collective = of.collective}))] =
        one;
    total.add(one, of.time / unit::s);
  }
  if (!launches.empty()) launches["total"] = total.value();
  return launches;
}

/// Of the ranks that were traced and one step.
std::map<std::string, Launches> traced(const View& view) {
  constexpr double per_cent = 100;
  const auto warp = static_cast<int32_t>(view.run.numbers.warp_size.value_or(32));
  const double parts = static_cast<double>(view.ranks.size()) * view.num_steps();
  std::map<std::string, Launches> launches;
  Total total;
  bool any = false;
  for (const KernelRow& row : kernel_table(view.timeline(), KernelTableBy::label, -1, warp)) {
    if (row.label == "copy") continue;
    Launches one{.count = static_cast<double>(row.count) / parts,
                 .blocks = {},
                 .warps = {},
                 .occupancy = {}};
    if (row.with_grid == row.count) {
      one.blocks = static_cast<double>(row.blocks) / parts;
      one.warps = static_cast<double>(row.warps) / parts;
      any = true;
    }
    if (row.occupancy) one.occupancy = *row.occupancy / per_cent;
    launches[std::string(row.label)] = one;
    total.add(one, static_cast<double>(row.total));
  }
  if (!any) return {};
  launches["total"] = total.value();
  return launches;
}

}  // namespace

void answer_launches(const View& view, Metrics& answer) {
  if (!view.run.launches.empty())
    answer.launches = simulated(view.run.launches);
  else if (view.timeline().instances.empty() && !view.timeline().details.empty())
    answer.launches = traced(view);
}

}  // namespace triplepoint::metrics
