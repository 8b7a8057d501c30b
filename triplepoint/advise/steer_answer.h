// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/json_fwd.h"

#include "triplepoint/spec/job.h"

#include "triplepoint/advise/steer.h"
#include "triplepoint/advise/steer_watch.h"
#include "triplepoint/answers/document.h"

namespace triplepoint::advise {

/// Without and with the controller, what moves cost included; what it saw, did, and why.
answers::Document steer_answer(const spec::Job&, const SteerOutcome&);

/// What was seen, and the faults that explain it, as simulate and steer take them.
std::string alarm_text(const Alarm&);
Json alarm_json(const Alarm&);

}  // namespace triplepoint::advise
