// SPDX-License-Identifier: Apache-2.0
// A broken value of any key that a reader looks for is an error or is named in a note.
#include <map>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/fixtures_testing.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/formats/readers.h"

namespace triplepoint::formats {
namespace {

const spec::Library& shipped() {
  static const spec::Library held = spec::default_library();
  return held;
}

/// Nothing of these is a number, a switch or a word of any format.
const std::vector<std::string>& broken_values() {
  static const std::vector<std::string> all = {
      "four", "-2", "$TP", "1e300", "nan", "99999999999999999999", "$(nproc)"};
  return all;
}

std::string last_part(const std::string& key) {
  return key.substr(key.rfind('.') + 1);
}

/// Refused with the key in the sentence, or with it in one of the job's notes.
bool names_key(const Result<spec::StatedJob>& read, const std::string& key) {
  if (!read) return contains(read.error().what, last_part(key));
  return std::ranges::any_of(
      read->job.notes, [&](const std::string& note) { return contains(note, last_part(key)); });
}

/// What was read refuses the key by name, or names it in what it says.
void check_named(const auto& read, const std::string& key) {
  std::string said = read ? "" : read.error().what;
  if (read) {
    for (const spec::Diagnosis& each : read->diagnoses)
      said += each.what + "\n";
    for (const std::string& each : read->assumed)
      said += each + "\n";
  }
  CHECK_MESSAGE(contains(said, key), said);
}

Result<spec::StatedJob> read_text(const ScratchFolder& folder, const std::string& name,
                                  const std::string& text, const ImportHints& hints = {}) {
  folder.file(name, text);
  return read_stated_job(shipped(), (folder.folder() / name).string(), hints);
}

std::string sentence(const Result<spec::StatedJob>& read) {
  return read ? std::string("no error") : read.error().what;
}

const std::string arguments =
    "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 2048 "
    "--max-position-embeddings 2048 --micro-batch-size 1 --global-batch-size 64 --bf16 "
    "--vocab-size 50000 --tensor-model-parallel-size 2";
const ImportHints four_nodes{.cluster = "hgx-h200", .num_nodes = 4};

TEST_CASE("a broken value of any Megatron argument that is read is refused or named") {
  // Names, which any word can be.
  const std::set<std::string, std::less<>> free_text = {"tokenizer-type", "tokenizer-model",
                                                        "patch-tokenizer-type", "wandb-exp-name"};
  const ScratchFolder folder;
  LibraryCache cache(shipped());
  const auto base = must(import_megatron(cache, arguments, "run.sh", four_nodes));
  CHECK(base.of_file == 0);
  CHECK(base.keys.size() > 100);
  for (const std::string& key : base.keys) {
    if (free_text.contains(key)) continue;
    for (const std::string& value : broken_values()) {
      CAPTURE(key);
      CAPTURE(value);
      const bool of_launcher = key == "nnodes" || key == "nproc-per-node";
      const std::string option = fmt::format("--{} '{}'", key, value);
      const std::string text =
          of_launcher ? "torchrun " + option + " " + arguments : arguments + " " + option;
      const auto read = import_megatron(cache, text, "run.sh", four_nodes);
      check_named(read, key);
    }
  }
}

/// The text of a YAML file from keys with dots.
std::string yaml_of(const std::map<std::string, std::string>& values) {
  std::string text;
  std::vector<std::string> open;
  for (const auto& [key, value] : values) {
    const std::vector<std::string> parts = split(key, '.');
    std::size_t same = 0;
    while (same < open.size() && same + 1 < parts.size() && open[same] == parts[same])
      ++same;
    open.resize(same);
    for (; open.size() + 1 < parts.size(); open.push_back(parts[open.size()]))
      text += std::string(2 * open.size(), ' ') + parts[open.size()] + ":\n";
    text += fmt::format("{}{}: {}\n", std::string(2 * open.size(), ' '), parts.back(), value);
  }
  return text;
}

const std::map<std::string, std::string>& nemo_values() {
  static const std::map<std::string, std::string> all = {
      {"model.encoder_seq_length", "2048"},
      {"model.global_batch_size", "64"},
      {"model.hidden_size", "4096"},
      {"model.max_position_embeddings", "2048"},
      {"model.micro_batch_size", "1"},
      {"model.num_attention_heads", "32"},
      {"model.num_layers", "16"},
      {"model.optim.name", "distributed_fused_adam"},
      {"model.tensor_model_parallel_size", "4"},
      {"model.tokenizer.type", "GPT2BPETokenizer"},
      {"trainer.devices", "8"},
      {"trainer.num_nodes", "4"},
      {"trainer.precision", "bf16"}};
  return all;
}

TEST_CASE("a broken value of any NeMo key that is read is refused or named") {
  // Names, which any word can be, and what only fine-tuning looks at.
  const std::set<std::string, std::less<>> free_text = {"exp_manager.name",
                                                        "name",
                                                        "run.name",
                                                        "model.tokenizer.library",
                                                        "model.tokenizer.model",
                                                        "model.tokenizer.type",
                                                        "model.peft.lora_tuning.layer_selection"};
  const ScratchFolder folder;
  LibraryCache cache(shipped());
  const auto base = must(import_nemo(cache, yaml_of(nemo_values()), "run.yaml", {}));
  CHECK(base.of_file == 0);
  CHECK(base.keys.size() > 60);
  std::vector<std::string> values = broken_values();
  values.insert(values.end(), {"[1, 2]", "{a: 1}", "''"});
  for (const std::string& key : base.keys) {
    if (free_text.contains(key)) continue;
    for (const std::string& value : values) {
      auto changed = nemo_values();
      changed[key] = value;
      CAPTURE(key);
      CAPTURE(value);
      const auto read = import_nemo(cache, yaml_of(changed), "run.yaml", {});
      check_named(read, last_part(key));
    }
  }
}

TEST_CASE("a broken value of any config.json key that is read is refused or named") {
  // Names, a switch of how many models use a window, and parts that are only told to be left out.
  const std::set<std::string, std::less<>> free_text = {
      "_name_or_path", "name_or_path", "architectures", "vision_config", "audio_config"};
  // An empty list of layers is as good as none.
  const std::set<std::string, std::less<>> lists = {
      "layer_types",    "layers_block_type", "mlp_only_layers", "mlp_layer_types",   "moe_layers",
      "attn_type_list", "moe_layer_freq",    "indexer_types",   "attn_layer_indices"};
  for (const char* name : {"llama.json", "deepseek.json"}) {
    const Json config = parse_json(fixture(name), name).value();
    const auto base = must(import_hf_config(spec::default_library(), json_text(config), name));
    CHECK(base.keys.size() > 20);
    for (const std::string& key : base.keys) {
      if (free_text.contains(key)) continue;
      for (const Json& value : {Json("four"), Json(-2), Json(1e300), Json(2.5), Json::array(),
                                Json::object(), Json(1e20)}) {
        if (value.empty() && lists.contains(key)) continue;
        Json changed = config;
        changed[key] = value;
        CAPTURE(key);
        const std::string text = json_text(changed);
        CAPTURE(text);
        const auto read = import_hf_config(spec::default_library(), text, "config.json");
        check_named(read, key);
      }
    }
  }
}

TEST_CASE("what a file gets wrong ends every command, unless a flag sets that key") {
  const ScratchFolder folder;
  const std::string bad =
      with(arguments, "--tensor-model-parallel-size 2", "\\\n --tensor-model-parallel-size $TP");
  const std::string place = (folder.folder() / "run.sh").string() + ":2: ";
  CHECK(
      sentence(read_text(folder, "run.sh", bad, four_nodes)) ==
      place +
          "--tensor-model-parallel-size is not certain (TP has no value in this file); write it in "
          "its place, or " +
          std::string(run_it_instead));
  ImportHints flags = four_nodes;
  flags.by_flags = {"tensor-model-parallel-size"};
  const auto read = read_text(folder, "run.sh", bad, flags);
  REQUIRE(read);
  CHECK(names_key(read, "tensor-model-parallel-size"));
}

TEST_CASE(
    "what is known to be left out is a note of the job, what another launcher decides an error") {
  const ScratchFolder folder;
  const auto told =
      read_text(folder, "run.sh", arguments + " --rampup-batch-size 16 16 100", four_nodes);
  REQUIRE(told);
  CHECK(names_key(told, "rampup-batch-size"));
  const auto refused =
      read_text(folder, "run.sh", arguments + " --zero-stage 3 --deepspeed", four_nodes);
  CHECK(contains(sentence(refused), "--zero-stage: ZeRO's stage and batch come from DeepSpeed"));
  ImportHints hints = four_nodes;
  hints.ignored = {"zero-stage", "deepspeed"};
  CHECK(names_key(read_text(folder, "run.sh", arguments + " --zero-stage 3 --deepspeed", hints),
                  "zero-stage"));
}

TEST_CASE("a number of nodes that sbatch cannot read is refused where nothing else says it") {
  const ScratchFolder folder;
  const std::string script = "#SBATCH --nodes=$N\n" + arguments + "\n";
  ImportHints hints{.cluster = "hgx-h200"};
  CHECK(sentence(read_text(folder, "run.sh", script, hints)) ==
        (folder.folder() / "run.sh").string() +
            ":1: --nodes is '$N' (sbatch takes a whole number); correct it or give --nodes");
  CHECK(read_text(folder, "run.sh", script, four_nodes));
}

}  // namespace
}  // namespace triplepoint::formats
