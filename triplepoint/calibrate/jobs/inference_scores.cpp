// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/inference_scores.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "triplepoint/calibrate/jobs/job_rows.h"
#include "triplepoint/calibrate/tables/calibration_file.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/workload/memory.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::array<std::string_view, 5> own_columns = {
    "prompt_tokens", "answer_tokens", "sequences", "power_w", "output_tokens_per_s"};

struct SimulatedPass {
  PowerInterval step;
  double tokens = 0;
};

SimulatedPass simulate_pass(const spec::Job& job) {
  const run::Run run = sim::simulate(job, {.timeline = false});
  SimulatedPass pass;
  for (const run::DeviceSummary& device : run.summaries)
    pass.step.power += device.power_mean_w.value_or(0) / as_real(run.summaries.size()) * unit::W;
  pass.step.time = run.steps.back().end - run.steps.back().begin;
  pass.tokens = as_real(run.steps.back().tokens);
  return pass;
}

/// The same machine reads prompts instead, several at once.
spec::Job prefill_of(spec::Job job, const Serving& serving, const Requests& requests) {
  job.task = spec::Task::prefill;
  job.model.sequence_length = std::llround(requests.prompt);
  job.plan.micro_batch_size =
      std::max<int64_t>(1, std::llround(serving.prefill_tokens / requests.prompt));
  job.plan.global_batch_size =
      job.plan.micro_batch_size *
      (job.cluster.num_nodes * job.cluster.gpus_per_node / job.plan.tensor_parallel_size);
  return job;
}

struct Served {
  double power_w = 0, tokens_per_s = 0;
};

Served serve(const spec::Job& job, double sequences, const Requests& requests,
             const Serving& serving) {
  const SimulatedPass decode = simulate_pass(job);
  SimulatedPass prompts = simulate_pass(prefill_of(job, serving, requests));
  prompts.step.time /= prompts.tokens;
  const auto replicas = as_real(job.plan.global_batch_size / job.plan.micro_batch_size);
  const ServedBatch batch{
      .sequences = sequences,
      .replicas = replicas,
      .decode = decode.step,
      .prompt_token = prompts.step,
      .rest = job.cluster.gpu.power ? job.cluster.gpu.power->active_idle : Watts()};
  const PowerInterval round = serving_round(serving, requests, batch);
  return {round.power / unit::W, sequences / (round.time / unit::s)};
}

void add_scores(TableScores& scores, const JobRow& row, const Cells& cells, const Served& served) {
  const auto add = [&](const char* quantity, const char* of, double ours) {
    const double measured = cells.number_or(quantity, 0);
    if (measured > 0)
      scores.scored.push_back({.row_id = row.row_id,
                               .family = row.family + of,
                               .quantity = quantity,
                               .sweep = row.sweep + of,
                               .measured = measured,
                               .predicted = ours,
                               .notes = row.assumptions});
  };
  add("power_w", " power", served.power_w);
  add("output_tokens_per_s", " speed", served.tokens_per_s);
}

Result<void> score_row(TableScores& scores, const JobRow& row, const Cells& cells,
                       const std::string& file, const spec::Library& library,
                       const Serving& serving) {
  if (!row.fault.empty()) return error(row.fault);
  std::vector<std::string> notes;
  const spec::Job job = TPT_TRY(job_of(row, file, library, notes));
  if (!workload::estimate_memory(job).fits())
    return error(
        "weights and caches of all sequences do not fit by our estimate (an engine would "
        "serve fewer at a time)");
  const Requests requests{.prompt = cells.number_or("prompt_tokens", 0),
                          .answer = cells.number_or("answer_tokens", 0)};
  const double sequences = cells.number_or("sequences", 0);
  if (requests.prompt < 1 || requests.answer < 1 || sequences < 1)
    return error("prompt_tokens, answer_tokens or sequences is not stated");
  add_scores(scores, row, cells, serve(job, sequences, requests, serving));
  return {};
}

}  // namespace

Result<TableScores> score_inference(const CsvTable& table, const ScoreContext& context) {
  const Serving serving = TPT_TRY(load_serving(context.library));
  const std::vector<JobRow> rows = TPT_TRY(read_job_rows(table, own_columns));
  TableScores scores{.table = "inference", .rows = static_cast<int64_t>(table.rows())};
  context.watch.begin("Predicting", rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto scored =
        score_row(scores, rows[r], Cells(table, r), table.name(), context.library, serving);
    if (!scored) scores.skip(rows[r].row_id, scored.error().what);
    context.watch.advance();
  }
  return scores;
}

Result<Serving> load_serving(const spec::Library& library) {
  return read_calibration<Serving>(library, "serving.toml", "engine");
}

PowerInterval serving_round(const Serving& serving, const Requests& requests,
                            const ServedBatch& batch) {
  const PowerInterval& decode = batch.decode;
  const double share = serving.busy_share;
  const Seconds reading =
      batch.sequences * requests.prompt / requests.answer * batch.prompt_token.time;
  const Seconds each = batch.sequences / batch.replicas * serving.sequence_time;
  const Watts handling = share * decode.power + (1 - share) * batch.rest;
  const Seconds round = decode.time + reading + each;
  const Joules energy =
      decode.power * decode.time + batch.prompt_token.power * reading + handling * each;
  return {round, energy / round};
}

}  // namespace triplepoint::calibrate
