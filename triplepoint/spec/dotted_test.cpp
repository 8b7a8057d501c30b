// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/dotted.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "triplepoint/spec/job_reader.h"

namespace triplepoint::spec {
namespace {

using Cells = std::vector<std::pair<std::string, std::string>>;

TomlValue tree_of(const Cells& cells) {
  TomlValue root;
  for (const auto& [key, cell] : cells)
    set_dotted(root, key, cell_value(cell, 7));
  return root;
}

Result<Job> job_of(const Cells& cells) {
  const Library library = default_library();
  ReadScope scope;
  scope.library = &library;
  scope.file = "jobs.csv";
  return read_job(scope, tree_of(cells));
}

TEST_CASE("a cell is what it looks like") {
  CHECK(cell_value("true", 1).truth);
  CHECK(cell_value(" 8 ", 1).integer == 8);
  CHECK(cell_value("0.5", 1).number == doctest::Approx(0.5));
  CHECK(cell_value("700 W", 1).text == "700 W");
  CHECK(cell_value("nan", 1).is(TomlValue::Kind::text));
  const TomlValue list = cell_value("[1, \"two\", three]", 1);
  REQUIRE(list.items.size() == 3);
  CHECK(list.items[0].integer == 1);
  CHECK(list.items[1].text == "two");
  CHECK(list.items[2].text == "three");
  CHECK(cell_value("[]", 1).items.empty());
}

TEST_CASE("a row of cells is the job file with the same keys, whatever their order") {
  Cells cells = {{"model", "llama3-8b"},
                 {"model.sequence_length", "4096"},
                 {"cluster", "dgx-h100"},
                 {"cluster.num_nodes", "2"},
                 {"stack.cuda_graphs", "true"},
                 {"stack", "megatron-core"},
                 {"plan.tensor_parallel_size", "4"},
                 {"plan.global_batch_size", "64"},
                 {"plan.lora.targets", "[attention_qkv]"},
                 {"environment.power_limit", "600 W"}};
  const Library library = default_library();
  const auto file = parse_job(library, R"(
model = { base = "llama3-8b", sequence_length = 4096 }
cluster = { base = "dgx-h100", num_nodes = 2 }
stack = { base = "megatron-core", cuda_graphs = true }
plan = { tensor_parallel_size = 4, global_batch_size = 64, lora = { targets = ["attention_qkv"] } }
environment = { power_limit = "600 W" }
)",
                              "jobs.csv");
  REQUIRE_MESSAGE(file, file.error().what);
  for (int turn = 0; turn < 2; ++turn) {
    auto row = job_of(cells);
    REQUIRE_MESSAGE(row, row.error().what);
    row->name = file->name;
    CHECK(*row == *file);
    std::reverse(cells.begin(), cells.end());
  }
}

TEST_CASE("what is wrong with a cell names its key and line") {
  const auto job = job_of({{"model", "llama3-8b"},
                           {"cluster", "dgx-h100"},
                           {"plan.global_batch_size", "64"},
                           {"plan.tensor_parallel_size", "four"}});
  REQUIRE(!job);
  CHECK(job.error().what.starts_with("jobs.csv:7: plan.tensor_parallel_size"));
}

TEST_CASE("a part of a node keeps the seats that it uses") {
  const auto job = job_of({{"model", "llama3-8b"},
                           {"cluster", "dgx-h100"},
                           {"cluster.gpus_per_node", "2"},
                           {"plan.global_batch_size", "64"}});
  REQUIRE_MESSAGE(job, job.error().what);
  CHECK(job->cluster.chassis.seats.size() == 2);
  CHECK(job->cluster.scale_up.domain_size == 2);
}

TEST_CASE("the keys of a job include those of what may be absent") {
  const std::vector<std::string> keys = job_keys();
  for (const char* key : {"task", "model", "model.moe.num_experts", "cluster.gpu.kernels.hbm_share",
                          "plan.lora.rank", "environment.power_limit"})
    CHECK(std::find(keys.begin(), keys.end(), key) != keys.end());
}

}  // namespace
}  // namespace triplepoint::spec
