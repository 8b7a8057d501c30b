// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <map>

#include <doctest/doctest.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

namespace triplepoint::spec {
namespace {

Result<std::vector<Provenance>> provenance_of(const std::string& text) {
  const auto tree = must(parse_toml(text, "x.toml"));
  return collect_provenance(tree, "x.toml");
}

std::string source(const std::string& keys, const std::string& kind = "datasheet") {
  return "[[source]]\nkeys = [" + keys + "]\nkind = \"" + kind + "\"\ncite = \"a sheet\"\n";
}

TEST_CASE("a number is shown with its value, kind and citation") {
  const auto found =
      must(provenance_of("[gpu]\ntitle = \"T\"\ntdp = \"700 W\"\n" + source("\"gpu.tdp\"")));
  REQUIRE(found.size() == 1);
  CHECK(found.front() ==
        Provenance{"gpu.tdp", "700 W", NumberKind::datasheet, "a sheet", "x.toml", 3});
}

TEST_CASE("counts, numbers, quantities and temperatures may have a source, words have none") {
  for (const char* line : {"a = 1\n", "a = 1.5\n", "a = \"1 W\"\n", "a = \"30 C\"\n",
                           "a = [1, 2]\n", "a = [{ b = 1 }]\n", "a = { b = { c = 1 } }\n"}) {
    const auto found = must(provenance_of(std::string("[gpu]\n") + line));
    REQUIRE(found.size() == 1);
    CHECK(found.front().cite.empty());
    CHECK(found.front().kind == NumberKind::assumed);
  }
  for (const char* line : {"a = \"word\"\n", "a = true\n", "a = [\"x\"]\n", "a = \"24.07\"\n"})
    CHECK(provenance_of(std::string("[gpu]\n") + line).value().empty());
}

TEST_CASE("the longest key wins, so that an exception may stand beside a rule") {
  const auto found = must(provenance_of("[gpu]\na = 1\nb = 2\n" + source("\"gpu.*\"") +
                                        source("\"gpu.b\"", "assumed")));
  CHECK(found.at(0).kind == NumberKind::datasheet);
  CHECK(found.at(1).kind == NumberKind::assumed);
}

TEST_CASE("the record of a fit has no source") {
  CHECK(provenance_of("[gpu]\n[fit]\nrows = 12\nresidual = \"3 %\"\n").value().empty());
}

TEST_CASE("a wrong source is refused with the place and a way out") {
  const std::map<std::string, std::string> sentences = {
      {"[gpu]\ntdp = \"700 W\"\n" + source("\"gpu.tpd\""),
       "x.toml:3: source for 'gpu.tpd' (this file has no such number); did you mean \"gpu.tdp\"?"},
      {"[gpu]\ntdp = \"700 W\"\n" + source("\"gpu.tdp\"", "guess"),
       "x.toml:5: source.kind is \"guess\" (an unknown word); known are datasheet, measured, "
       "fitted, assumed"},
      {"[gpu]\n[[source]]\nkeys = [\"gpu.tdp\"]\n",
       "x.toml:2: [source] has no 'kind', 'cite' (they have no default); add them"},
      {"[gpu]\n[[source]]\nkeys = []\nkind = \"assumed\"\ncite = \"\"\n",
       "x.toml:2: a [[source]] with an empty cite (it says where numbers come from); name the data "
       "sheet, measurement or reason"},
      {"[gpu]\n[[source]]\nkeys = []\nkind = \"assumed\"\ncite = \"c\"\nyear = 2020\n",
       "x.toml:6: unknown key 'year' in [source] (it would be ignored); known are keys, kind, "
       "cite"},
  };
  for (const auto& [text, sentence] : sentences) {
    const auto found = provenance_of(text);
    REQUIRE_FALSE(found);
    CHECK(found.error().what == sentence);
  }
}

TEST_CASE("every number of the library has a source") {
  const Library library = default_library();
  int numbers = 0;
  for (const char* folder :
       {"models", "gpus", "clusters", "stacks", "optimizers", "calibrations"}) {
    const auto files = must(list_files(Path(library.root) / folder, ".toml"));
    for (const Path& file : files) {
      const auto found =
          provenance(library, file.lexically_relative(library.root).generic_string());
      CHECK_MESSAGE(found, found.error().what);
      if (!found) continue;
      numbers += static_cast<int>(found->size());
      for (const Provenance& number : *found)
        CHECK_MESSAGE(!number.cite.empty(), number.file << ": " << number.key);
    }
  }
  CHECK(numbers > 500);
}

const Library library = default_library();

TEST_CASE("every model of the library reads, and counts its published parameters within 1 %") {
  const auto names = list_models(library);
  CHECK(names.size() >= 24);
  for (const std::string& name : names) {
    CAPTURE(name);
    const auto model = must(load_model(library, name));
    CHECK(model.name == name);
    REQUIRE(model.published_parameters);
    const ParameterCount count = count_parameters(model);
    CHECK(count.total() / *model.published_parameters == doctest::Approx(1).epsilon(0.01));
    if (model.published_active_parameters)
      CHECK(count.active() / *model.published_active_parameters ==
            doctest::Approx(1).epsilon(0.01));
  }
}

TEST_CASE("coefficients of a library give way to those fitted without a source") {
  Library without = library;
  without.overrides = std::make_shared<const TomlValue>(*parse_toml(R"(
[stacks]
vllm = "megatron-core"
[stacks.megatron-core]
microbatch_gap = "7 ms"
[calibrations.h100.kernels]
hbm_share = 0.5
)",
                                                                    "left_out.toml"));
  CHECK(load_stack(without, "megatron-core")->microbatch_gap == 7 * unit::ms);
  CHECK(load_stack(without, "vllm")->name == "megatron-core");
  CHECK(load_cluster(without, "dgx-h100")->gpu.kernels.hbm_share == 0.5);
  CHECK(load_gpu(without, "h200") == load_gpu(library, "h200"));
  CHECK(!without_source(library, "no such source"));
}

TEST_CASE("every GPU, cluster, stack and optimizer of the library reads") {
  for (const std::string& name : list_gpus(library)) {
    const Result<Gpu> gpu = load_gpu(library, name);
    REQUIRE_MESSAGE(gpu, gpu.error().what);
  }
  for (const std::string& name : list_clusters(library)) {
    const auto cluster = must(load_cluster(library, name));
    if (cluster.shared_cores == 0)  // ranks that share cores have no chassis
      CHECK(cluster.chassis.slots.size() == as_size(cluster.gpus_per_node));
  }
  for (const std::string& name : list_stacks(library)) {
    const Result<Stack> stack = load_stack(library, name);
    REQUIRE_MESSAGE(stack, stack.error().what);
  }
  for (const std::string& name : list_optimizers(library)) {
    const Result<OptimizerState> optimizer = load_optimizer(library, name);
    REQUIRE_MESSAGE(optimizer, optimizer.error().what);
  }
}

TEST_CASE("every GPU of the library but those of other machines has a cluster") {
  for (const std::string& gpu : list_gpus(library))
    if (const auto name = usual_cluster(gpu)) {
      CAPTURE(*name);
      const auto cluster = must(load_cluster(library, *name));
      CHECK(cluster.gpu.name == gpu);
    }
  CHECK(usual_cluster("h100") == "dgx-h100");
  CHECK(!usual_cluster("abacus"));
}

TEST_CASE("drivers' and tables' names of a board lead to the library's") {
  CHECK(gpu_named("NVIDIA H100 80GB HBM3") == "h100");
  CHECK(gpu_named("H100-96GB-HBM2e") == "h100-96gb");
  CHECK(gpu_named("H200-NVL") == "h200-nvl");
  CHECK(gpu_named("V100-SXM2-32GB") == "v100-32gb");
  CHECK(gpu_named("MI350X") == "mi350x");
  CHECK(gpu_named("NVIDIA GH200 480GB") == "gh200");
  CHECK(gpu_named("NVIDIA H20") == "h20");
  CHECK(gpu_named("epoch20") == std::nullopt);
  for (const char* gpu : {"gh200", "a800", "h20", "l40s"})
    CHECK(load_cluster(library, usual_cluster(gpu).value())->gpu.name == gpu);
}

TEST_CASE("a model or cluster is found by the names that people use") {
  const Library library = default_library();
  for (const char* name : {"llama3-70b", "Llama3-70B", "llama3.1-70b", "meta-llama/Llama-3.1-70B"})
    CHECK(load_model(library, name).value().name == "llama3-70b");
  CHECK(load_model(library, "deepseek-ai/DeepSeek-V3").value().name == "deepseek-v3");
  CHECK(load_cluster(library, "H100").value().name == "dgx-h100");
  CHECK_FALSE(load_model(library, "llama9").has_value());
  for (const char* path : {"", "/", "owner/", "./llama3-8b", "/tmp/llama3-8b", "../x/llama3-8b"})
    CHECK_FALSE(load_model(library, path).has_value());
}

TEST_CASE("what is close to another name is answered with it, and unreadable ones are an error") {
  const Library library = default_library();
  CHECK(
      load_model(library, "llama3.1-70").error().what.ends_with("did you mean \"llama3.1-70b\"?"));
  CHECK(load_model(library, "no-such-thing")
            .error()
            .what.ends_with("triplepoint show models prints them; a file ends in .toml"));
  const ScratchFolder folder;
  folder.file("aliases.toml", "[models\n");
  const auto refused = load_model(Library{folder.folder().string()}, "llama3.1-70b");
  CHECK(refused.error().what.starts_with(folder.path("aliases.toml") + ":1: "));
}

TEST_CASE("a model of one's file has its name, needs no source, and begins with another") {
  const ScratchFolder folder;
  const std::string file = folder.file(
      "x.toml", "[model]\nname = \"my-llama\"\nbase = \"llama3-70b\"\nnum_layers = 40\n");
  const auto model = must(load_model(default_library(), file));
  CHECK(model.name == "my-llama");
  CHECK(model.num_layers == 40);
  CHECK(model.hidden_size == load_model(default_library(), "llama3-70b")->hidden_size);
  const std::string unnamed = folder.file("own.toml", "[model]\nbase = \"llama3-70b\"\n");
  CHECK(load_model(default_library(), unnamed)->name == "own");
  const auto refused = load_model(
      default_library(), folder.file("y.toml", "[model]\nnum_leyers = 1\n[sources]\nx = 1\n"));
  CHECK(std::ranges::count(refused.error().what, '\n') == 2);  // unknown keys, missing ones
}

TEST_CASE("every other name means a thing of the library, and is none itself") {
  const Library library = default_library();
  const std::string file = library.root + "/aliases.toml";
  const TomlValue root = parse_toml(read_file(file).value(), file).value();
  for (const TomlEntry& folder : root.entries)
    for (const TomlEntry& alias : folder.value.entries) {
      CAPTURE(alias.key);
      const char* name = folder.key.c_str();
      CHECK(lower_case(alias.key) == alias.key);
      CHECK(name_in_library(library, name, alias.value.text).value() == alias.value.text);
      CHECK(name_in_library(library, name, alias.key).value() == alias.value.text);
    }
}

}  // namespace

}  // namespace triplepoint::spec
