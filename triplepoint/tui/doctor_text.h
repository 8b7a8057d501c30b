// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/telemetry/discover/cluster_draft.h"
#include "triplepoint/telemetry/doctor/doctor.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::tui {

/// What is measured here, what is missing with the command that helps, and what one may trip over.
std::string examination_text(const telemetry::Examination&, const Console&);

/// Numbers of this node beside the library's.
std::string cluster_draft_text(const telemetry::ClusterDraft&, const Console&);

}  // namespace triplepoint::tui
