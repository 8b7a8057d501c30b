// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/exposition.h"

#include <map>
#include <regex>
#include <set>
#include <sstream>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/telemetry/live/snapshot_testing.h"

namespace triplepoint::telemetry {
namespace {

TEST_CASE("a job's labels come from its launcher's environment") {
  const std::map<std::string, std::string> environment = {
      {"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NAME", "train"}, {"SLURM_JOB_USER", "ann"},
      {"SLURM_STEP_ID", "0"},   {"SLURM_PROCID", "3"},       {"SLURM_LOCALID", "1"},
      {"SLURM_NTASKS", "16"},   {"SLURM_NNODES", "2"}};
  const JobLabels labels =
      job_of_environment([&](const char* name) { return value_at(environment, name); });
  const std::map<std::string, std::string> by_name(labels.begin(), labels.end());
  CHECK(by_name.at("job_id").find("4711") != std::string::npos);
  CHECK(by_name.at("name") == "train");
  CHECK(by_name.at("user") == "ann");
  CHECK(by_name.at("rank") == "3");
  CHECK(job_of_environment([](const char*) { return std::optional<std::string>(); }).empty());
}

TEST_CASE("labels that Prometheus would refuse are refused") {
  CHECK(parse_job("job=4711, user=ann")->size() == 2);
  CHECK(parse_job("comment=any = text")->front().second == "any = text");
  for (const char* wrong :
       {"", "job", "=1", "1job=2", "a-b=1", "__name=1", "host=x", "a=1,a=2", "a=1,"})
    CHECK_FALSE(parse_job(wrong));
}

TEST_CASE("a job file has a job a line, and need not be there") {
  const Path file =
      std::filesystem::temp_directory_path() / ("job_info_test." + std::to_string(::getpid()));
  CHECK(read_job_file(file)->empty());
  REQUIRE(write_file_atomically(file, "# jobs\njob=1,user=ann\n\n  job=2 \n"));
  const auto jobs = read_job_file(file);
  REQUIRE(jobs);
  CHECK(jobs->size() == 2);
  CHECK(jobs->at(1).front().second == "2");
  REQUIRE(write_file_atomically(file, "nonsense\n"));
  CHECK_FALSE(read_job_file(file));
  std::filesystem::remove(file);
}

using testing::sample_snapshot;

std::string page_of(const Snapshot& snapshot, bool dcgm = false) {
  return exposition(snapshot, {{{"job_id", "4711"}, {"user", "ann"}}}, OwnCost(),
                    {.dcgm_names = dcgm, .version = "1"});
}

bool has(const std::string& page, const std::string& line) {
  return page.find(line + "\n") != std::string::npos;
}

/// Every line is a comment or a sample; families stand together, each with one HELP and one TYPE
/// before its samples; no series occurs twice.
void check_well_formed(const std::string& page) {
  const std::regex sample(
      R"(([a-zA-Z_][a-zA-Z0-9_]*)(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\\n]|\\["\\n])*",?)*\})? -?[0-9.]+(e[+-]?[0-9]+)?)");
  std::istringstream lines(page);
  std::set<std::string> finished, series;
  std::string family;
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    if (line.starts_with("# HELP ")) {
      finished.insert(family);
      family = line.substr(7, line.find(' ', 7) - 7);
      CHECK(finished.count(family) == 0);
      continue;
    }
    if (line.starts_with("# TYPE ")) {
      const bool counter = line.ends_with(" counter");
      CHECK(counter == (line.find("_total ") != std::string::npos ||
                        line.find("ENERGY") != std::string::npos ||
                        line.find("VIOLATION") != std::string::npos));
      continue;
    }
    std::smatch parts;
    REQUIRE(std::regex_match(line, parts, sample));
    CHECK(parts[1] == family);
    CHECK(series.insert(line.substr(0, line.rfind(' '))).second);
  }
}

TEST_CASE("a page keeps to the rules of the text format") {
  check_well_formed(page_of(sample_snapshot()));
  check_well_formed(page_of(sample_snapshot(), true));
  check_well_formed(page_of(Snapshot()));
}

TEST_CASE("values are in base units, labels are escaped") {
  const std::string page = page_of(sample_snapshot());
  const std::string labels = R"(gpu="0",uuid="GPU-a",host="node\"17\"",model="NVIDIA H200")";
  CHECK(has(page, "triplepoint_gpu_power_instant_watts{" + labels + R"(,scope="gpu"} 690.5)"));
  CHECK(has(page, "triplepoint_gpu_sm_clock_hertz{" + labels + "} 1755000000"));
  CHECK(has(page, "triplepoint_gpu_temperature_celsius{" + labels + "} 71"));
  CHECK(has(page, "triplepoint_gpu_utilization_ratio{" + labels + "} 0.98"));
  CHECK(has(page, "triplepoint_gpu_energy_joules_total{" + labels + R"(,scope="gpu"} 1000)"));
  CHECK(has(page, "triplepoint_gpu_throttle_seconds_total{" + labels +
                      R"(,reason="software_power_cap"} 3)"));
  CHECK(has(page, R"(triplepoint_node_cpu_seconds_total{host="node\"17\"",mode="user"} 100)"));
}

TEST_CASE("every metric of ours names its host") {
  std::istringstream lines(page_of(sample_snapshot()));
  int ours = 0;
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("triplepoint_")) continue;
    CAPTURE(line);
    CHECK(line.find(R"(host="node\"17\"")") != std::string::npos);
    ++ours;
  }
  CHECK(ours > 10);
}

TEST_CASE("a GPU that does not answer has no readings, and says so") {
  const std::string page = page_of(sample_snapshot());
  CHECK(has(page,
            R"(triplepoint_gpu_up{gpu="1",uuid="GPU-b",host="node\"17\"",model="NVIDIA H200"} 0)"));
  CHECK(page.find("power_instant_watts{gpu=\"1\"") == std::string::npos);
}

TEST_CASE("what is not a number is not exported") {
  Snapshot snapshot = sample_snapshot();
  for (LiveReading& reading : snapshot.readings)
    reading.value = std::numeric_limits<double>::quiet_NaN();
  const std::string page = page_of(snapshot);
  CHECK(page.find("nan") == std::string::npos);
  CHECK(page.find("power_instant_watts") == std::string::npos);
}

TEST_CASE("only the info series carries a job's labels") {
  const std::string page = page_of(sample_snapshot());
  for (const char* const gpu : {"0", "1"})
    CHECK(
        has(page,
            fmt::format(
                R"(triplepoint_job_info{{host="node\"17\"",job_id="4711",user="ann",gpu="{}"}} 1)",
                gpu)));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);)
    CHECK((line.find("4711") == line.npos || line.starts_with("triplepoint_job_info{")));
}

TEST_CASE("jobs of one host have their own GPUs, and what they share is neither's") {
  const auto jobs = [](std::initializer_list<const char*> texts) {
    const std::vector<JobLabels> all =
        mapped(texts, [](const char* const text) { return parse_job(text).value(); });
    return exposition(sample_snapshot(), all, {}, {.version = "1"});
  };
  const std::string host = R"(triplepoint_job_info{host="node\"17\"",job_id=)";
  const std::string apart = jobs({"job=1,gpus=0", "job=2,gpus=1-3"});
  CHECK(has(apart, host + R"("1",gpus="0",gpu="0"} 1)"));
  CHECK(has(apart, host + R"("2",gpus="1-3",gpu="1"} 1)"));
  const std::string unknown = jobs({"job=1", "job=2"});
  CHECK(has(unknown, host + R"("1"} 1)"));
  CHECK(has(unknown, host + R"("2"} 1)"));
  CHECK(has(jobs({"job=1,gpus=0+1", "job=2,gpus=1"}), host + R"("1",gpus="0+1",gpu="0"} 1)"));
  CHECK_FALSE(parse_job("gpu=1"));
  CHECK(parse_job("instance=3").value() == JobLabels{{"job_instance", "3"}});
}

TEST_CASE("every signal has its own name, whatever it is called") {
  std::set<std::string> names;
  for (const char* signal : {"power_w", "power_instant_w", "energy_j", "tensor_active", "what-ever",
                             "hbm_3_c", "throttle_ns_a", "voltage_v", "x_bytes", "odd"}) {
    run::SeriesSource about;
    about.signal = signal;
    const MetricName metric = metric_of(about);
    CHECK(names.insert(metric.name).second);
    CHECK(std::regex_match(metric.name, std::regex("[a-z][a-z0-9_]*")));
  }
}

TEST_CASE("what a metric means is what it is named after") {
  for (const char* const signal : {"die_c", "power_instant_w", "sm_clock_mhz", "throttle_reasons",
                                   "memory_used_b", "utilization", "energy_j"}) {
    CAPTURE(signal);
    const run::SeriesSource about = {.signal = signal,
                                     .kind = signal == std::string("energy_j")
                                                 ? run::ReadingKind::counter
                                                 : run::ReadingKind::instant};
    std::vector<MetricName> names = dcgm_metrics_of(about);
    names.push_back(metric_of(about));
    for (const MetricName& metric : names) {
      const auto meaning = signal_of_metric(metric.name);
      REQUIRE(meaning);
      CHECK((meaning->signal == signal || metric.name == "DCGM_FI_DEV_POWER_USAGE"));
      CHECK(meaning->unit * metric.scale == doctest::Approx(1));
    }
  }
  CHECK_FALSE(signal_of_metric("node_cpu_seconds_total"));
}

TEST_CASE("the names of DCGM are there on request, in its units") {
  CHECK(page_of(sample_snapshot()).find("DCGM") == std::string::npos);
  Snapshot snapshot = sample_snapshot();
  snapshot.devices[0].facts.device.pci = "0000:1b:00.0";
  const std::string page = page_of(snapshot, true);
  const std::string labels =
      R"(gpu="0",UUID="GPU-a",pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H200",Hostname="node\"17\"")";
  CHECK(has(page, "DCGM_FI_DEV_POWER_USAGE{" + labels + "} 680"));
  CHECK(has(page, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{" + labels + "} 1000000"));
  CHECK(has(page, "DCGM_FI_DEV_SM_CLOCK{" + labels + "} 1755"));
  CHECK(has(page, "DCGM_FI_DEV_GPU_UTIL{" + labels + "} 98"));
}

}  // namespace

}  // namespace triplepoint::telemetry
