// SPDX-License-Identifier: Apache-2.0
// One job told by flags, by a job file, by a launch file and by a config.json.
#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/flags/job_flags.h"
#include "triplepoint/flags/request.h"
#include "triplepoint/formats/export.h"

namespace triplepoint::flags {
namespace {

const spec::Library& library() {
  static const spec::Library held = spec::default_library();
  return held;
}

/// What a job is, without what names it.
spec::Job unnamed(spec::Job job) {
  job.name = job.origin = {};
  job.notes.clear();
  return job;
}

/// What flags make of these words: flags with their values, other words as the file.
Result<spec::Job> answer_to(const std::vector<std::string>& words) {
  JobFlags flags;
  const Arguments arguments = flags.arguments();
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto takes = [&](const Argument& each) {
      const std::vector<std::string> names = split(each.names, ',');
      return words[i].starts_with("-") ? holds(names, words[i]) : !each.is_flag();
    };
    const auto argument = std::ranges::find_if(arguments, takes);
    REQUIRE_MESSAGE(argument != arguments.end(), words[i]);
    const bool valued = argument->is_flag() && !argument->value.empty();
    if (valued) ++i;
    REQUIRE(argument->store(words[i]));
  }
  return flags.job(library());
}

spec::Job told(const std::vector<std::string>& words) {
  return must(answer_to(words));
}

std::string refusal_of(const std::vector<std::string>& words) {
  const Result<spec::Job> job = answer_to(words);
  REQUIRE(!job);
  return job.error().what;
}

std::vector<std::string> plus(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// One layout as flags, and as the lines of a job file.
struct Layout {
  const char* what;
  std::vector<std::string> flags;
  const char* job;
  const char* plan;
};

const std::vector<Layout>& layouts() {
  static const std::vector<Layout> all = {
      {"nothing but the cluster", {"--cluster", "hgx-h100"}, "cluster = \"hgx-h100\"\n", ""},
      {"a few sizes",
       {"--cluster", "hgx-h200", "--nodes", "4", "--tp", "2", "--gbs", "96", "--seq", "1024"},
       "cluster = \"hgx-h200\"\nnodes = 4\nsequence_length = 1024\n",
       "tensor_parallel_size = 2\nglobal_batch_size = 96\n"},
      {"all of it",
       {"--cluster",
        "dgx-h100",
        "--nodes",
        "2",
        "--tp",
        "2",
        "--mbs",
        "2",
        "--gbs",
        "64",
        "--sharding",
        "optimizer",
        "--recompute",
        "full",
        "--sequence-parallel",
        "--precision",
        "fp16",
        "--stack",
        "megatron-graphs",
        "--overlap",
        "dp"},
       "cluster = \"dgx-h100\"\nnodes = 2\nstack = \"megatron-graphs\"\n",
       "tensor_parallel_size = 2\nmicro_batch_size = 2\nglobal_batch_size = 64\n"
       "sharding = \"optimizer\"\nrecompute = \"full\"\nsequence_parallel = true\n"
       "precision = \"fp16\"\noverlap_gradient = true\noverlap_parameter = true\n"}};
  return all;
}

/// A file of this text, not flushed to disk: there are hundreds.
class Written {
 public:
  Written(const char* name, const std::string& text) : path_(folder_.path(name)) {
    std::ofstream file(path_, std::ios::binary);
    file << text;
    REQUIRE(file.good());
  }
  const std::string& path() const { return path_; }

 private:
  ScratchFolder folder_;
  std::string path_;
};

TEST_CASE(
    "an overlapped exchange between experts is one job by flags, file and Megatron arguments") {
  const std::vector<std::string> sizes = {
      "--model", "mixtral-8x7b", "--cluster", "dgx-h100", "--ep", "4", "--gbs", "64"};
  const spec::Job by_list = told(plus(sizes, {"--overlap", "dp,ep"}));
  CHECK(by_list.plan.overlap_expert);
  CHECK(by_list.plan.overlap_gradient);
  const Written file("job.toml",
                     "model = \"mixtral-8x7b\"\ncluster = \"dgx-h100\"\n[plan]\n"
                     "expert_parallel_size = 4\nglobal_batch_size = 64\noverlap_gradient = true\n"
                     "overlap_parameter = true\noverlap_expert = true\n");
  CHECK(told({file.path()}).plan == by_list.plan);
  CHECK_FALSE(told({file.path(), "--overlap", "dp"}).plan.overlap_expert);
  const formats::Exported megatron = formats::export_megatron_args(by_list);
  CHECK(told({Written("job.sh", megatron.text).path()}).plan == by_list.plan);
}

TEST_CASE("records are one job by flags and by file, by name and in full") {
  const std::vector<std::string> sizes = {"--model",  "llama3-8b", "--cluster",
                                          "hgx-h100", "--gbs",     "64"};
  const spec::Job by_flags =
      told(plus(sizes, {"--records", "pubmedqa", "--record-layout", "packed"}));
  REQUIRE(by_flags.records);
  CHECK(by_flags.plan.record_layout == spec::RecordLayout::packed);
  const std::string job = "model = \"llama3-8b\"\ncluster = \"hgx-h100\"\n";
  const std::string plan = "[plan]\nglobal_batch_size = 64\nrecord_layout = \"packed\"\n";
  const Written named("job.toml", job + "records = \"pubmedqa\"\n" + plan);
  CHECK(unnamed(told({named.path()})) == unnamed(by_flags));
  const Written table("mine.toml", "[records]\nlengths = [100, 300]\nshares = [1, 1]\n");
  const Written full("job.toml", job + plan +
                                     "[records]\nname = \"mine\"\nlengths = [100, 300]\n"
                                     "shares = [1, 1]\n");
  CHECK(unnamed(told({full.path()})) ==
        unnamed(told(plus(sizes, {"--records", table.path(), "--record-layout", "packed"}))));
  CHECK(refusal_of(plus(sizes, {"--records", "pubmed"})).find("pubmedqa") != std::string::npos);
  const std::string written = spec::write_job(by_flags, library());
  CHECK(contains(written, "records = \"pubmedqa\""));
  CHECK(spec::parse_job(library(), written, "job.toml").value().records == by_flags.records);
}

const std::vector<std::string> llama_sizes = {
    "--num-layers",          "32",    "--hidden-size",      "4096", "--ffn-hidden-size", "14336",
    "--num-attention-heads", "32",    "--num-query-groups", "8",    "--seq-length",      "8192",
    "--vocab-size",          "128256"};

TEST_CASE("eight flags are a model: those of Llama 3 8B are its") {
  spec::Model model = told(plus({"--cluster", "hgx-h200"}, llama_sizes)).model;
  CHECK(model.name == "custom");
  spec::Model known = spec::load_model(library(), "llama3-8b").value();
  known.name = "custom";
  known.published_parameters = std::nullopt;
  CHECK(model == known);
  CHECK(refusal_of({"--cluster", "hgx-h200", "--num-layers", "32", "--hidden-size", "4096"})
            .find("give --ffn-hidden-size, --num-attention-heads, --seq-length, --vocab-size as "
                  "well") != std::string::npos);
}

TEST_CASE(
    "sizes given as flags replace those of a named model or a file's, which is then another") {
  const std::vector<std::string> job = {"--model", "llama3-8b", "--cluster", "hgx-h200"};
  const spec::Model known = told(job).model;
  CHECK(told(plus(job, {"--num-layers", "32"})).model == known);
  const spec::Model deeper = told(plus(job, {"--num-layers", "40"})).model;
  CHECK(deeper.num_layers == 40);
  CHECK(deeper.name == "llama3-8b-custom");
  CHECK(!deeper.published_parameters);
  const spec::Model wider =
      told(plus(job, {"--hidden-size", "5120", "--num-attention-heads", "32"})).model;
  CHECK(wider.kv_channels == 160);
  CHECK(wider.num_query_groups == 8);
  CHECK(told({"--model", "gpt3-1.3b", "--cluster", "hgx-h200", "--num-attention-heads", "32"})
            .model.num_query_groups == 32);
  const Written file("job.toml", "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\n");
  CHECK(told({file.path(), "--num-layers", "40"}).model == deeper);
  const Written model("mine.toml", "[model]\nbase = \"llama3-8b\"\nnum_layers = 40\n");
  CHECK(told({"--model", model.path(), "--cluster", "hgx-h200"}).model.name == "mine");
}

TEST_CASE("a size that a model has not as one number is refused") {
  CHECK(refusal_of({"--model", "nemotron-h-8b", "--cluster", "hgx-h200", "--num-layers", "40"})
            .find("layer_pattern") != std::string::npos);
  CHECK(
      refusal_of({"--model", "mixtral-8x7b", "--cluster", "hgx-h200", "--ffn-hidden-size", "4096"})
          .find("all have experts") != std::string::npos);
}

TEST_CASE("of two numbers of nodes the job's note says which is used") {
  const Written own("own.toml", "[cluster]\nbase = \"hgx-h200\"\nnum_nodes = 4\n");
  const Written file("job.toml", "model = \"llama3-8b\"\ncluster = \"hgx-h200\"\nnodes = 2\n");
  const auto note = [&](const std::vector<std::string>& words) {
    return told(words).notes.front();
  };
  CHECK(note({file.path(), "--nodes", "8"})
            .ends_with("; 8 nodes (--nodes), not the 2 of " + file.path()));
  CHECK(note({file.path(), "--nodes", "2"}).find("not the") == std::string::npos);
  CHECK(note({file.path(), "--cluster", own.path()})
            .ends_with("; 2 nodes (" + file.path() + "), not the 4 of " + own.path()));
  CHECK(note({"--model", "llama3-8b", "--cluster", own.path(), "--nodes", "1"})
            .ends_with("; 1 node (--nodes), not the 4 of " + own.path()));
}

TEST_CASE("a job file runs the job that flags run, over all models") {
  for (const std::string& model : spec::list_models(library())) {
    for (const Layout& layout : layouts()) {
      CAPTURE(model);
      CAPTURE(layout.what);
      const Written file(
          "job.toml", fmt::format("model = \"{}\"\n{}[plan]\n{}", model, layout.job, layout.plan));
      const spec::Job by_flags = told(plus({"--model", model}, layout.flags));
      const spec::Job by_file = told({file.path()});
      CHECK(unnamed(by_file) == unnamed(by_flags));
      CHECK(by_file.notes == by_flags.notes);
    }
  }
}

TEST_CASE("flags on top of a file are the flags alone") {
  const Written file("job.toml", "model = \"llama3-8b\"\ncluster = \"hgx-h100\"\n");
  for (const auto& flags : std::vector<std::vector<std::string>>{
           {"--nodes", "4", "--tp", "8"},  // replicas come with the nodes
           {"--tp", "8"},                  // and go with the tensor parallelism
           {"--stack", "nanotron"},
           {"--cluster", "dgx-a100", "--mbs", "3"},
           {"--task", "decode"},
           {"--lora-rank", "8"}}) {
    CAPTURE(fmt::format("{}", fmt::join(flags, " ")));
    CHECK(unnamed(told(plus({file.path()}, flags))) ==
          unnamed(told(plus({"--model", "llama3-8b", "--cluster", "hgx-h100"}, flags))));
  }
}

TEST_CASE("a flag leaves alone what the file states under other keys") {
  const auto texts = [](const std::vector<std::string>& words) {
    std::map<std::string, std::string> all;
    for (const auto& [flag, text] : flags_of(told(words)))
      all[flag] = text;
    return all;
  };
  const std::string all_stated =
      "--model llama3-70b --task pretrain --cluster hgx-h100 --nodes 4 --stack nemo-profiled "
      "--seq 2048 --tp 4 --pp 2 --mbs 2 --gbs 64 --precision fp16 --sharding gradients "
      "--recompute selective --optimizer distributed_fused_adam --sequence-parallel --overlap"
      " tp --cooling liquid --seed 3";
  const std::string turns =
      "--model gpt3-175b --task lora --cluster dgx-a100 --nodes 8 --stack megatron-core --seq"
      " 4096 --tp 2 --pp 4 --cp 2 --vpp 2 --mbs 4 --gbs 128 --precision bf16 --optimizer muon "
      "--lora-rank 8 --sharding optimizer --recompute full --recompute-modules mlp "
      "--activation-offload 0.5 --schedule zero-bubble --overlap dp --cooling air --fabric "
      "dragonfly --seed 5";
  const std::set<std::string> implied = {
      "--cluster --fabric",          "--cluster --oversubscription",
      "--fabric --oversubscription", "--cluster --power-limit",
      "--cluster --ambient",         "--cluster --cooling",
      "--cooling --ambient",         "--vpp --schedule",
      "--lora-rank --task"};
  const Written file("job.toml", spec::write_job(told(split(all_stated, ' ')), library()));
  const auto stated = texts({file.path()});
  const std::vector<std::string> words = split(turns, ' ');
  for (std::size_t i = 0; i < words.size(); i += 2) {
    auto turned = texts({file.path(), words[i], words[i + 1]});
    for (const auto& [flag, text] : stated) {
      const std::string both = words[i] + " " + flag;
      CAPTURE(both);
      CHECK((turned[flag] == text || flag == words[i] || implied.contains(both)));
    }
  }
}

TEST_CASE("a study's job keeps its optimizer with other software") {
  const std::vector<std::string> job = {"paper/h200:h200_gpt3-175b_TP2-PP16_cc"};
  CHECK(told(plus(job, {"--stack", "megatron-core"})).plan.optimizer == told(job).plan.optimizer);
}

// ---- config.json

const char* family_of(const spec::Model& m) {
  using enum spec::PositionEmbedding;
  if (m.latent_attention)
    return m.latent_attention->indexer_topk > 0 ? "deepseek_v32" : "deepseek_v3";
  const bool gated = m.activation == spec::Activation::swiglu;
  if (m.layer_pattern) return gated ? "granitemoehybrid" : "nemotron_h";
  if (m.sliding_window && m.sliding_window->full_every == 2) return "gpt_oss";
  if (m.activation == spec::Activation::squared_relu)
    return m.normalization == spec::Normalization::rms_norm ? "nemotron_h" : "nemotron";
  if (m.activation == spec::Activation::swiglu)
    return m.normalization == spec::Normalization::rms_norm ? "llama" : "";
  if (m.normalization == spec::Normalization::rms_norm) return "";
  return m.position_embedding == learned ? "gpt2"
         : m.position_embedding == rope  ? "gpt_neox"
                                         : "bloom";
}

void add_experts(Json& config, const spec::MixtureOfExperts& moe) {
  config["num_local_experts"] = moe.num_experts;
  config["num_experts_per_tok"] = moe.router_topk;
  config["moe_intermediate_size"] = moe.ffn_hidden_size;
  config["moe_shared_expert_intermediate_size"] = moe.shared_expert_ffn_hidden_size;
  config["first_k_dense_replace"] = moe.num_dense_layers;
  if (moe.layer_period) config["interleave_moe_layer_step"] = *moe.layer_period;
  if (moe.latent_size) config["moe_latent_size"] = *moe.latent_size;
}

void add_attention(Json& config, const spec::Model& m) {
  config["num_attention_heads"] = m.num_attention_heads;
  config["num_key_value_heads"] = m.num_query_groups;
  config["head_dim"] = m.kv_channels;
  if (m.sliding_window) {
    config["sliding_window"] = m.sliding_window->size;
    config["sliding_window_pattern"] = m.sliding_window->full_every;
  }
  if (!m.latent_attention) return;
  config["q_lora_rank"] = m.latent_attention->query_rank;
  config["kv_lora_rank"] = m.latent_attention->key_value_rank;
  config["qk_rope_head_dim"] = m.latent_attention->rope_head_dim;
  config["v_head_dim"] = m.latent_attention->value_head_dim;
  config["qk_nope_head_dim"] = m.kv_channels;
  if (m.latent_attention->indexer_topk == 0) return;
  config["index_n_heads"] = m.latent_attention->indexer_heads;
  config["index_head_dim"] = m.latent_attention->indexer_head_dim;
  config["index_topk"] = m.latent_attention->indexer_topk;
}

void add_state_space(Json& config, const spec::Model& m) {
  if (!m.layer_pattern || !m.state_space) return;
  config["hybrid_override_pattern"] = *m.layer_pattern;
  config["ssm_state_size"] = m.state_space->state_size;
  config["mamba_num_heads"] = m.state_space->num_heads;
  config["mamba_head_dim"] = m.state_space->head_dim;
  config["n_groups"] = m.state_space->num_groups;
  config["conv_kernel"] = m.state_space->conv_width;
  config["chunk_size"] = m.state_space->chunk_size;
  if (m.activation == spec::Activation::swiglu)
    config["position_embedding_type"] =
        m.position_embedding == spec::PositionEmbedding::none ? "nope" : "rope";
}

/// What the model hub has of a model: its shape, and the longest sequence it takes.
std::string config_json(const spec::Model& m) {
  Json config = {{"_name_or_path", m.name},
                 {"model_type", family_of(m)},
                 {"num_hidden_layers", m.num_layers},
                 {"hidden_size", m.hidden_size},
                 {"intermediate_size", m.ffn_hidden_size},
                 {"vocab_size", m.vocabulary_size},
                 {"max_position_embeddings", 131072},
                 {"tie_word_embeddings", m.tied_embeddings},
                 {"bias", m.biases}};
  add_attention(config, m);
  add_state_space(config, m);
  if (m.moe) add_experts(config, *m.moe);
  return json_text(config);
}

TEST_CASE("a config.json and flags run the job that --model and the same flags run") {
  int listed_models = 0;
  for (const std::string& name : spec::list_models(library())) {
    const spec::Model model = spec::load_model(library(), name).value();
    if (std::string(family_of(model)).empty()) continue;  // no family of the hub is built so
    CAPTURE(name);
    ++listed_models;
    const Written file("config.json", config_json(model));
    const Layout& layout = layouts()[0];
    const spec::Job by_config = told(plus({file.path()}, layout.flags));
    CHECK(unnamed(by_config) == unnamed(told(plus({"--model", name}, layout.flags))));
    CHECK(by_config.notes.front().starts_with(
        fmt::format("sequence length {} ({}'s)", model.sequence_length, name)));
  }
  CHECK(listed_models >= 100);
}

TEST_CASE("a model that the library does not have trains on 4096 tokens, and the note says so") {
  spec::Model model = spec::load_model(library(), "llama3-8b").value();
  model.num_layers = 30;
  const Written file("config.json", config_json(model));
  const std::vector<std::string> words = {file.path(), "--cluster", "hgx-h100"};
  const spec::Job job = told(words);
  CHECK(job.model.sequence_length == 4096);
  CHECK(job.notes.front().starts_with(
      "sequence length 4096 (usual; the model takes up to 131072); by default 1 node"));
  CHECK(told(plus(words, {"--seq", "8192"}))
            .notes.front()
            .starts_with("sequence length 8192 (given)"));
}

// ---- launch files

/// The job without what the sentences of an export say is not in the file.
spec::Job as_written(spec::Job job, const std::vector<std::string>& sentences) {
  spec::Model& model = job.model;
  const spec::Model before = model;
  for (const std::string& sentence : sentences) {
    const auto about = [&](std::string_view words) { return contains(sentence, words); };
    if (about("sliding window")) model.sliding_window.reset();
    if (about("multi-token prediction")) model.multi_token_prediction.reset();
    if (about("dense layers between")) model.moe->layer_period.reset();
    if (about("load imbalance")) model.moe->load_imbalance = 1;
    if (about("latent attention")) model.latent_attention.reset();
    if (about("width of the experts")) model.moe->latent_size.reset();
    if (about("whole fp32 copies")) {
      job.plan.optimizer.name = "distributed_fused_adam";
      job.plan.optimizer.master_bytes = 4;
    }
    if (!about("layer pattern")) continue;
    model.layer_pattern.reset();
    model.state_space.reset();
  }
  if (model == before) return job;
  // Then it is not the library's model of that name, from which these come.
  model.published_parameters = model.published_active_parameters = std::nullopt;
  if (model.prediction_depths() == 0) model.multi_token_prediction.reset();
  return job;
}

TEST_CASE("a launch file runs the job it was written from, but for what it says it lacks") {
  for (const std::string& model : spec::list_models(library())) {
    for (const Layout& layout : {layouts().front(), layouts().back()}) {
      CAPTURE(model);
      CAPTURE(layout.what);
      const spec::Job job = told(plus({"--model", model}, layout.flags));
      const formats::Exported nemo = formats::export_nemo_yaml(job);
      const formats::Exported megatron = formats::export_megatron_args(job);
      CAPTURE(fmt::format("{} | {}", fmt::join(nemo.unsupported_settings, "; "),
                          fmt::join(megatron.unsupported_settings, "; ")));
      CHECK(unnamed(told({Written("job.yaml", nemo.text).path()})) ==
            unnamed(as_written(job, nemo.unsupported_settings)));
      CHECK(unnamed(told({Written("job.sh", megatron.text).path()})) ==
            unnamed(as_written(job, megatron.unsupported_settings)));
    }
  }
}

TEST_CASE("the flags of a job tell the same job") {
  for (const std::string model : {"gpt3-175b", "llama3-70b", "mixtral-8x7b"})
    for (const Layout& layout : layouts()) {
      CAPTURE(model);
      CAPTURE(layout.what);
      const spec::Job job = told(plus({"--model", model}, layout.flags));
      const auto again = must(make_job({{}, {}, flags_of(job)}));
      spec::Job same = unnamed(*again.spec);
      // What flags_of() leaves to the job: the room and the limit are said, which they may not be.
      same.environment = job.environment;
      CHECK(same.plan == job.plan);
      CHECK(same.cluster == job.cluster);
      CHECK(same.model == job.model);
    }
}

TEST_CASE("a request for a flag that is none of a call's is refused by its name") {
  const Result<RequestedJob> job = make_job({{}, {}, {{"--modle", "gpt3-175b"}}});
  REQUIRE(!job);
  CHECK(job.error().what.find("--modle is no flag") == 0);
}

TEST_CASE("plans that were asked for come as jobs whose flags find them again") {
  const auto job = must(
      make_job({{}, {}, {{"--model", "gpt3-1.3b"}, {"--cluster", "hgx-h100"}, {"--gbs", "16"}}}));
  const auto found = must(find_plans(job, {{"--top", "2"}, {"--fix", "cp=1"}}, {}));
  REQUIRE(found.jobs.size() >= 2);
  for (const RequestedJob& plan : found.jobs) {
    const auto again = must(make_job({{}, {}, flags_of(*plan.spec)}));
    CHECK(again.spec->plan == plan.spec->plan);
  }
}

}  // namespace
}  // namespace triplepoint::flags
