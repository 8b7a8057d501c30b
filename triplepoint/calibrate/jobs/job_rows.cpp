// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/jobs/job_rows.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "triplepoint/base/text.h"

#include "triplepoint/spec/names.h"
#include "triplepoint/spec/table_reader.h"

#include "triplepoint/workload/memory.h"

namespace triplepoint::calibrate {
namespace {

constexpr std::string_view automatic = "auto";

struct NumberColumn {
  std::string_view title;
  std::optional<double> Measurement::*member;
};
constexpr std::array number_columns = {
    NumberColumn{"step_time_s", &Measurement::step_time_s},
    NumberColumn{"tokens_per_s_per_gpu", &Measurement::tokens_per_s_per_gpu},
    NumberColumn{"tokens_per_s_total", &Measurement::tokens_per_s_total},
    NumberColumn{"seqs_per_s_total", &Measurement::seqs_per_s_total},
    NumberColumn{"tflops_per_gpu", &Measurement::tflops_per_gpu},
    NumberColumn{"mfu_pct", &Measurement::mfu_pct},
    NumberColumn{"mem_gib", &Measurement::memory_gib},
    NumberColumn{"mem_standing_gib", &Measurement::standing_gib},
    NumberColumn{"mem_reserved_gib", &Measurement::reserved_gib}};
constexpr std::array word_columns = {"row_id",      "family", "sweep", "source", "flops_convention",
                                     "assumptions", "skip",   "kind",  "ran",    "mem_kind"};

bool is_of_the_row(std::string_view title) {
  const auto is_title = [&](const NumberColumn& column) { return column.title == title; };
  return title.starts_with("note") || holds(word_columns, title) ||
         std::ranges::any_of(number_columns, is_title);
}

/// The columns that describe the job, once all columns are known to mean something.
Result<std::vector<std::size_t>> job_columns(const CsvTable& table,
                                             std::span<const std::string_view> more) {
  std::vector<std::string> keys = spec::job_keys();
  keys.emplace_back("nodes");
  keys.emplace_back("sequence_length");
  const std::set<std::string> known(keys.begin(), keys.end());
  std::vector<std::size_t> columns;
  for (std::size_t c = 0; c < table.header().size(); ++c) {
    const std::string& title = table.header()[c];
    if (is_of_the_row(title) || holds(more, title)) continue;
    if (known.count(title) == 0)
      return error(
          "{}:1: unknown column \"{}\" (neither a key of a job file nor a measurement); {}",
          table.name(), title, did_you_mean(title, keys));
    columns.push_back(c);
  }
  return columns;
}

/// Is one of these two words in the cell? An empty cell is the first.
Result<bool> is_second(const CsvTable& table, std::size_t row, std::string_view title,
                       std::string_view first, std::string_view second) {
  const std::string cell = Cells(table, row).text(title);
  if (cell.empty() || cell == first) return false;
  if (cell == second) return true;
  return error("{}:{}: {} is \"{}\" (it is one of two words); write {} or {}", table.name(),
               table.line(row), title, cell, first, second);
}

Result<Measurement> read_measurement(const CsvTable& table, std::size_t row) {
  Measurement measured;
  for (const NumberColumn& column : number_columns) {
    const auto found = table.column(column.title);
    if (!found) continue;
    std::optional<double>& value = measured.*column.member;
    value = TPT_TRY(table.number(row, *found));
    if (value && !(*value > 0))
      return error(
          "{}:{}: {} is {} (what was measured is above zero); correct the "
          "row, or leave the cell empty",
          table.name(), table.line(row), column.title, *value);
  }
  measured.memory_is_reserved = TPT_TRY(is_second(table, row, "mem_kind", "allocated", "reserved"));
  measured.ran = !TPT_TRY(is_second(table, row, "ran", "true", "false"));
  measured.convention = Cells(table, row).text("flops_convention");
  return measured;
}

std::vector<std::string> split_notes(std::string_view text) {
  constexpr std::string_view separator = "; ";
  std::vector<std::string> notes;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) notes.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + separator.size(), text.size()));
  }
  return notes;
}

/// Takes "auto" out of the tree; the memory model answers it.
bool take_automatic(std::string_view title, std::string_view cell, JobRow& row) {
  if (cell != automatic) return false;
  if (title == "plan.recompute") return row.chooses_recompute = true;
  if (title == "plan.micro_batch_size") return row.chooses_micro_batch = true;
  return false;
}

void read_job_cells(const CsvTable& table, std::size_t r, const std::vector<std::size_t>& columns,
                    JobRow& row) {
  row.tree.line = static_cast<int>(table.line(r));
  for (const std::size_t c : columns) {
    const std::string_view cell = table.at(r, c);
    if (cell.empty()) continue;
    const std::string& title = table.header()[c];
    row.text += fmt::format("{}={}\n", title, cell);
    if (!take_automatic(title, cell, row))
      spec::set_dotted(row.tree, title, spec::cell_value(cell, row.tree.line));
  }
}

JobRow read_row(const CsvTable& table, std::size_t r, const std::vector<std::size_t>& columns) {
  const Cells cells(table, r);
  JobRow row{.row_id = cells.id(),
             .family = cells.family(),
             .sweep = cells.text("sweep"),
             .assumptions = split_notes(cells.text("assumptions")),
             .fault = cells.text("skip")};
  read_job_cells(table, r, columns, row);
  Result<Measurement> measured = read_measurement(table, r);
  if (measured)
    row.measured = *std::move(measured);
  else if (row.fault.empty())
    row.fault = measured.error().what;
  return row;
}

}  // namespace

Result<void> require_runnable(const spec::Job& job) {
  std::string problems;
  for (const spec::Diagnosis& diagnosis : spec::diagnose(job))
    if (diagnosis.severity == spec::Diagnosis::Severity::error)
      problems += (problems.empty() ? "" : "; ") + diagnosis.what;
  if (problems.empty()) return {};
  return error(problems);
}

Result<std::vector<JobRow>> read_job_rows(const CsvTable& table,
                                          std::span<const std::string_view> more) {
  const std::vector<std::size_t> columns = TPT_TRY(job_columns(table, more));
  std::vector<JobRow> rows;
  for (std::size_t r = 0; r < table.rows(); ++r)
    rows.push_back(read_row(table, r, columns));
  return rows;
}

Result<spec::Job> job_of(const JobRow& row, const std::string& file, const spec::Library& library,
                         std::vector<std::string>& notes) {
  const spec::TomlValue* plan = row.tree.find("plan");
  if (plan == nullptr || plan->find("global_batch_size") == nullptr)
    return error("plan.global_batch_size is empty (a measured job has no default); fill it in");
  spec::ReadScope scope;
  scope.library = &library;
  scope.file = file;
  spec::Job job = TPT_TRY(spec::read_job(scope, row.tree));
  TPT_TRY(require_runnable(job));
  if (row.chooses_micro_batch) notes.push_back(choose_micro_batch(job));
  if (row.chooses_recompute) notes.push_back(choose_recompute(job));
  return job;
}

namespace {

using spec::Recompute;
using spec::RecomputeModule;

bool fits(const spec::Job& job) {
  return workload::estimate_memory(job).fits();
}

bool fits_with(spec::Job& job, Recompute recompute) {
  job.plan.recompute = recompute;
  return fits(job);
}

std::vector<RecomputeModule> from_cheap_to_dear(const spec::Model& model) {
  std::vector<RecomputeModule> parts = {RecomputeModule::layernorm};
  if (model.moe) parts.push_back(RecomputeModule::moe_act);
  if (model.latent_attention) parts.push_back(RecomputeModule::mla_up_proj);
  if (model.moe && model.moe->shared_expert_ffn_hidden_size > 0)
    parts.push_back(RecomputeModule::shared_experts);
  if (model.moe && model.moe->num_dense_layers > 0) parts.push_back(RecomputeModule::mlp);
  return parts;
}

bool fits_with_parts(spec::Job& job) {
  spec::Plan& plan = job.plan;
  for (const RecomputeModule part : from_cheap_to_dear(job.model)) {
    plan.recompute_modules.push_back(part);
    if (fits_with(job, Recompute::selective)) return true;
  }
  plan.recompute_modules.clear();
  return false;
}

std::string names_of(const std::vector<RecomputeModule>& modules) {
  const std::vector<std::string_view> names =
      mapped(modules, [](const RecomputeModule module) { return spec::enum_name(module); });
  return fmt::format("{}", fmt::join(names, ", "));
}

bool fits_with_block(spec::Job& job) {
  constexpr int64_t most_tries = 16;
  const int64_t layers_of_chunk =
      job.model.num_layers / (job.plan.pipeline_parallel_size * job.plan.virtual_pipeline_size);
  for (int64_t layers = 1; layers < layers_of_chunk;
       layers += std::max<int64_t>(1, layers_of_chunk / most_tries)) {
    job.plan.recompute_layers = layers;
    if (fits_with(job, Recompute::full)) return true;
  }
  job.plan.recompute_layers.reset();
  return false;
}

std::string least_recompute(spec::Job& job) {
  if (fits_with(job, Recompute::none)) return "no recompute";
  if (!job.stack.has_flash_attention() && fits_with(job, Recompute::selective))
    return "selective recompute";
  if (fits_with_parts(job)) return "recompute of " + names_of(job.plan.recompute_modules);
  if (fits_with_block(job))
    return fmt::format("recompute of {} layers a chunk", *job.plan.recompute_layers);
  job.plan.recompute = Recompute::full;
  return "full recompute";
}

bool may_shard(const spec::Job& job) {
  return job.plan.pipeline_parallel_size == 1 && job.data_parallel_size() > 1 &&
         job.plan.sharding != spec::Sharding::parameters;
}

}  // namespace

std::string choose_recompute(spec::Job& job) {
  job.plan.recompute_modules.clear();
  job.plan.recompute_layers.reset();
  const std::string least = least_recompute(job);
  if (fits(job) || !may_shard(job)) return least;
  job.plan.sharding = spec::Sharding::parameters;
  return "parameters sharded, since nothing else fits; " + least_recompute(job);
}

std::string choose_micro_batch(spec::Job& job) {
  constexpr int64_t most = 64;
  spec::Plan& plan = job.plan;
  plan.micro_batch_size = 1;
  const int64_t sequences = plan.global_batch_size / job.data_parallel_size();
  for (int64_t micro = 2; micro <= most && sequences % micro == 0; micro *= 2) {
    plan.micro_batch_size = micro;
    if (fits(job)) continue;
    plan.micro_batch_size = micro / 2;
    break;
  }
  return fmt::format("microbatches of {}, as fit", plan.micro_batch_size);
}

}  // namespace triplepoint::calibrate
