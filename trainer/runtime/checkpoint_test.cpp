// SPDX-License-Identifier: Apache-2.0
#include "trainer/runtime/checkpoint.h"

#include <filesystem>

#include <doctest/doctest.h>
#include <unistd.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/scratch_folder.h"

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

TrainSettings settings_of(int64_t steps) {
  TrainSettings settings;
  settings.steps = steps;
  settings.rate.peak = 2e-3;
  settings.peak_flops = 1e9;
  return settings;
}

Result<TrainOutcome> run(const spec::Job& job, const TrainSettings& settings) {
  return train_with_threads(job, settings, endpoint_settings(job, 60));
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
    const ScratchFolder folder;
    spec::Job job = sharded(sharding, 2);
    CHECK(interrupted(job, job, folder.folder()) == losses(job, settings_of(6)));
  }
}

TEST_CASE("so does one whose sequences are cut over ranks") {
  for (const auto exchange : {spec::ContextExchange::ring, spec::ContextExchange::all_gather})
    for (const auto sharding : {spec::Sharding::optimizer, spec::Sharding::parameters}) {
      const ScratchFolder folder;
      spec::Job job = sharded(sharding, 4);
      job.plan.context_parallel_size = 2;
      job.plan.context_exchange = exchange;
      CHECK(interrupted(job, job, folder.folder()) == losses(job, settings_of(6)));
    }
}

TEST_CASE("bf16 with masters goes on bit for bit, too") {
  const ScratchFolder folder;
  spec::Job job = sharded(spec::Sharding::optimizer, 2);
  job.plan.precision = spec::Precision::bf16;
  job.plan.optimizer.master_bytes = 4;
  CHECK(interrupted(job, job, folder.folder()) == losses(job, settings_of(6)));
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
  spec::Job parts = sharded(spec::Sharding::gradients, 8);
  parts.plan.tensor_parallel_size = 2;
  parts.plan.context_parallel_size = 4;
  for (spec::Job* job : {&alone, &tensor, &stages, &parts})
    job->model.vocabulary_size = 61, job->model.vocabulary_divisible_by = 3;
  const std::vector<double> whole = losses(alone, settings_of(6));
  const std::vector<std::pair<spec::Job, spec::Job>> changes = {{alone, stages},  {tensor, stages},
                                                                {stages, tensor}, {stages, alone},
                                                                {parts, alone},   {stages, parts}};
  for (const auto& [first, second] : changes) {
    const ScratchFolder folder;
    const std::vector<double> changed = interrupted(first, second, folder.folder());
    REQUIRE(changed.size() == whole.size());
    for (size_t i = 0; i < whole.size(); ++i)
      CHECK(changed[i] == doctest::Approx(whole[i]).epsilon(1e-5));
  }
}

TEST_CASE("a checkpoint without a manifest is not there, and two are kept") {
  const ScratchFolder folder;
  const spec::Job job = sharded(spec::Sharding::none, 1);
  TrainSettings settings = settings_of(8);
  settings.checkpoint_folder = folder.folder().string();
  settings.checkpoint_every = 2;
  const std::vector<double> whole = losses(job, settings);
  CHECK_FALSE(std::filesystem::exists(folder / "step-00000004"));
  CHECK(std::filesystem::exists(folder / "step-00000006" / "manifest.json"));
  // As a kill before the last rename leaves it, and one while an old checkpoint is removed.
  const Path half = folder / "step-00000003";
  REQUIRE(make_folder(half));
  REQUIRE(write_file_atomically(half / "rank-0000.tpt", "half"));
  std::filesystem::remove(folder / "step-00000008" / "manifest.json");
  settings.resume = true;
  CHECK(losses(job, settings) == std::vector<double>(whole.begin() + 6, whole.end()));
  CHECK_FALSE(std::filesystem::exists(half));
}

TEST_CASE("a checkpoint of another model, another seed or with broken bytes is refused by name") {
  const ScratchFolder folder;
  TrainSettings settings = settings_of(2);
  settings.checkpoint_folder = folder.folder().string();
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
  const Path part = folder / "step-00000002" / "rank-0000.tpt";
  std::string text = *read_file(part);
  text[text.size() / 2] ^= 1;
  REQUIRE(write_file_atomically(part, text));
  CHECK(refusal(sharded(spec::Sharding::none, 2)).find("rank-0000.tpt") != std::string::npos);
}

namespace {

/// A training of two steps with a checkpoint after each, and what its continuation says.
class Kept {
 public:
  Kept() {
    settings.checkpoint_folder = folder_.folder().string();
    settings.checkpoint_every = 1;
    losses(job, settings);
    settings.steps = 4;
    settings.resume = true;
  }
  Path newest() const { return folder_ / "step-00000002"; }
  Path folder() const { return folder_.folder(); }
  std::string refusal() const {
    const Result<TrainOutcome> outcome = run(job, settings);
    REQUIRE_FALSE(outcome);
    return outcome.error().what;
  }
  void says(const char* part) const {
    const std::string said = refusal();
    CAPTURE(said);
    CHECK(said.find(part) != std::string::npos);
    CHECK(said.find("; ") != std::string::npos);
  }
  void change_manifest(const std::string& from, const std::string& to) const {
    std::string text = *read_file(newest() / "manifest.json");
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(write_file_atomically(newest() / "manifest.json", text.replace(at, from.size(), to)));
  }

  TrainSettings settings = settings_of(2);
  spec::Job job = sharded(spec::Sharding::none, 1);

 private:
  ScratchFolder folder_;
};

}  // namespace

TEST_CASE("a manifest that was changed, or has another format or step, is refused by name") {
  for (const auto& [from, to, says] : std::vector<std::array<const char*, 3>>{
           {"\"step\": 2", "\"step\": -5", "its checksum is wrong"},
           {"\"step\": 2", "\"step\": 1000000000000000000", "its checksum is wrong"},
           {"\"format\": 2", "\"format\": 99", "has format 99"},
           {"\"format\": 2", "\"form\": 2", "no format"},
           {"{", "[", ""}}) {
    const Kept kept;
    kept.change_manifest(from, to);
    CHECK(kept.refusal().find("manifest.json") != std::string::npos);
    CHECK(kept.refusal().find(says) != std::string::npos);
  }
  const Kept kept;
  std::filesystem::rename(kept.newest(), kept.folder() / "step-00000003");
  kept.says("it is of step 2");
}

TEST_CASE("a training goes on with its own data, batches and model only") {
  Kept kept;
  const Path text = kept.folder() / "book.txt";
  kept.job.plan.global_batch_size *= 2;
  kept.says("global_batch_size");
  kept.job = sharded(spec::Sharding::none, 1);
  kept.job.model.num_layers /= 2;
  kept.says("another model (num_layers");
  kept.job = sharded(spec::Sharding::none, 1);
  kept.settings.data = text.string();
  REQUIRE(write_file_atomically(text, std::string(20000, 'a')));
  kept.job.model.vocabulary_size = 256;
  kept.says("another model (vocabulary_size");
}

TEST_CASE("a training goes on with a file of its bytes, wherever it lies") {
  const ScratchFolder folder;
  REQUIRE(make_folder(folder.folder()));
  const Path first = folder / "a.txt", moved = folder / "b.txt";
  REQUIRE(write_file_atomically(first, std::string(20000, 'a')));
  spec::Job job = sharded(spec::Sharding::none, 1);
  job.model.vocabulary_size = 256;
  TrainSettings settings = settings_of(1);
  settings.checkpoint_folder = (folder / "kept").string();
  settings.data = first.string();
  losses(job, settings);
  std::filesystem::rename(first, moved);
  settings.steps = 2;
  settings.resume = true;
  settings.data = moved.string();
  CHECK(losses(job, settings).size() == 1);
  settings.steps = 3;
  REQUIRE(write_file_atomically(moved, std::string(20000, 'b')));
  const Result<TrainOutcome> other = run(job, settings);
  REQUIRE_FALSE(other);
  CHECK(other.error().what.find("other data") != std::string::npos);
}

TEST_CASE("a rank's file of another checkpoint is refused") {
  const Kept kept;
  std::filesystem::copy_file(kept.folder() / "step-00000001" / "rank-0000.tpt",
                             kept.newest() / "rank-0000.tpt",
                             std::filesystem::copy_options::overwrite_existing);
  kept.says("of another checkpoint");
}

TEST_CASE("checkpoints are not replaced by another training, nor by two at once") {
  Kept kept;
  kept.settings.resume = false;
  kept.says("--resume");
  kept.settings.resume = true;
  {
    const Result<FolderLock> lock = FolderLock::take(kept.folder());
    REQUIRE(lock);
    kept.says("another training");
  }
  CHECK(losses(kept.job, kept.settings).size() == 2);
  kept.settings.checkpoint_folder = "/proc/nowhere";
  kept.says("/proc/nowhere");
}

TEST_CASE("a training whose numbers are not finite stops and leaves the checkpoints before") {
  for (const int64_t ranks : {1, 4}) {
    Kept kept;
    kept.job = sharded(spec::Sharding::optimizer, ranks);
    if (ranks > 1) kept.job.plan.tensor_parallel_size = kept.job.plan.pipeline_parallel_size = 2;
    kept.settings.steps = 8;
    kept.settings.rate.peak = 1e30;
    kept.settings.adam.weight_decay = 0;
    kept.says("step 4: loss");
    kept.says("--lr 1e+30");
    CHECK_FALSE(std::filesystem::exists(kept.folder() / "step-00000004"));
    CHECK(std::filesystem::exists(kept.newest() / "manifest.json"));
  }
}

TEST_CASE("a tiny model learns a text by heart") {
  const ScratchFolder folder;
  REQUIRE(make_folder(folder.folder()));
  const std::string poem =
      "Shall I compare thee to a summer's day? Thou art more lovely and more temperate: "
      "Rough winds do shake the darling buds of May, and summer's lease hath all too short a date.";
  REQUIRE(write_file_atomically(folder / "poem.txt", poem));
  spec::Job job = sharded(spec::Sharding::optimizer, 2);
  job.model.vocabulary_size = 256;
  job.plan.global_batch_size = 10;
  job.plan.micro_batch_size = 5;
  TrainSettings settings = settings_of(150);
  settings.data = (folder / "poem.txt").string();
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
