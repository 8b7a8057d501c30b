// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/answers/document.h"
#include "triplepoint/telemetry/discover/discover.h"
#include "triplepoint/telemetry/doctor/doctor.h"

namespace triplepoint::app {

/// What `doctor` says: what is measured here, what is missing with the command that helps, and what
/// one may trip over.
answers::Document examination_answer(const telemetry::Examination&);

/// What `discover` says: numbers of this node beside the library's.
answers::Document cluster_draft_answer(const telemetry::ClusterDraft&, const telemetry::NodeShape&);

}  // namespace triplepoint::app
