// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/library_cache.h"

namespace triplepoint::formats {

/// import_megatron_args with a cache that outlives it.
Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& hints);

/// Does Megatron-LM know this argument (without --), and does it change neither work, memory,
/// layout, precision nor overlap?
bool is_irrelevant_megatron_argument(std::string_view name);

/// The arguments of that table which are named in full, for suggestions.
std::vector<std::string> irrelevant_megatron_arguments();

/// import_nemo_yaml with a cache that outlives it.
Result<Imported> import_nemo(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints);

/// Does NeMo know this key, and does it change neither work, memory, layout, precision nor overlap?
bool is_irrelevant_nemo_key(std::string_view key);

/// The keys of that table which name one key, for suggestions.
std::vector<std::string> irrelevant_nemo_keys();

}  // namespace triplepoint::formats
