// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "triplepoint/spec/load.h"

namespace triplepoint::spec {

/// The default library, or why there is none.
Result<Library> require_library();

}  // namespace triplepoint::spec
