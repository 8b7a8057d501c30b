// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "triplepoint/run/run.h"
#include "triplepoint/spec/sources.h"

namespace triplepoint::report {

/// " 93 of its 157 parameters are assumed (see the sources)."; empty without any.
std::string assumed_text(const std::vector<spec::Provenance>&);

/// Sections of a run's page that say where it comes from: what made it, from which job and on which
/// hosts; each sensor with its scope, period and number of readings; and of a prediction, the
/// numbers it rests on, by kind and source.
std::string manifest_sections(const run::Run&, const std::vector<spec::Provenance>&);

}  // namespace triplepoint::report
