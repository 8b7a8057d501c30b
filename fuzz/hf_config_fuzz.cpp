// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/expect.h"

#include "triplepoint/formats/import.h"

/// A config.json either says what is wrong with it or becomes a model with every size positive.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto imported = formats::import_hf_config(text, "config.json");
  if (!imported) return 0;
  const spec::Model& model = imported->model;
  TPT_ENSURE(model.num_layers > 0 && model.hidden_size > 0 && model.num_attention_heads > 0);
  TPT_ENSURE(model.ffn_hidden_size > 0 && model.num_query_groups > 0 && model.kv_channels > 0);
  TPT_ENSURE(model.sequence_length > 0 && model.vocabulary_size > 0);
  return 0;
}
