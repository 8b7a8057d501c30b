// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/spec/job.h"

namespace triplepoint::report {

/// "gpt3-175b-TP8-PP4-mbs1": what a job without a name is called.
std::string default_name(const spec::Job& job);

}  // namespace triplepoint::report
