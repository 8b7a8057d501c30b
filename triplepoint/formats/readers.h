// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/formats/import.h"
#include "triplepoint/formats/key_table.h"
#include "triplepoint/formats/library_cache.h"
#include "triplepoint/formats/settings.h"
#include "triplepoint/formats/shell_command.h"

namespace triplepoint::formats {

inline constexpr double usual_dropout =
    0.1;  // Megatron's and NeMo's, of hidden states and attention

/// import_megatron_args with a cache that outlives it.
Result<Imported> import_megatron(LibraryCache& cache, const std::string& text,
                                 const std::string& path, const ImportHints& hints);

/// The job of Megatron's arguments, wherever they stand. `command`: what it was launched with;
/// `model`: where they hold no sizes.
Result<Imported> import_arguments(LibraryCache& cache, Settings& settings,
                                  const ShellCommand& command, const KeyTable& table,
                                  const ImportHints& hints,
                                  std::optional<spec::Model> model = std::nullopt);

/// The model that a command of Megatron-LM trains.
Result<spec::Model> read_megatron_model(LibraryCache&, Settings&, const ShellCommand&);

/// Its plan, once model and cluster are known; what the command says counts as stated.
Result<void> read_megatron_plan(LibraryCache&, Settings&, spec::StatedJob&);

/// JSON, TOML or YAML, by its form. Braces with comments or commas at their end are YAML's.
Result<YamlNode> parse_any(std::string_view text, const std::string& name);

/// A launch file of a tool that data/readers/tools.toml knows.
Result<Imported> import_tool(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints);

/// A config.json that stands as a section of another file.
Result<ImportedModel> import_hf_section(LibraryCache& cache, const YamlNode& tree,
                                        std::string_view section, const std::string& path,
                                        const ImportHints& hints);

/// import_nemo_yaml with a cache that outlives it.
Result<Imported> import_nemo(LibraryCache& cache, const std::string& text, const std::string& path,
                             const ImportHints& hints);

/// The model of a NeMo configuration. `data`: the section that sets the length ("" for
/// pretraining); `place`: where the file lies, which may name a model of this shape.
Result<spec::Model> read_nemo_model(LibraryCache&, Settings&, const std::string& data,
                                    const std::string& place);

Result<void> read_nemo_plan(LibraryCache&, Settings&, const std::string& data, spec::StatedJob&);

}  // namespace triplepoint::formats
