// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/formats/readers.h"

/// A file either says what is wrong with it or becomes a job; a job can be written out, and what is
/// written can be read.
extern "C" int fuzz_nemo_yaml(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  static const spec::Library library = spec::default_library();
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)formats::recognize(text);
  const auto imported = formats::import_nemo_yaml(library, text, "fuzz-h200.yaml", {});
  if (!imported) return 0;
  const formats::Exported exported = formats::export_nemo_yaml(imported->job);
  TPT_ENSURE(formats::import_nemo_yaml(library, exported.text, "again.yaml", {}).has_value());
  (void)formats::export_megatron_args(imported->job);
  return 0;
}

/// A command line either says what is wrong with it or becomes a job; a job can be written out, and
/// what is written can be read.
extern "C" int fuzz_megatron_args(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  static const spec::Library library = spec::default_library();
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto imported = formats::import_megatron_args(library, text, "fuzz-h100.sh", {});
  if (!imported) return 0;
  const formats::Exported exported = formats::export_megatron_args(imported->job);
  TPT_ENSURE(formats::import_megatron_args(library, exported.text, "again.sh", {}).has_value());
  (void)formats::export_nemo_yaml(imported->job);
  return 0;
}

/// A config.json either says what is wrong with it or becomes a model with every size positive.
extern "C" int fuzz_hf_config(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto imported = formats::import_hf_config(spec::default_library(), text, "config.json");
  if (!imported) return 0;
  const spec::Model& model = imported->model;
  TPT_ENSURE(model.num_layers > 0 && model.hidden_size > 0 && model.num_attention_heads > 0);
  TPT_ENSURE(model.ffn_hidden_size > 0 && model.num_query_groups > 0 && model.kv_channels > 0);
  TPT_ENSURE(model.sequence_length > 0 && model.vocabulary_size > 0);
  return 0;
}

/// Another tool's launch file, in any notation, says what is wrong with it or becomes a job.
extern "C" int fuzz_launch_file(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  static formats::LibraryCache cache(spec::default_library());
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)formats::tool_of(text);
  const auto imported = formats::import_tool(cache, text, "fuzz-h100.yaml", {.num_nodes = 2});
  if (imported) (void)formats::export_megatron_args(imported->job);
  return 0;
}
