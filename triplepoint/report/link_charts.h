// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "triplepoint/report/groups.h"
#include "triplepoint/report/html.h"

namespace triplepoint::report {

/// How much of the links' bandwidth each job uses over its step, inside and between nodes, and in
/// messages of what size; nothing where no job knows.
std::vector<Figure> link_figures(const Group& group);

}  // namespace triplepoint::report
