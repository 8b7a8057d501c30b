// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"

#include "triplepoint/metrics/metrics.h"

namespace triplepoint::report {

/// One sentence about a run, with the element of the page that shows why.
struct RunFinding {
  std::string text, anchor;
};

/// What stands out in one run: what the step's time goes into, what limits it, who is hot, what
/// heat and power cost, who others wait for, where the energy went. Only what the run knows.
std::vector<RunFinding> run_findings(const run::Run&, const metrics::Metrics&);

/// "GPU 3 slows the others: 1,008 MHz against 1,850 MHz (power limit, 350 W against 700 W); the
/// step takes 47 % longer, 2.20 s."
std::string pace_sentence(const run::PaceSetter&, Seconds step_time);
/// What to do about it.
std::string pace_advice(const run::PaceSetter&);

/// "GPU 3 draws 157 W on average, above its limit of 105 W: ..." of the GPU farthest above the
/// limit that its lowest clock cannot keep; empty where all keep theirs.
std::string limit_not_kept(const run::Run&, const metrics::Metrics&);
/// " (limit 500 W on average)" beside a peak above the limit of every GPU; empty
/// where no peak exceeds it or the average does as well.
std::string limit_beside_peak(const run::Run&, const metrics::Metrics&);

/// ", cooling down 12 % of the time" or ", no cool-down"; empty where the run's series do not tell.
std::string cool_down_text(const metrics::Metrics&);

/// Between hot and cool slots, to be worth words: boards in equal slots differ by as much.
inline constexpr double least_slot_gap_c = 2;

/// ", hot slots 72.0, cool slots 58.5"; empty where they differ by less.
std::string slots_text(const metrics::Metrics&);
/// "from the 5 to the 95 % quantile; 410 W within a microbatch; 61 % of the time at 90 % of the
/// limit" (or more): what belongs to the swing of power.
std::string power_swing_text(const metrics::Metrics&);

}  // namespace triplepoint::report
