// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/fault_flags.h"

#include <fmt/format.h>

#include "triplepoint/spec/fault_text.h"

#include "triplepoint/cli/flags/bind.h"

namespace triplepoint::cli {
namespace {

/// Holds in a steady state: from the beginning, for good.
bool lasts(const spec::Fault& fault) {
  return fault.kind != spec::FaultKind::node_lost && fault.begin == Seconds() && !fault.end &&
         !fault.period;
}

}  // namespace

Result<void> add_faults(spec::Job& job, const std::vector<std::string>& faults) {
  for (const std::string& text : faults) {
    Result<spec::Fault> fault = spec::parse_fault(text);
    if (!fault) return error("--fault " + text + ": " + fault.error().what);
    job.environment.faults.push_back(*fault);
  }
  return {};
}

Arguments FaultFlags::arguments() {
  return Arguments().group("Faults").flag(
      "--fault", "WHAT",
      "inject a fault, as in gpu=3,power=0.25@120s..300s; repeatable. power, fan, "
      "link: remaining share; inlet: kelvins; heat_path, host: factor; lost: restart "
      "time; every=2s: flapping",
      into(faults_), {.repeats = true});
}

Result<void> FaultFlags::apply(spec::Job& job, bool over_time) const {
  TPT_TRY(add_faults(job, faults_));
  for (const spec::Fault& fault : job.environment.faults)
    if (!over_time && !lasts(fault))
      return error(
          fmt::format("fault {} has a time (a steady state has no time); add --duration 10min, or "
                      "leave out the fault's time",
                      spec::to_text(fault)));
  return {};
}

}  // namespace triplepoint::cli
