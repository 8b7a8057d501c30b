// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/metrics/run/fault_report.h"

#include "triplepoint/base/json.h"

#include "triplepoint/run/shutdown.h"
#include "triplepoint/spec/fault_text.h"

#include "triplepoint/metrics/run/fault_effects.h"

namespace triplepoint::metrics {

std::string names_of(const std::vector<spec::Fault>& faults) {
  std::string names;
  for (const spec::Fault& fault : faults)
    names += (names.empty() ? "" : " ") + spec::to_text(fault);
  return names;
}

Json faults_json(const run::Run& run, const run::Run* without) {
  Json all = Json::array();
  const std::vector<spec::Fault>& faults = run.manifest.job->environment.faults;
  if (!run::has_trained(run) || (without && !run::has_trained(*without))) return all;
  if (without) {
    all.push_back(fault_json(names_of(faults), steady_effect(*without, run)));
    return all;
  }
  const std::vector<FaultEffect> effects = fault_effects(run);
  for (size_t f = 0; f < faults.size(); ++f)
    all.push_back(fault_json(spec::to_text(faults[f]), effects[f]));
  return all;
}

}  // namespace triplepoint::metrics
