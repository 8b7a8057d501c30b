// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/library_cache.h"

namespace triplepoint::formats {

/// import_megatron_args with a cache that outlives it.
Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& hints);

}  // namespace triplepoint::formats
