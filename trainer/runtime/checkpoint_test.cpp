// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/checkpoint.h"

#include <filesystem>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/base/files.h"

#include "trainer/runtime/jobs_testing.h"
#include "trainer/runtime/world.h"

namespace triplepoint::trainer {
namespace {

Path scratch() {
  return std::filesystem::temp_directory_path() /
         ("tpt-blocks-" + std::to_string(::getpid()) + ".tpt");
}

std::string two_blocks() {
  Parameter shape;
  shape.name = "layers.0.mlp.up.weight";
  shape.whole_rows = 4;
  shape.whole_columns = 6;
  shape.rows = {1, 3};
  shape.first_column = 2;
  shape.columns = 3;
  const std::vector<float> master = {1, 2, 3, 4}, first = {5, 6, 7, 8}, second = {9, 10, 11, 12};
  BlockWriter writer;
  writer.add(shape, 2, master, first, second);
  writer.add(shape, 0, {master.data(), 2}, {}, {});
  return writer.take();
}

}  // namespace

TEST_CASE("blocks come back as they were written") {
  const Path file = scratch();
  REQUIRE(write_file_atomically(file, two_blocks()));
  std::multimap<std::string, SavedBlock> blocks;
  REQUIRE(read_blocks(file, blocks));
  REQUIRE(blocks.size() == 2);
  const SavedBlock& block = blocks.begin()->second;
  CHECK(block.shape.name == "layers.0.mlp.up.weight");
  CHECK(block.shape.rows == std::vector<int64_t>{1, 3});
  CHECK(block.shape.first_column == 2);
  CHECK(block.first == 2);
  CHECK(block.second_moment == std::vector<float>{9, 10, 11, 12});
  CHECK(std::next(blocks.begin())->second.first_moment.empty());
  std::filesystem::remove(file);
}

TEST_CASE("a file of blocks that was cut or changed anywhere is refused with its name") {
  const Path file = scratch();
  const std::string whole = two_blocks();
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x20);
    for (const std::string& text : {changed, whole.substr(0, at)}) {
      REQUIRE(write_file_atomically(file, text));
      std::multimap<std::string, SavedBlock> blocks;
      const Result<void> read = read_blocks(file, blocks);
      REQUIRE_FALSE(read);
      CHECK(read.error().what.find(file.string()) == 0);
    }
  }
  std::filesystem::remove(file);
}

namespace {

class Folder {
 public:
  explicit Folder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("tpt-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  Folder(Folder&&) = delete;
  Folder& operator=(Folder&&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

TrainSettings settings_of(int64_t steps) {
  TrainSettings settings;
  settings.steps = steps;
  settings.rate.peak = 2e-3;
  settings.peak_flops = 1e9;
  return settings;
}

Result<TrainOutcome> run(const spec::Job& job, const TrainSettings& settings) {
  return train_with_threads(job, settings, {endpoint_settings(job, 60), Carrier::automatic, {}});
}

std::vector<double> losses(const spec::Job& job, const TrainSettings& settings) {
  const Result<TrainOutcome> outcome = run(job, settings);
  if (!outcome) FAIL(outcome.error().what);
  std::vector<double> all;
  for (const StepResult& step : outcome->own.steps)
    all.push_back(step.loss);
  return all;
}

/// Six steps, the last three after a new start; and `before`, the six at once.
std::vector<double> interrupted(const spec::Job& first, const spec::Job& second,
                                const Path& folder) {
  TrainSettings settings = settings_of(3);
  settings.checkpoint_folder = folder.string();
  std::vector<double> all = losses(first, settings);
  settings.steps = 6;
  settings.resume = true;
  for (const double loss : losses(second, settings))
    all.push_back(loss);
  return all;
}

spec::Job sharded(spec::Sharding sharding, int64_t ranks) {
  spec::Job job = test::tiny_job(test::tiny_llama(), ranks);
  job.plan.sharding = sharding;
  return job;
}

}  // namespace

TEST_CASE("a training goes on after a checkpoint as if nothing had happened, bit for bit") {
  for (const auto sharding :
       {spec::Sharding::none, spec::Sharding::optimizer, spec::Sharding::parameters}) {
    const Folder folder("resume");
    spec::Job job = sharded(sharding, 2);
    CHECK(interrupted(job, job, folder.path()) == losses(job, settings_of(6)));
  }
}

TEST_CASE("bf16 with masters goes on bit for bit, too") {
  const Folder folder("resume16");
  spec::Job job = sharded(spec::Sharding::optimizer, 2);
  job.plan.precision = spec::Precision::bf16;
  job.plan.optimizer.master_bytes = 4;
  CHECK(interrupted(job, job, folder.path()) == losses(job, settings_of(6)));
}

TEST_CASE("bf16 trains alike however states are sharded, and nearly as fp32") {
  const std::vector<double> exact = losses(sharded(spec::Sharding::none, 2), settings_of(6));
  for (const auto sharding : {spec::Sharding::none, spec::Sharding::optimizer,
                              spec::Sharding::gradients, spec::Sharding::parameters}) {
    spec::Job job = sharded(sharding, 2);
    job.plan.precision = spec::Precision::bf16;
    job.plan.optimizer.master_bytes = 4;
    job.plan.optimizer.gradient_sync_bytes = 2;
    const std::vector<double> rounded = losses(job, settings_of(6));
    for (size_t i = 0; i < exact.size(); ++i)
      CHECK(rounded[i] == doctest::Approx(exact[i]).epsilon(2e-3));
    CHECK(rounded != exact);
  }
}

TEST_CASE("a checkpoint can be resumed in another layout") {
  spec::Job alone = sharded(spec::Sharding::none, 1);
  // The words are padded differently in each.
  spec::Job tensor = sharded(spec::Sharding::optimizer, 4);
  tensor.plan.tensor_parallel_size = 2;
  spec::Job stages = sharded(spec::Sharding::parameters, 8);
  stages.plan.tensor_parallel_size = stages.plan.pipeline_parallel_size = 2;
  for (spec::Job* job : {&alone, &tensor, &stages})
    job->model.vocabulary_size = 61, job->model.vocabulary_divisible_by = 3;
  const std::vector<double> whole = losses(alone, settings_of(6));
  const std::vector<std::pair<spec::Job, spec::Job>> changes = {
      {alone, stages}, {tensor, stages}, {stages, tensor}, {stages, alone}};
  for (const auto& [first, second] : changes) {
    const Folder folder("relayout");
    const std::vector<double> changed = interrupted(first, second, folder.path());
    REQUIRE(changed.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i)
      CHECK(changed[i] == doctest::Approx(whole[i]).epsilon(1e-5));
  }
}

TEST_CASE("a checkpoint without a manifest is not there, and two are kept") {
  const Folder folder("manifest");
  const spec::Job job = sharded(spec::Sharding::none, 1);
  TrainSettings settings = settings_of(8);
  settings.checkpoint_folder = folder.path().string();
  settings.checkpoint_every = 2;
  const std::vector<double> whole = losses(job, settings);
  CHECK_FALSE(std::filesystem::exists(folder.path() / "step-00000004"));
  CHECK(std::filesystem::exists(folder.path() / "step-00000006" / "manifest.json"));
  // As a kill before the last rename leaves it.
  std::filesystem::remove(folder.path() / "step-00000008" / "manifest.json");
  settings.resume = true;
  CHECK(losses(job, settings) == std::vector<double>(whole.begin() + 6, whole.end()));
}

TEST_CASE("a checkpoint of another model, another seed or with broken bytes is refused by name") {
  const Folder folder("refused");
  TrainSettings settings = settings_of(2);
  settings.checkpoint_folder = folder.path().string();
  losses(sharded(spec::Sharding::none, 2), settings);
  settings.resume = true;
  const auto refusal = [&](const spec::Job& job) {
    const Result<TrainOutcome> outcome = run(job, settings);
    REQUIRE_FALSE(outcome);
    return outcome.error().what;
  };
  spec::Job other = sharded(spec::Sharding::none, 2);
  other.model.ffn_hidden_size = 96;
  CHECK(refusal(other).find("another model") != std::string::npos);
  settings.seed = 9;
  CHECK(refusal(sharded(spec::Sharding::none, 2)).find("--seed 1") != std::string::npos);
  settings.seed = 1;
  const Path part = folder.path() / "step-00000002" / "rank-0000.tpt";
  std::string text = *read_file(part);
  text[text.size() / 2] ^= 1;
  REQUIRE(write_file_atomically(part, text));
  CHECK(refusal(sharded(spec::Sharding::none, 2)).find("rank-0000.tpt") != std::string::npos);
}

TEST_CASE("a tiny model learns a text by heart") {
  const Folder folder("text");
  REQUIRE(make_folder(folder.path()));
  const std::string poem =
      "Shall I compare thee to a summer's day? Thou art more lovely and more temperate: "
      "Rough winds do shake the darling buds of May, and summer's lease hath all too short a date.";
  REQUIRE(write_file_atomically(folder.path() / "poem.txt", poem));
  spec::Job job = sharded(spec::Sharding::optimizer, 2);
  job.model.vocabulary_size = 256;
  job.plan.global_batch_size = 10;
  job.plan.micro_batch_size = 5;
  TrainSettings settings = settings_of(150);
  settings.data = (folder.path() / "poem.txt").string();
  settings.rate.peak = 1e-2;
  settings.adam.weight_decay = 0;
  const std::vector<double> all = losses(job, settings);
  CHECK(all.front() > 5);
  CHECK(all.back() < 0.1);
}

TEST_CASE("synthetic words can be learned far below chance") {
  spec::Job job = sharded(spec::Sharding::none, 1);
  TrainSettings settings = settings_of(120);
  settings.rate.peak = 1e-2;
  // ln 60 = 4.09; the chain's own entropy is 1.14.
  CHECK(losses(job, settings).back() < 3);
}

}  // namespace triplepoint::trainer
