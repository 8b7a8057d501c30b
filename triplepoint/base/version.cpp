// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/base/version.h"

namespace triplepoint {

std::string program_version() {
  return "triplepoint " TPT_VERSION;
}

}  // namespace triplepoint
