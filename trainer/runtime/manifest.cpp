// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/manifest.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "triplepoint/base/json.h"

#include "trainer/runtime/token_source.h"

namespace triplepoint::trainer {
namespace {

constexpr int64_t manifest_format = 2;

std::string hexadecimal(uint64_t number) {
  return fmt::format("{:016x}", number);
}

/// Of the text without the checksum itself.
std::string checksum_of(Json manifest) {
  manifest.erase("checksum");
  return hexadecimal(checksum(json_text(manifest)));
}

tl::unexpected<Error> unsound(const Path& file, const std::string& why) {
  return error(
      fmt::format("{}: is no sound manifest of a checkpoint ({}); remove its folder to resume from "
                  "the checkpoint before",
                  file.string(), why));
}

/// The numbers behind a checksum that is right: as manifest_text has written them.
Manifest manifest_of(const Json& json) {
  Manifest manifest;
  manifest.step = json["step"].get<int64_t>();
  manifest.loss = json["loss"].get<double>();
  manifest.identity = {json["seed"].get<uint64_t>(), json["data"].get<std::string>(),
                       json["batch"].get<std::map<std::string, int64_t>>(),
                       json["model"].get<std::map<std::string, int64_t>>()};
  for (const Json& one : json["ranks"])
    manifest.checksums.push_back(std::stoull(one.get<std::string>(), nullptr, 16));
  return manifest;
}

/// The first size that differs, as "hidden_size 64 there and 32 here"; empty where none does.
std::string difference(const std::map<std::string, int64_t>& saved,
                       const std::map<std::string, int64_t>& now) {
  for (const auto& [name, value] : now) {
    const auto there = saved.find(name);
    if (there == saved.end()) return fmt::format("no {} there and {} here", name, value);
    if (there->second != value)
      return fmt::format("{} {} there and {} here", name, there->second, value);
  }
  for (const auto& [name, value] : saved)
    if (now.count(name) == 0) return fmt::format("{} {} there and none here", name, value);
  return {};
}

}  // namespace

uint64_t checksum(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;
  size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
  }
  for (; at < text.size(); ++at)
    hash = (hash ^ static_cast<unsigned char>(text[at])) * 0x100000001b3;
  return hash;
}

TrainIdentity identity_of(const spec::Job& job, uint64_t seed, std::string data) {
  const spec::Model& model = job.model;
  TrainIdentity identity{seed,
                         std::move(data),
                         {{"global_batch_size", job.plan.global_batch_size},
                          {"sequence_length", model.sequence_length}},
                         {{"num_layers", model.num_layers},
                          {"hidden_size", model.hidden_size},
                          {"ffn_hidden_size", model.ffn_hidden_size},
                          {"num_attention_heads", model.num_attention_heads},
                          {"num_query_groups", model.num_query_groups},
                          {"vocabulary_size", model.vocabulary_size},
                          {"tied_embeddings", model.tied_embeddings ? 1 : 0}}};
  if (!model.moe) return identity;
  identity.model["moe.num_experts"] = model.moe->num_experts;
  identity.model["moe.router_topk"] = model.moe->router_topk;
  identity.model["moe.ffn_hidden_size"] = model.moe->ffn_hidden_size;
  return identity;
}

Result<std::string> data_identity(const std::string& data) {
  const std::string path = data_file(data);
  if (path.empty()) return std::string("synthetic");
  const MappedFile file = TPT_TRY(MappedFile::open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  constexpr size_t most = size_t{1} << 20;
  const uint64_t ends[2] = {checksum(text.substr(0, most)),
                            checksum(text.substr(text.size() - std::min(text.size(), most)))};
  return fmt::format("{} bytes, {}", text.size(),
                     hexadecimal(checksum({reinterpret_cast<const char*>(ends), sizeof ends})));
}

std::string manifest_text(const Manifest& manifest) {
  std::vector<std::string> ranks;
  for (const uint64_t one : manifest.checksums)
    ranks.push_back(hexadecimal(one));
  Json json = {{"format", manifest_format},
               {"step", manifest.step},
               {"loss", manifest.loss},
               {"seed", manifest.identity.seed},
               {"data", manifest.identity.data},
               {"batch", manifest.identity.batch},
               {"model", manifest.identity.model},
               {"ranks", ranks}};
  json["checksum"] = checksum_of(json);
  return json_text(json) + "\n";
}

Result<Manifest> read_manifest(const Path& folder) {
  const Path file = folder / manifest_name;
  const std::string text = TPT_TRY(read_file(file));
  const Json json = TPT_TRY(parse_json(text, file.string()));
  if (!json.is_object() || !json.contains("format") || !json["format"].is_number_integer())
    return unsound(file, "it names no format");
  if (const int64_t format = json["format"].get<int64_t>(); format != manifest_format)
    return error(
        fmt::format("{}: has format {} and this program reads {} (another version has written it); "
                    "resume with that version, or train into an empty folder",
                    file.string(), format, manifest_format));
  if (!json.contains("checksum") || json["checksum"] != checksum_of(json))
    return unsound(file, "its checksum is wrong");
  Manifest manifest = manifest_of(json);
  if (folder.filename() != fmt::format("step-{:08}", manifest.step) || manifest.step < 1)
    return unsound(file, fmt::format("it is of step {}, the folder of another", manifest.step));
  return manifest;
}

Result<void> check_identity(const Path& folder, const TrainIdentity& saved,
                            const TrainIdentity& now) {
  if (const std::string sizes = difference(saved.model, now.model); !sizes.empty())
    return error(
        fmt::format("{}: is the checkpoint of another model ({}); name the folder of this one, or "
                    "an empty one",
                    folder.string(), sizes));
  if (saved.seed != now.seed)
    return error(
        fmt::format("{}: was begun with seed {} (the order of the data depends on it); go on with "
                    "--seed {}",
                    folder.string(), saved.seed, saved.seed));
  if (saved.data != now.data)
    return error(fmt::format(
        "{}: was trained on other data ({} there; {} here); go on with the same --data, "
        "or train into an empty folder",
        folder.string(), saved.data, now.data));
  if (const std::string sizes = difference(saved.batch, now.batch); !sizes.empty())
    return error(
        fmt::format("{}: was trained with other batches ({}; a step would read other samples); set "
                    "it back, or train into an empty folder",
                    folder.string(), sizes));
  return {};
}

}  // namespace triplepoint::trainer
