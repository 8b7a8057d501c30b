// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "triplepoint/spec/job.h"

namespace triplepoint::advise {

/// Machines that advice is judged on where the real one is not measured.
inline constexpr int64_t drawn_machine_count = 16;
/// A mean gain below this is not worth a setting on every device.
inline constexpr double min_reported_gain = 5e-4;

/// Whether two machines of this kind differ: boards, coolers, hosts or inlets are spread.
bool has_spread(const spec::Job&);

/// The job on machines of its kind, drawn with the seeds 1 to `count`; the job alone where nothing
/// is spread. Faults, limits and slots are the job's.
std::vector<spec::Job> drawn_machines(const spec::Job&, int64_t count = drawn_machine_count);

/// The job on the machine that is expected where nothing was measured: mean boards, coolers, hosts
/// and inlets. Faults, limits and slots are the job's.
spec::Job on_expected_machine(spec::Job);

/// The same job on GPUs that are all cooled alike: slots without preheating, no worse heat paths.
spec::Job with_equal_slots(spec::Job);

/// The same job with clocks in an eighth of the governor's steps, so that a difference of less than
/// a clock step (nearly a per cent of a critical stage) is not rounded to one.
spec::Job with_fine_clocks(spec::Job);

/// What a change gains on each of some machines, as a share of what it changes.
struct MachineGains {
  int64_t machines = 0;  // 0: not judged on drawn machines
  double mean = 0, worst = 0;
  int64_t gaining = 0;  // machines on which it gains at all
};
MachineGains summarize_gains(const std::vector<double>& gains);

}  // namespace triplepoint::advise
