// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/text.h"

#include "triplepoint/formats/fixtures_testing.h"
#include "triplepoint/formats/yaml_document.h"

namespace triplepoint::formats {
namespace {

FolderImport import_all(const ScratchFolder& folder) {
  const auto imported = import_folder(spec::default_library(), folder.folder(), {});
  REQUIRE_MESSAGE(imported.has_value(), (imported ? "" : imported.error().what));
  return *imported;
}

TEST_CASE("a folder's jobs come in natural order, other files are named as skipped") {
  const ScratchFolder folder;
  folder.file("b/job10.yaml", with(fixture("lora.yaml"), "name: lora", "name: ten"));
  folder.file("b/job9.yaml", with(fixture("lora.yaml"), "adapter_dim: 16", "adapter_dim: 9"));
  folder.file("a/run.sh", fixture("pretrain_gpt.sh"));
  folder.file("a/config.json", fixture("llama.json"));
  folder.file("notes.txt", "nothing");
  const FolderImport import = import_all(folder);
  REQUIRE(import.rows.size() == 3);
  CHECK(import.rows[0].path == "a/run.sh");
  CHECK(import.rows[1].path == "b/job9.yaml");
  CHECK(import.rows[2].path == "b/job10.yaml");
  CHECK(import.skipped == std::vector<std::string>{"a/config.json", "notes.txt"});
}

TEST_CASE(
    "a file with the same bytes is a copy, one that cannot be read is a row with its problem") {
  const ScratchFolder folder;
  folder.file("1.yaml", fixture("lora.yaml"));
  folder.file("2.yaml", fixture("lora.yaml"));
  folder.file("3.yaml", "trainer: {}\nmodel: {}\nmodel: {}\n");
  const FolderImport import = import_all(folder);
  REQUIRE(import.rows.size() == 3);
  CHECK(import.distinct() == 2);
  CHECK(import.rows[1].identical_to == "1.yaml");
  CHECK_FALSE(import.rows[1].same_job_as.has_value());
  CHECK_FALSE(import.rows[2].imported.has_value());
  CHECK(import.rows[2].problem.ends_with(
      "3.yaml:3: key 'model' is given twice (the first is in line 2); leave one out"));
}

TEST_CASE("an option that changes nothing is found by the job beside it") {
  const ScratchFolder folder;
  const std::string base = with(fixture("pretrain-h200.yaml"), "num_nodes: 4", "num_nodes: 2");
  folder.file("h200_00000.yaml", with(base, "overlap_grad_sync: true", "overlap_grad_sync: false"));
  folder.file("h200_10000.yaml", base);
  const FolderImport import = import_all(folder);
  REQUIRE(import.rows.size() == 2);
  CHECK(import.rows[1].same_job_as == "h200_00000.yaml");
  CHECK(finds(
      *import.rows[1].imported, spec::DiagnosisCode::inert_option,
      spec::Diagnosis::Severity::warning,
      (folder.folder() / "h200_10000.yaml").string() +
          ": is the same job as h200_00000.yaml (model.optim.overlap_grad_sync changes nothing "
          "here); leave one of the two out"));
}

TEST_CASE("a Slurm script in a folder beside the file names its GPUs and nodes") {
  const ScratchFolder folder;
  folder.file("job.yaml", fixture("lora.yaml"));
  folder.file("scripts/job.sh",
              "#!/bin/bash\n#SBATCH --constraint=H100\n#SBATCH --nodes 4\nsrun x.py\n");
  const auto imported =
      must(import_file(spec::default_library(), folder.folder() / "job.yaml", {}));
  CHECK(imported.job.cluster.name == "hgx-h100");
}

TEST_CASE("files are recognized by what stands in them") {
  CHECK(recognize(fixture("lora.yaml")) == FileKind::nemo_yaml);
  CHECK(recognize(fixture("pretrain_gpt.sh")) == FileKind::megatron_args);
  CHECK(recognize(fixture("arguments.txt")) == FileKind::megatron_args);
  CHECK(recognize(fixture("llama.json")) == FileKind::hf_config);
  CHECK(recognize("#!/bin/sh\n#SBATCH -N 4\nsrun x\n") == FileKind::job_script);
  CHECK(recognize("model: x\n") == FileKind::unknown);
}

TEST_CASE("what sbatch is asked for is read in each of its spellings") {
  const auto script =
      must(read_job_script("#SBATCH -N4\n#SBATCH --gres=gpu:h100:8 # all\n#SBATCH --time=1:00\n"
                           "export CUDA_DEVICE_MAX_CONNECTIONS=1\nsrun python -u a/run.py x\n",
                           "job.sh"));
  CHECK(script.num_nodes == 4);
  CHECK(script.gpus_per_node == 8);
  CHECK(script.gpu_type == "h100");
  CHECK(script.entry == "run.py");
  CHECK(script.cuda_device_max_connections == 1);
  CHECK_FALSE(read_job_script("echo no\n", "x.sh").has_value());
  CHECK(read_job_script("cd x\nsbatch <<EOF\n#!/bin/sh\n#SBATCH -N 4\n", "x.sh")->num_nodes == 4);
}

TEST_CASE("YAML keeps lines, follows aliases and refuses what grows without end") {
  const auto tree = must(parse_yaml("a: &x {b: 1}\nc: *x\nd: [1, 'null', ~]\n", "x.yaml"));
  CHECK(tree.entries[1].value.entries[0].value.scalar == "1");
  CHECK(tree.entries[2].value.line == 3);
  CHECK(tree.entries[2].value.items[2].kind == YamlNode::Kind::null);
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i)
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
            ", *a" + std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + ", *a" +
            std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + ", *a" +
            std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + ", *a" +
            std::to_string(i - 1) + "]\n";
  CHECK_FALSE(parse_yaml(bomb, "x.yaml").has_value());
  CHECK_FALSE(parse_yaml(std::string(1000, '['), "x.yaml").has_value());
  CHECK_FALSE(parse_yaml("a: b: c: d", "x.yaml").has_value());
  const ScratchFolder folder;
  folder.file("x.yaml", "base_model: a\nbase_model: b\n");
  CHECK(contains(import_file(spec::default_library(), folder.path("x.yaml"), {}).error().what,
                 "key 'base_model' is given twice"));
}

}  // namespace
}  // namespace triplepoint::formats
