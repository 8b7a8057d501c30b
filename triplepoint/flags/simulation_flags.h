// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "triplepoint/base/result.h"
#include "triplepoint/base/units.h"

#include "triplepoint/spec/job.h"
#include "triplepoint/spec/load.h"

#include "triplepoint/flags/arguments.h"
#include "triplepoint/flags/job_results.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/learn/calibration.h"

namespace triplepoint::flags {

/// What `simulate` is asked besides its job: for how long, with which faults, and what is worked
/// out from the run.
class SimulationFlags {
 public:
  Arguments length();
  Arguments profile();
  Arguments faults_and_bill();
  Arguments all() { return length().add(profile()).add(faults_and_bill()); }
  /// The job with the faults, simulated and measured. `own`: what the job's place taught, whose
  /// spread the interval of its step time is.
  Result<JobResults> results(const spec::Library&, spec::Job,
                             const std::optional<learn::Calibration>& own = {}) const;

 private:
  bool over_time() const { return duration_ || steps_; }
  Result<void> check_words() const;
  JobResults simulate(const spec::Job&, const metrics::BillRates&) const;
  std::optional<run::Run> without_faults(spec::Job) const;
  std::optional<metrics::Bill> bill_of(const JobResults&) const;
  std::optional<metrics::PowerProfile> profile_of(const run::Run&) const;

  BillFlags bill_;
  FaultFlags faults_;
  std::optional<Seconds> duration_;
  std::optional<int64_t> steps_, nodes_per_rack_;
  bool power_profile_ = false;
};

}  // namespace triplepoint::flags
