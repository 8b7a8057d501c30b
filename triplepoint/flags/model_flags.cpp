// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/flags/model_flags.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "triplepoint/flags/bind.h"

namespace triplepoint::flags {

Arguments ModelFlags::arguments() {
  return Arguments()
      .group("Sizes of the model (on top of --model or JOB; alone: a Llama)")
      .flag("--num-layers", "N", "layers", into(layers_))
      .flag("--hidden-size", "N", "width of the residual stream", into(hidden_))
      .flag("--ffn-hidden-size", "N", "width of the dense MLP", into(ffn_))
      .flag("--num-attention-heads", "N", "heads of queries", into(heads_))
      .flag("--num-query-groups", "N",
            "heads of keys and values (default: one for each query head)", into(groups_))
      .flag("--kv-channels", "N", "width of a head (default: hidden size over heads)",
            into(kv_channels_))
      .flag("--vocab-size", "N", "tokens of the vocabulary, before padding", into(vocabulary_));
}

bool ModelFlags::given() const {
  return layers_ || hidden_ || ffn_ || heads_ || groups_ || kv_channels_ || vocabulary_;
}

std::set<std::string, std::less<>> ModelFlags::keys() const {
  std::set<std::string, std::less<>> keys;
  const auto replace = [&](bool given, const char* key) {
    if (given) keys.insert(key);
  };
  replace(layers_.has_value(), "num-layers");
  replace(hidden_.has_value(), "hidden-size");
  replace(ffn_.has_value(), "ffn-hidden-size");
  replace(heads_.has_value(), "num-attention-heads");
  replace(groups_.has_value(), "num-query-groups");
  replace(kv_channels_.has_value(), "kv-channels");
  replace(vocabulary_.has_value(), "vocab-size");
  return keys;
}

Result<spec::Model> ModelFlags::model(std::optional<int64_t> sequence_length) const {
  std::vector<std::string> missing;
  const auto need = [&](const std::optional<int64_t>& size, const char* flag) {
    if (!size) missing.emplace_back(flag);
    return size.value_or(0);
  };
  spec::Model model;
  model.name = "custom";
  model.num_layers = need(layers_, "--num-layers");
  model.hidden_size = need(hidden_, "--hidden-size");
  model.ffn_hidden_size = need(ffn_, "--ffn-hidden-size");
  model.num_attention_heads = need(heads_, "--num-attention-heads");
  model.sequence_length = need(sequence_length, "--seq-length");
  model.vocabulary_size = need(vocabulary_, "--vocab-size");
  if (!missing.empty())
    return error(
        fmt::format("no model was named, and its sizes are incomplete; give {} as well, or "
                    "--model NAME to take the others from",
                    fmt::join(missing, ", ")));
  model.num_query_groups = groups_.value_or(model.num_attention_heads);
  model.kv_channels =
      kv_channels_.value_or(model.hidden_size / std::max<int64_t>(1, model.num_attention_heads));
  model.activation = spec::Activation::swiglu;
  model.normalization = spec::Normalization::rms_norm;
  model.position_embedding = spec::PositionEmbedding::rope;
  return model;
}

namespace {

/// An error where a size would change nothing, or less than it says.
Result<void> check_change(const spec::Model& model, bool layers, bool ffn) {
  if (layers && model.layer_pattern)
    return error(
        fmt::format("--num-layers: the layers of {0} are of several kinds, one letter each "
                    "in its layer_pattern; write a model file with base = \"{0}\" and "
                    "another pattern, and give it to --model",
                    model.name));
  bool dense = false;
  for (int64_t layer = 0; layer < model.num_layers; ++layer)
    dense = dense || spec::has_dense_mlp(spec::kind_of_layer(model, layer));
  if (ffn && !dense)
    return error(
        fmt::format("--ffn-hidden-size: no layer of {0} has a dense MLP, all have experts; "
                    "write a model file with base = \"{0}\" and [model.moe] "
                    "ffn_hidden_size, and give it to --model",
                    model.name));
  return {};
}

}  // namespace

Result<void> ModelFlags::change(spec::Model& model) const {
  TPT_TRY(check_change(model, layers_.has_value(), ffn_.has_value()));
  const spec::Model before = model;
  const bool own_groups = before.num_query_groups == before.num_attention_heads;
  const bool own_width = before.kv_channels * before.num_attention_heads == before.hidden_size;
  model.num_layers = layers_.value_or(model.num_layers);
  model.hidden_size = hidden_.value_or(model.hidden_size);
  model.ffn_hidden_size = ffn_.value_or(model.ffn_hidden_size);
  model.num_attention_heads = heads_.value_or(model.num_attention_heads);
  model.vocabulary_size = vocabulary_.value_or(model.vocabulary_size);
  model.num_query_groups =
      groups_.value_or(own_groups ? model.num_attention_heads : model.num_query_groups);
  const int64_t heads = std::max<int64_t>(1, model.num_attention_heads);
  model.kv_channels =
      kv_channels_.value_or(own_width ? model.hidden_size / heads : model.kv_channels);
  if (model == before) return {};
  model.name += "-custom";
  model.published_parameters = model.published_active_parameters = std::nullopt;
  return {};
}

}  // namespace triplepoint::flags
