// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/formats/megatron_import.h"

namespace triplepoint::formats {

Result<Imported> import_megatron(Shelf& /*shelf*/, const std::string& /*text*/,
                                 const std::string& path, const ImportHints& /*hints*/) {
  return error(path + ": Megatron arguments are not read yet");
}

}  // namespace triplepoint::formats
