// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/exporter/job_info.h"

#include <map>

#include <doctest/doctest.h>
#include <unistd.h>

namespace triplepoint::telemetry {
namespace {

TEST_CASE("a job's labels come from its launcher's environment") {
  const std::map<std::string, std::string> environment = {
      {"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NAME", "train"}, {"SLURM_JOB_USER", "ann"},
      {"SLURM_STEP_ID", "0"},   {"SLURM_PROCID", "3"},       {"SLURM_LOCALID", "1"},
      {"SLURM_NTASKS", "16"},   {"SLURM_NNODES", "2"}};
  const JobLabels labels = job_of_environment([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
  const std::map<std::string, std::string> by_name(labels.begin(), labels.end());
  CHECK(by_name.at("job").find("4711") != std::string::npos);
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

}  // namespace
}  // namespace triplepoint::telemetry
