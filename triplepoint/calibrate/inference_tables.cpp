// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/inference_tables.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/spec/machine_names.h"

#include "triplepoint/calibrate/serving.h"
#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/calibrate/table_words.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::calibrate {
namespace {

// Mean power over the 95th percentile of a machine that serves all the time.
constexpr double at_work = 0.85;

struct ServedRow {
  std::string id, family, sweep, gpu, model;
  int64_t gpus = 1, replicas = 1, experts = 1, sequences = 1, keys = 0;
  ServedTask task;
  spec::Precision precision = spec::Precision::bf16;
  std::optional<double> power_w, tokens_per_s;
  std::vector<std::string> notes;
};

/// A whole number behind a word of the notes, with or without ".0".
std::optional<double> noted(const Cells& cells, std::string_view key) {
  const std::string notes = cells.text("notes");
  const std::size_t at = notes.find(key);
  if (at == std::string::npos) return std::nullopt;
  const double value = std::strtod(notes.c_str() + at + key.size(), nullptr);
  return value > 0 ? std::optional<double>(value) : std::nullopt;
}

Result<spec::Precision> precision_of(const Cells& cells) {
  const std::string words = cells.text("precision");
  if (words.find("int") != std::string::npos || words.find("mxfp4") != std::string::npos)
    return error("weights of 4 bits that are multiplied in 16 are not modelled");
  return words.find("fp8") != std::string::npos ? spec::Precision::fp8 : spec::Precision::bf16;
}

/// Why a row says too little of what was served, or too much.
std::string unusable(const Cells& cells) {
  const std::string task = cells.text("task");
  if (mentions(task, "text-to-image") || mentions(task, "text-to-video"))
    return "a model that draws images or video is not modelled";
  if (!task.starts_with("inference"))
    return "it is no inference (trainings belong into a jobs.csv)";
  if (cells.count("batch") < 1)
    return "the number of sequences at a time is not stated (it decides power and speed)";
  if (cells.number_or("power_mean_total_w", 0) < at_work * cells.number_or("p95_total_w", 0))
    return "its mean is far below its peaks (the recording holds time without requests)";
  return {};
}

Result<ServedRow> read_row(const Cells& cells, const Serving& serving) {
  if (std::string reason = unusable(cells); !reason.empty()) return error(std::move(reason));
  ServedRow row;
  const std::string task = cells.text("task");
  row.task = TPT_TRY(task_of(serving, task));
  const std::optional<double> stated = noted(cells, "ctx ");
  row.keys = std::llround(stated.value_or(row.task.keys()));
  row.precision = TPT_TRY(precision_of(cells));
  const bool sees = mentions(task, "image") || mentions(task, "video");
  row.model = TPT_TRY(model_of(serving, cells.text("model")));
  if (sees)
    row.notes.push_back(
        "pictures are tokens of the prompt; what turns them into tokens is left out");
  row.gpu = cells.text("gpu");
  row.gpus = std::max<int64_t>(1, cells.count("n_gpus"));
  row.replicas = std::max<int64_t>(1, std::llround(noted(cells, "dp ").value_or(1)));
  row.experts = std::max<int64_t>(1, std::llround(noted(cells, "ep ").value_or(1)));
  const double at_once = noted(cells, "avg_batch ").value_or(cells.number_or("batch", 1));
  row.sequences = std::max<int64_t>(1, std::llround(at_once));
  row.power_w = cells.number("power_mean_per_gpu_w");
  if (cells.text("throughput_unit").starts_with("output"))
    row.tokens_per_s = cells.number("throughput");
  const std::string short_task = task.substr(task.rfind(' ') + 1);
  row.family = fmt::format("{} {} {}", cells.text("family"), row.gpu, short_task);
  row.sweep = fmt::format("{} x{} {} {}", cells.text("model"), row.gpus, row.gpu, short_task);
  row.id = fmt::format("{}, batch {}", row.sweep, cells.count("batch"));
  if (!stated)
    row.notes.push_back(fmt::format("caches of {} tokens, as usual for the task", row.keys));
  return row;
}

/// Decoding of the row's sequences, as vLLM plays it.
Result<spec::Job> job_of(const ServedRow& row, const spec::Library& library) {
  spec::Cluster cluster = TPT_TRY(spec::usual_machine(library, row.gpu, row.gpus));
  if (row.gpus % row.replicas != 0)
    return error(fmt::format("{} GPUs do not make {} equal replicas", row.gpus, row.replicas));
  // One GPU cannot draw more than its limit.
  constexpr double meter_error = 1.1;
  if (cluster.gpu.tdp && row.power_w > meter_error * (*cluster.gpu.tdp / unit::W))
    return error("its power is above the GPU's limit (a figure of several GPUs)");
  spec::Job job;
  job.name = row.id;
  job.task = spec::Task::decode;
  job.cluster = std::move(cluster);
  job.model = TPT_TRY(spec::load_model(library, row.model));
  job.stack = TPT_TRY(spec::load_stack(library, "vllm"));
  job.model.sequence_length = row.keys;
  job.plan.precision = row.precision;
  job.plan.tensor_parallel_size = row.gpus / row.replicas;
  if (job.model.moe && row.experts > 1) {
    job.plan.expert_parallel_size = row.experts;
    job.plan.expert_tensor_parallel_size = std::max<int64_t>(1, row.gpus / row.experts);
  }
  job.plan.micro_batch_size = (row.sequences + row.replicas - 1) / row.replicas;
  job.plan.global_batch_size = job.plan.micro_batch_size * row.replicas;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job))
    if (diagnosis.severity == spec::Diagnosis::Severity::error) return error(diagnosis.what);
  if (!workload::estimate_memory(job).fits())
    return error(
        "weights and caches of all sequences do not fit by our estimate (an engine would "
        "serve fewer at a time)");
  return job;
}

struct Played {
  Spell step;
  double tokens = 0;
};

Played play(const spec::Job& job) {
  const run::Run run = sim::simulate(job, {.duration = {}, .steps = {}, .timeline = false});
  Played played;
  for (const run::DeviceSummary& device : run.summaries)
    played.step.power +=
        device.power_mean_w.value_or(0) / static_cast<double>(run.summaries.size()) * unit::W;
  played.step.time = run.steps.back().end - run.steps.back().begin;
  played.tokens = static_cast<double>(run.steps.back().tokens);
  return played;
}

/// The same machine reads prompts instead, several at once.
spec::Job prefill_of(spec::Job job, const Serving& serving, const ServedTask& task) {
  job.task = spec::Task::prefill;
  job.model.sequence_length = std::llround(task.prompt);
  job.plan.micro_batch_size =
      std::max<int64_t>(1, std::llround(serving.prefill_tokens / task.prompt));
  job.plan.global_batch_size =
      job.plan.micro_batch_size *
      (job.cluster.num_nodes * job.cluster.gpus_per_node / job.plan.tensor_parallel_size);
  return job;
}

struct Served {
  double power_w = 0, tokens_per_s = 0;
};

Served serve(const ServedRow& row, const spec::Job& job, const Serving& serving) {
  const Played decode = play(job);
  Played prompts = play(prefill_of(job, serving, row.task));
  prompts.step.time /= prompts.tokens;
  const ServedBatch batch{
      .sequences = static_cast<double>(row.sequences),
      .replicas = static_cast<double>(row.replicas),
      .decode = decode.step,
      .prompt_token = prompts.step,
      .rest = job.cluster.gpu.power ? job.cluster.gpu.power->active_idle : Watts()};
  const Spell round = serving_round(serving, row.task, batch);
  return {round.power / unit::W, batch.sequences / (round.time / unit::s)};
}

void score_row(TableScores& scores, const ServedRow& row, const Served& served) {
  const auto add = [&](const char* quantity, const char* of, const std::optional<double>& measured,
                       double ours) {
    if (measured && *measured > 0)
      scores.scored.push_back({.row_id = row.id,
                               .family = row.family + of,
                               .quantity = quantity,
                               .sweep = row.sweep + of,
                               .measured = *measured,
                               .predicted = ours,
                               .notes = row.notes});
  };
  add("power_w", " power", row.power_w, served.power_w);
  add("output_tokens_per_s", " speed", row.tokens_per_s, served.tokens_per_s);
}

Result<void> predict_row(const Cells& cells, const spec::Library& library, const Serving& serving,
                         TableScores& scores) {
  const ServedRow row = TPT_TRY(read_row(cells, serving));
  const spec::Job job = TPT_TRY(job_of(row, library));
  score_row(scores, row, serve(row, job, serving));
  return {};
}

}  // namespace

Result<TableScores> score_inference_table(const CsvTable& table, const ScoreContext& context) {
  const Serving serving = TPT_TRY(load_serving(context.library));
  TableScores scores;
  scores.table = "inference power";
  scores.rows = static_cast<int64_t>(table.rows());
  if (context.begin) context.begin(table.rows());
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (auto scored = predict_row(cells, context.library, serving, scores); !scored)
      scores.skipped.push_back({cells.id(), scored.error().what});
    if (context.advance) context.advance();
  }
  return scores;
}

}  // namespace triplepoint::calibrate
