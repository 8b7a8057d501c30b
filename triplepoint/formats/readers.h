// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "triplepoint/base/result.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {

inline constexpr double usual_dropout =
    0.1;  // Megatron's and NeMo's, of hidden states and attention

/// import_megatron_args with a cache that outlives it.
Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& hints);

/// The model that a command of Megatron-LM trains.
Result<spec::Model> read_megatron_model(LibraryCache&, Settings&, const ShellCommand&);

/// Its plan, once model and cluster are known; what the command says counts as stated.
Result<void> read_megatron_plan(LibraryCache&, Settings&, spec::StatedJob&);

/// Does Megatron-LM know this argument (without --), and does it change neither work, memory,
/// layout, precision nor overlap?
bool is_irrelevant_megatron_argument(std::string_view name);

/// The arguments of that table which are named in full, for suggestions.
std::vector<std::string> irrelevant_megatron_arguments();

/// import_nemo_yaml with a cache that outlives it.
Result<Imported> import_nemo(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints);

/// The model of a NeMo configuration. `data`: the section that sets the length ("" for
/// pretraining); `place`: where the file lies, which may name a model of this shape.
Result<spec::Model> read_nemo_model(LibraryCache&, Settings&, const std::string& data,
                                    const std::string& place);

Result<void> read_nemo_plan(LibraryCache&, Settings&, const std::string& data, spec::StatedJob&);

/// Does NeMo know this key, and does it change neither work, memory, layout, precision nor overlap?
bool is_irrelevant_nemo_key(std::string_view key);

/// The keys of that table which name one key, for suggestions.
std::vector<std::string> irrelevant_nemo_keys();

}  // namespace triplepoint::formats
