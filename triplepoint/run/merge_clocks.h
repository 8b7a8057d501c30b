// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/run/merge.h"

namespace triplepoint::run {

/// How `other` lies beside `reference`.
Result<Alignment> align(const Run& reference, const Run& other);

/// "node 2" or its name.
std::string host_of(const Run& recording);

}  // namespace triplepoint::run
