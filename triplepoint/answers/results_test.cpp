// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/answers/results.h"

#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "triplepoint/base/json.h"

#include "triplepoint/answers/document.h"

namespace triplepoint::answers {
namespace {

using metrics::measure;
using metrics::Metrics;

run::Run two_stages() {
  run::Run run;
  run.memory = {{.weights = 10 * unit::GiB,
                 .gradients = 20 * unit::GiB,
                 .optimizer = 30 * unit::GiB,
                 .activations = 5 * unit::GiB},
                {.weights = 10 * unit::GiB,
                 .gradients = 20 * unit::GiB,
                 .optimizer = 30 * unit::GiB,
                 .activations = 4 * unit::GiB,
                 .logits = 3 * unit::GiB,
                 .reserve = 1 * unit::GiB}};
  run.memory_limit = 80 * unit::GiB;
  run.timeline.num_ranks = 2;
  run.timeline.types = {{.name = "gemm", .kind = run::SpanKind::compute}};
  for (int32_t rank : {0, 1}) {
    run.timeline.spans.push_back(
        {.begin = Instant(0), .end = Instant(1000000000), .rank = rank, .stage = rank});
    run.devices.push_back({.index = rank, .slot = rank, .rank = rank});
    run.summaries.push_back({.power_mean_w = 500.0, .energy_j = 1000.0, .die_mean_c = 60.0 + rank});
  }
  run.steps = {{.begin = Instant(0), .end = Instant(2000000000), .samples = 8, .tokens = 8 * 100}};
  run.model_flops = 1 * unit::PFLOP;
  run.peak_flops = 1 * unit::PFLOP / unit::s;
  return run;
}

TEST_CASE("every promised key is there, and what is unknown is null") {
  const run::Run run = two_stages();
  const Json json = results_json(run, measure(run));
  for (const char* key :
       {"verdict", "memory_gib", "step_time_s", "tokens_per_s", "tokens_per_s_per_gpu",
        "model_tflops_per_gpu", "mfu", "hfu", "bubble_fraction", "kernel_time_s", "stages",
        "exposed_communication_s", "power_w", "energy_j", "joules_per_token", "samples_per_s_mj",
        "temperature_c", "sm_clock_mhz", "throttle"})
    CHECK_MESSAGE(json.contains(key), key);
  for (const char* key : {"total", "compute", "send_recv", "all_gather", "reduce_scatter",
                          "all_reduce", "all_to_all", "memory", "other"}) {
    CHECK_MESSAGE(json["kernel_time_s"].contains(key), key);
    CHECK_MESSAGE(json["stages"][1].contains(key), key);
  }
  CHECK(json["verdict"] == "ok");
  CHECK(json["hfu"].is_null());
  CHECK(json["sm_clock_mhz"]["mean"].is_null());
  CHECK(json["mfu"] == 0.25);
  CHECK(json["power_w"]["per_gpu"].size() == 2);
  CHECK(json["stages"][1]["temperature_mean_c"] == 61.0);
  CHECK(json["throttle"].is_object());
}

TEST_CASE("what the maps of a page draw of each GPU is in the results") {
  const run::Run run = two_stages();
  Metrics metrics = measure(run);
  metrics.throttled_per_gpu = {0.25, 0.5};
  metrics.memory_power_per_gpu_w = {80, 90};
  metrics.links.pcie_received_per_gpu_bytes = {1e9, 2e9};
  metrics.links.pcie_sent_per_gpu_bytes = {3e9, 4e9};
  const Json json = results_json(run, metrics);
  CHECK(json["throttled_per_gpu"] == Json({0.25, 0.5}));
  CHECK(json["power_w"]["memory_per_gpu"] == Json({80.0, 90.0}));
  CHECK(json["links"]["pcie_received_per_gpu_bytes"] == Json({1e9, 2e9}));
  CHECK(json["links"]["pcie_sent_per_gpu_bytes"] == Json({3e9, 4e9}));
}

TEST_CASE("memory is that of the worst stage, and its parts add up") {
  const run::Run run = two_stages();
  const Json memory = results_json(run, measure(run))["memory_gib"];
  CHECK(memory["worst_stage"] == 1);
  CHECK(memory["limit"] == 80);
  double sum = 0;
  for (const char* part : {"weights", "gradients", "optimizer", "activations", "other"})
    sum += memory[part].get<double>();
  CHECK(memory["total"].get<double>() == doctest::Approx(sum));
}

TEST_CASE("keys and names are unique, and every key says what it is") {
  std::set<std::string_view> seen;
  for (const QuantityGroup& group : quantity_groups())
    for (const Quantity& quantity : group.quantities) {
      CAPTURE(quantity.key);
      if (!quantity.key.empty()) CHECK(seen.insert(quantity.key).second);
      if (!quantity.name.empty() && quantity.name != quantity.key)
        CHECK(seen.insert(quantity.name).second);
      CHECK_FALSE((quantity.name.empty() && quantity.key.empty()));
    }
}

TEST_CASE("views without room for all take name, unit and digits from the catalogue") {
  std::vector<std::string> titles;
  for (const JobColumn& column : job_columns())
    titles.push_back(column.title());
  CHECK(holds(titles, "tokens/s"));
  CHECK(holds(titles, "peak (°C)"));
  CHECK(text_of(quantity_of("sm_clock_mhz.mean"), 987.6) == "987.6 MHz");
  CHECK(text_of(quantity_of("mfu"), 0.412) == "41 %");
}

TEST_CASE("a recording without counters does not know what it sent") {
  run::Run run = two_stages();
  CHECK(results_json(run, measure(run))["links"]["scale_up_bytes"].is_null());
  for (run::DeviceSummary& device : run.summaries)
    device.scale_up_bytes = 0;
  CHECK(results_json(run, measure(run))["links"]["scale_up_bytes"] == 0);
}

TEST_CASE("lists among settings are words") {
  run::Run run = two_stages();
  run.manifest.job.emplace();
  run.manifest.job->plan.overlap_tensor = run.manifest.job->plan.overlap_gradient = true;
  const auto settings = settings_of(run);
  CHECK(std::ranges::count(
            settings, std::pair<std::string, std::string>("overlap", "tensor, gradient")) == 1);
}

TEST_CASE("the schema has a place for every key of an object") {
  const Json schema = results_schema();
  const Json json = results_json(two_stages(), measure(two_stages()));
  for (const auto& outer : json.items()) {
    REQUIRE_MESSAGE(schema["properties"].contains(outer.key()), outer.key());
    const Json& described = schema["properties"][outer.key()];
    if (!outer.value().is_object() || !described.contains("properties")) continue;
    for (const auto& inner : outer.value().items())
      CHECK_MESSAGE(described["properties"].contains(inner.key()), outer.key(), ".", inner.key());
  }
}

TEST_CASE("a job that does not fit shows its memory and no speed") {
  run::Run run = two_stages();
  run.manifest.fits_memory = false;
  const Json json = results_json(run, measure(run));
  CHECK(json["verdict"] == "oom");
  CHECK(json["memory_gib"]["total"] == 68);
  CHECK(!json.contains("step_time_s"));
  CHECK(!json.contains("power_w"));
  std::set<std::string> filled;
  const auto row = results_row(run, measure(run));
  for (size_t i = 0; i < row.size(); ++i)
    if (!row[i].empty()) filled.insert(std::string(results_columns()[i]->name));
  CHECK(filled.count("verdict") == 1);
  CHECK(filled.count("memory_total_gib") == 1);
  CHECK(filled.count("step_time_s") == 0);
  CHECK(filled.count("power_mean_w") == 0);
}

TEST_CASE("a plan that does not divide has no data-parallel size, and is shown all the same") {
  run::Run run;
  run.manifest.job.emplace();
  run.manifest.job->cluster.num_nodes = 1;
  for (int64_t size : {int64_t{0}, int64_t{-1}, int64_t{3}, int64_t{16}, int64_t{1} << 62}) {
    run.manifest.job->plan.tensor_parallel_size = size;
    CHECK(results_json(run, measure(run))["configuration"]["data_parallel_size"].is_null());
    CHECK(results_row(run, {}).size() == results_columns().size());
  }
  run.manifest.job->plan.tensor_parallel_size = 4;
  run.manifest.job->plan.micro_batch_size = 0;
  const Json configuration = results_json(run, measure(run))["configuration"];
  CHECK(configuration["data_parallel_size"] == 2);
  CHECK(configuration["num_microbatches"].is_null());
}

TEST_CASE("a stage's heat is that of all its devices, also of ranks the timeline leaves out") {
  run::Run run = two_stages();
  run.manifest.job.emplace();
  run.manifest.job->cluster.gpus_per_node = 4;
  run.manifest.job->plan.tensor_parallel_size = 2;
  run.manifest.job->plan.pipeline_parallel_size = 2;
  run.timeline.num_ranks = 4;
  run.timeline.spans[1].rank = 2;  // ranks 1 and 3 do as 0 and 2 do
  for (int32_t rank : {2, 3}) {
    run.devices.push_back({.index = rank, .rank = rank});
    run.summaries.push_back({.die_mean_c = 70.0 + 10 * (rank - 2)});
  }
  const Metrics m = measure(run);
  REQUIRE(m.stages.size() == 2);
  CHECK(m.stages[0].die_mean_c.value() == doctest::Approx((60.0 + 61) / 2));
  CHECK(m.stages[1].die_mean_c.value() == doctest::Approx(75));
}

TEST_CASE("a row has a cell for every column, and its numbers are those of the object") {
  const run::Run run = two_stages();
  const Metrics m = measure(run);
  const auto columns = results_columns();
  const auto row = results_row(run, m);
  REQUIRE(row.size() == columns.size());
  const auto cell = [&](std::string_view name) {
    return row[as_size(std::ranges::find(columns, name, &Quantity::name) - columns.begin())];
  };
  const Json json = results_json(run, m);
  CHECK(std::stod(cell("step_time_s")) == json["step_time_s"]);
  CHECK(std::stod(cell("kernel_compute_s")) == json["kernel_time_s"]["compute"]);
  CHECK(std::stod(cell("memory_other_gib")) == json["memory_gib"]["other"]);
  CHECK(cell("hfu").empty());
  CHECK(cell("model").empty());  // no job, no model
}

TEST_CASE("numbers of single devices stay out of the object where there are very many") {
  run::Run run;
  Metrics metrics;
  run.devices.resize(5000);
  metrics.power_per_gpu_w.assign(5000, 600);
  metrics.power_mean_w = 600;
  const Json json = results_json(run, metrics);
  CHECK(json["power_w"]["mean"] == 600);
  CHECK(!json["power_w"].contains("per_gpu"));
  CHECK(json.contains("tokens_per_s_per_gpu"));
  run.devices.resize(32);
  CHECK(results_json(run, metrics)["power_w"].contains("per_gpu"));
}

// ---- inference

/// One GPU that spends two seconds on a batch of eight sequences.
run::Run one_pass(spec::Task task) {
  run::Run run;
  spec::Job job;
  job.task = task;
  job.model.sequence_length = 100;
  job.plan.global_batch_size = 8;
  job.cluster.num_nodes = job.cluster.gpus_per_node = 1;
  run.manifest.job = job;
  run.memory = {{.weights = 10 * unit::GiB, .activations = 5 * unit::GiB}};
  run.devices.push_back({.index = 0, .slot = 0, .rank = 0});
  run.summaries.push_back({.power_mean_w = 500.0, .energy_j = 1000.0});
  const int64_t tokens = task == spec::Task::decode ? 8 : 800;
  run.steps = {{.begin = Instant(0), .end = Instant(2000000000), .samples = 8, .tokens = tokens}};
  run.model_flops = run.hardware_flops = 1 * unit::PFLOP;
  run.peak_flops = 1 * unit::PFLOP / unit::s;
  return run;
}

TEST_CASE("a pass of prefill is the wait for the first token, one of decode that for the next") {
  const Json prompt =
      results_json(one_pass(spec::Task::prefill), measure(one_pass(spec::Task::prefill)));
  CHECK(prompt["prompt_tokens_per_s"] == 400.0);
  CHECK(prompt["time_to_first_token_s"] == 2.0);
  CHECK_FALSE(prompt.contains("generated_tokens_per_s"));
  CHECK_FALSE(prompt.contains("time_per_output_token_s"));
  const Json token =
      results_json(one_pass(spec::Task::decode), measure(one_pass(spec::Task::decode)));
  CHECK(token["generated_tokens_per_s"] == 4.0);
  CHECK(token["time_per_output_token_s"] == 2.0);
  CHECK(token["joules_per_token"] == 125.0);
  CHECK_FALSE(token.contains("time_to_first_token_s"));
}

TEST_CASE("what only training has is absent of inference, not zero") {
  for (const spec::Task task : {spec::Task::prefill, spec::Task::decode}) {
    const run::Run run = one_pass(task);
    const Metrics metrics = measure(run);
    CHECK(metrics.mfu.value() == doctest::Approx(0.5));
    CHECK_FALSE(metrics.hfu);
    CHECK_FALSE(metrics.samples_per_s_mj);
    const Json json = results_json(run, metrics);
    CHECK(json["memory_gib"]["gradients"].is_null());
    CHECK(json["memory_gib"]["optimizer"].is_null());
    CHECK(json["configuration"]["recompute"].is_null());
    const auto columns = results_columns();
    const auto cells = results_row(run, metrics);
    for (std::size_t i = 0; i < columns.size(); ++i)
      for (const char* training : {"memory_gradients_gib", "memory_optimizer_gib", "recompute",
                                   "schedule", "hfu", "samples_per_s_mj"})
        if (columns[i]->name == training) CHECK_MESSAGE(cells[i].empty(), training);
  }
}

TEST_CASE("training knows no times of tokens") {
  const run::Run run = one_pass(spec::Task::pretrain);
  const Metrics metrics = measure(run);
  const Json json = results_json(run, metrics);
  for (const char* key : {"prompt_tokens_per_s", "time_to_first_token_s", "generated_tokens_per_s",
                          "time_per_output_token_s"})
    CHECK_FALSE(json.contains(key));
  CHECK(metrics.samples_per_s_mj);
  CHECK(json["memory_gib"]["gradients"] == 0.0);
  CHECK_FALSE(metrics::is_inference(run::Run{}));
}

DataTable table_of(const char* name, double value) {
  DataTable table{.name = name, .title = "", .columns = {{"value", "value"}}};
  table.add({value});
  return table;
}

TEST_CASE("document: JSON has the verdict, named tables, and what numbers say more exactly") {
  Document document{.kind = "test", .title = "", .facts = "", .verdict = "Do it."};
  document.sections = {{.id = "", .title = "", .tables = {table_of("a", 1), table_of("", 2)}},
                       {.id = "", .title = "", .tables = {table_of("b", 3)}}};
  document.numbers = {{"b", "finer"}};
  CHECK(document_json(document) ==
        Json({{"b", "finer"}, {"verdict", "Do it."}, {"a", {{{"value", 1.0}}}}}));
}

TEST_CASE("document: CSV is one table, the first with a name unless another is asked for") {
  Document document;
  document.sections = {
      {.id = "", .title = "", .tables = {table_of("", 1), table_of("a", 2), table_of("b", 3)}}};
  CHECK(document_csv(document) == "value\n2\n");
  CHECK(document_csv(document, "b") == "value\n3\n");
  CHECK(document_csv(document, "c").empty());
}

}  // namespace

}  // namespace triplepoint::answers
