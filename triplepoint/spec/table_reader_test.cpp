// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/spec/table_reader.h"

#include <doctest/doctest.h>

#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/fault.h"
#include "triplepoint/spec/load.h"

namespace triplepoint::spec {
namespace {

Fault read(std::string_view text) {
  const Result<Fault> fault = parse_fault(text);
  REQUIRE_MESSAGE(fault.has_value(), fault.error().what);
  return *fault;
}

std::string refusal(std::string_view text) {
  const Result<Fault> fault = parse_fault(text);
  REQUIRE(!fault.has_value());
  return fault.error().what;
}

TEST_CASE("a key of thousands of parts is refused by its line, dots elsewhere are not counted") {
  std::string deep = "a = 1\nb";
  for (int i = 0; i < 100'000; ++i)
    deep += ".b";
  const auto refused = parse_toml(deep + " = 1\n", "x.toml");
  REQUIRE(!refused);
  CHECK(refused.error().what.starts_with("x.toml:2: a key of more than 64 parts"));
  const std::string dots(200, '.');
  CHECK(parse_toml("# " + dots + "\na = \"" + dots + "\"\nb = \'" + dots + "\'\nc = [" +
                       "1.5, 2.5]\nd.e.f = 1\n",
                   "x.toml"));
}

TEST_CASE("numbers no cluster has are refused with the range and the line") {
  const auto refused = [](const char* line) {
    const auto job = parse_job(
        default_library(),
        std::string("model = \"tiny-gpt\"\n[cluster]\nbase = \"hgx-h200\"\n") + line, "x.toml");
    REQUIRE(!job);
    return job.error().what;
  };
  CHECK(refused("[cluster.scale_up]\nbandwidth = \"1e-320 GB/s\"") ==
        "x.toml:5: cluster.scale_up.bandwidth is \"1e-320 GB/s\" (a bandwidth here is 0 or between "
        "1 kB/s and 1000 PB/s); write such a one");
  CHECK(contains(refused("[cluster.scale_up]\nlaunch = \"1e300 s\""), "a time here is"));
  CHECK(contains(refused("[cluster.scale_up]\nefficiency = 1e300"), "a share here is"));
  CHECK(contains(refused("[cluster.chassis]\ninlet = \"-300 C\""), "between -273.15 and 1000 C"));
}

TEST_CASE("a line says where, what and when") {
  const Fault cap = read("gpu=3,power=0.25@120s..300s");
  CHECK(cap.kind == FaultKind::power);
  CHECK(cap.gpu == 3);
  CHECK(cap.share == 0.25);
  CHECK(cap.begin == 120 * unit::s);
  CHECK(cap.end == 300 * unit::s);
  const Fault heat = read("inlet=+10@5min..20min");
  CHECK(heat.rise == 10 * unit::K);
  CHECK(heat.end == 1200 * unit::s);
  CHECK(!heat.node);
  const Fault flap = read("node=2,link=0.1,every=2s");
  CHECK(flap.period == 2 * unit::s);
  CHECK(flap.begin == Seconds());
  CHECK(!flap.end);
  CHECK(read("node=1,lost=5min@10min").restart == 300 * unit::s);
}

TEST_CASE("what is written reads back as the same fault") {
  for (const char* text :
       {"gpu=3,power=0.25@120s..300s", "node=1,fan=0.3@60s", "inlet=+10@5min..20min",
        "inlet=-4.5 K", "node=2,link=0.1,every=2s", "node=1,lost=5min,every=30min@10min",
        "gpu=5,heat_path=2", "node=0,host=3"}) {
    const Fault fault = read(text);
    CHECK(read(to_text(fault)) == fault);
  }
}

TEST_CASE("what cannot be read is refused with a way out") {
  CHECK(contains(refusal("gpu=3"), "does not name a failing part"));
  CHECK(contains(refusal("powr=0.5"), "power"));
  CHECK(contains(refusal("gpu=three,power=0.5"), "\"three\" is no number for gpu"));
  CHECK(contains(refusal("power"), "has no value"));
  CHECK(contains(refusal("power=0.5,fan=0.5"), "of one kind"));
  CHECK(!refusal("power=0.5@noon").empty());
  CHECK(!refusal("").empty());
}

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
  const auto file = must(parse_job(library, R"(
model = { base = "llama3-8b", sequence_length = 4096 }
cluster = { base = "dgx-h100", num_nodes = 2 }
stack = { base = "megatron-core", cuda_graphs = true }
plan = { tensor_parallel_size = 4, global_batch_size = 64, lora = { targets = ["attention_qkv"] } }
environment = { power_limit = "600 W" }
)",
                                   "jobs.csv"));
  for (int turn = 0; turn < 2; ++turn) {
    auto row = must(job_of(cells));
    row.name = file.name;
    CHECK(row == file);
    std::ranges::reverse(cells);
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

TEST_CASE("a part of a node keeps the slots that it uses") {
  const auto job = must(job_of({{"model", "llama3-8b"},
                                {"cluster", "dgx-h100"},
                                {"cluster.gpus_per_node", "2"},
                                {"plan.global_batch_size", "64"}}));
  CHECK(job.cluster.chassis.slots.size() == 2);
  CHECK(job.cluster.scale_up.domain_size == 2);
}

TEST_CASE("the keys of a job include those of what may be absent") {
  const std::vector<std::string> keys = job_keys();
  for (const char* key : {"task", "model", "model.moe.num_experts", "cluster.gpu.kernels.hbm_share",
                          "plan.lora.rank", "environment.power_limit"})
    CHECK(holds(keys, key));
}

}  // namespace

}  // namespace triplepoint::spec
