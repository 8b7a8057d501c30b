// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/cluster.h"

#include "triplepoint/answers/document.h"
#include "triplepoint/metrics/metrics.h"

namespace triplepoint::answers {

/// What stands out in one run: what the step's time goes into, what limits it, who is hot, what
/// heat and power cost, who others wait for, where the energy went. Only what the run knows.
/// `fault_free`: of a steady state with faults, the same job without them. shown_by: elements of
/// the run's page.
std::vector<Remark> run_findings(const run::Run&, const metrics::Metrics&,
                                 const run::Run* fault_free = nullptr);

/// How far from the inlet a slot lies: 0 gets inlet air, n air that has passed n slots. Slots
/// that warm each other lie side by side.
std::vector<int32_t> slot_depths(const spec::Chassis&);
/// Whether a slot's air has passed the other one.
bool lies_behind(const spec::Chassis&, std::size_t slot, std::size_t other);
int32_t highest_depth(const std::vector<int32_t>& depth);

/// Mean temperature of the slots that lie deepest less that of those at the inlet; nothing where
/// all lie side by side, or one group has no reading.
struct DepthGap {
  double front_c = 0, rear_c = 0;
};
std::optional<DepthGap> depth_gap(const run::Run&, const metrics::Metrics&);

}  // namespace triplepoint::answers
