// SPDX-License-Identifier: Apache-2.0
// The upstream artifact's 386 experiment files against the table of what is in them. Both lie
// outside of the repository; without them these tests say so and pass.
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <zlib.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"

#include "triplepoint/spec/load.h"

#include "triplepoint/formats/export.h"
#include "triplepoint/formats/fixtures_testing.h"
#include "triplepoint/formats/import.h"

namespace triplepoint::formats {
namespace {

const std::string shared_data = TPT_SHARED_DIR "/data/";

std::string gunzip(const std::string& path) {
  std::string all;
  const gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::vector<char> block(1 << 16);
  for (int got = 0; (got = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0;)
    all.append(block.data(), as_size(got));
  gzclose(file);
  return all;
}

/// Plain files of a tar archive (POSIX ustar: 512-byte headers, octal sizes, name and prefix).
void untar(const std::string& archive, const ScratchFolder& into) {
  const auto field = [&](std::size_t at, std::size_t size) {
    const std::string text = archive.substr(at, size);
    return text.substr(0, text.find('\0'));
  };
  for (std::size_t at = 0; at + 512 <= archive.size() && archive[at] != '\0';) {
    const std::size_t size = std::stoul("0" + field(at + 124, 12), nullptr, 8);
    const char type = archive[at + 156];
    std::string name = field(at + 345, 155);
    if (!name.empty()) name += '/';
    name += field(at, 100);
    if (type == '0' || type == '\0') into.file(name, archive.substr(at + 512, size));
    at += 512 + (size + 511) / 512 * 512;
  }
}

struct Matrix {
  ScratchFolder folder;
  CsvTable table;
  FolderImport import;
  std::map<std::string, std::size_t> row_of_path;  // in the table
};

/// Slurm scripts are not in the archive; the table says how many nodes each asked for and which
/// GPU.
void write_job_scripts(const CsvTable& table, const ScratchFolder& folder) {
  const auto column = [&](std::string_view name) { return *table.require_column(name); };
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Path script = table.at(row, column("path"));
    script.replace_extension(".sh");
    folder.file(
        script.string(),
        fmt::format("#!/bin/bash\n#SBATCH -C {}\n#SBATCH --nodes={}\n"
                    "#SBATCH --gpus-per-node=8\nsrun python3 -u examples/{} --config-name=x\n",
                    table.at(row, column("gpu_type")), table.at(row, column("sbatch_nodes")),
                    table.at(row, column("entry_script"))));
  }
}

std::unique_ptr<Matrix> read_matrix(bool with_scripts) {
  auto matrix = std::make_unique<Matrix>();
  const std::string csv = shared_data + "charllm_experiments.csv";
  if (!std::filesystem::exists(csv)) {
    MESSAGE("skipped: ", csv, " is not here");
    return nullptr;
  }
  matrix->table = CsvTable::parse(read_file(csv).value(), csv).value();
  untar(gunzip(shared_data + "charllm_experiment_yamls.tar.gz"), matrix->folder);
  if (with_scripts) write_job_scripts(matrix->table, matrix->folder);
  const auto import = must(import_folder(spec::default_library(), matrix->folder.folder(), {}));
  matrix->import = import;
  const std::size_t path = matrix->table.require_column("path").value();
  for (std::size_t row = 0; row < matrix->table.rows(); ++row)
    matrix->row_of_path[std::string(matrix->table.at(row, path))] = row;
  return matrix;
}

/// One row's cells by the name of their column.
class Cells {
 public:
  Cells(const Matrix& matrix, const std::string& path)
      : table_(matrix.table), row_(matrix.row_of_path.at(path)) {}
  std::string text(std::string_view column) const {
    return std::string(table_.at(row_, table_.require_column(column).value()));
  }
  int64_t count(std::string_view column) const { return std::stoll("0" + text(column)); }
  double number(std::string_view column) const { return std::stod("0" + text(column)); }
  bool yes(std::string_view column) const { return text(column) == "True"; }
  bool notes(std::string_view part) const { return text("notes").find(part) != std::string::npos; }

 private:
  const CsvTable& table_;
  std::size_t row_;
};

void check_model(const spec::Model& model, const Cells& row) {
  CHECK(model.num_layers == row.count("num_layers"));
  CHECK(model.hidden_size == row.count("hidden"));
  CHECK(model.ffn_hidden_size == row.count("ffn"));
  CHECK(model.num_attention_heads == row.count("heads"));
  CHECK(model.num_query_groups == row.count("kv_groups"));
  CHECK(model.kv_channels == row.count("head_dim"));
  CHECK(model.sequence_length == row.count("data_seq"));
  CHECK(model.vocabulary_divisible_by == row.count("vocab_multiple"));
  CHECK(model.moe.has_value() == !row.text("moe_experts").empty());
  if (!model.moe) return;
  CHECK(model.moe->num_experts == row.count("moe_experts"));
  CHECK(model.moe->router_topk == row.count("moe_topk"));
  CHECK(model.moe->capacity_factor == row.number("moe_capacity"));
  CHECK(model.moe->grouped_gemm == row.yes("moe_grouped_gemm"));
}

void check_layout(const spec::Job& job, const Cells& row) {
  const spec::Plan& plan = job.plan;
  CHECK(plan.tensor_parallel_size == row.count("TP"));
  CHECK(plan.pipeline_parallel_size == row.count("PP"));
  CHECK(plan.expert_parallel_size == row.count("EP"));
  CHECK(plan.context_parallel_size == row.count("CP"));
  CHECK(plan.virtual_pipeline_size == row.count("VPP"));
  CHECK(plan.sequence_parallel == row.yes("SP"));
  CHECK(job.data_parallel_size() == row.count("DP"));
  CHECK(plan.global_batch_size == row.count(row.text("ds_GBS").empty() ? "GBS" : "ds_GBS"));
  CHECK(plan.micro_batch_size == row.count(row.text("ds_MBS").empty() ? "MBS" : "ds_MBS"));
  CHECK(as_real(plan.global_batch_size) /
            as_real(plan.micro_batch_size * job.data_parallel_size()) ==
        row.number("num_microbatches"));
  CHECK(job.cluster.num_nodes == row.count("nodes"));
  CHECK(job.cluster.gpus_per_node == row.count("gpus_per_node"));
  CHECK(job.cluster.name == (row.text("gpu_type") == "H200" ? "hgx-h200" : "hgx-h100"));
}

void check_recompute(const spec::Plan& plan, const Cells& row) {
  const bool full = row.text("recompute_granularity") == "full";
  CHECK(plan.recompute == (full ? spec::Recompute::full : spec::Recompute::none));
  CHECK(plan.recompute_layers.has_value() == full);
  if (full) CHECK(*plan.recompute_layers == row.count("recompute_layers"));
}

void check_overlap(const spec::Plan& plan, const Cells& row) {
  CHECK(plan.overlap_gradient == row.yes("overlap_grad_sync"));
  CHECK(plan.overlap_parameter == row.yes("overlap_param_sync"));
  CHECK(plan.overlap_tensor == row.yes("tp_comm_overlap_ub"));
  CHECK(plan.gradient_bucket.has_value() == !row.text("bucket_cap_mb").empty());
  if (plan.gradient_bucket) CHECK(*plan.gradient_bucket / unit::MiB == row.number("bucket_cap_mb"));
}

void check_optimizer(const spec::Job& job, const Cells& row) {
  const spec::Plan& plan = job.plan;
  CHECK(plan.precision == spec::Precision::bf16);
  const bool fsdp = row.yes("FSDP");
  CHECK(plan.optimizer.name == (fsdp ? "fsdp_fused_adam" : row.text("optimizer")));
  const bool distributed = row.text("optimizer") != "fused_adam";
  const spec::Sharding expected = fsdp                                 ? spec::Sharding::parameters
                                  : distributed && row.count("DP") > 1 ? spec::Sharding::optimizer
                                                                       : spec::Sharding::none;
  CHECK(plan.sharding == expected);
  const bool half = row.text(fsdp ? "fsdp_grad_dtype" : "grad_sync_dtype") == "bf16";
  CHECK(plan.optimizer.gradient_sync_bytes == (half ? 2 : 4));
}

void check_task(const spec::Job& job, const Cells& row) {
  const std::string entry = row.text("entry_script");
  const spec::Task expected = entry.find("pretraining") != entry.npos  ? spec::Task::pretrain
                              : entry.find("finetuning") != entry.npos ? spec::Task::lora
                                                                       : spec::Task::prefill;
  CHECK(job.task == expected);
  CHECK(job.plan.lora.has_value() == (expected == spec::Task::lora));
  if (job.plan.lora) CHECK(job.plan.lora->rank == row.count("lora_dim"));
  CHECK(job.stack.name == "nemo-profiled");
}

int64_t count_code(const Imported& imported, spec::DiagnosisCode code) {
  return std::ranges::count(imported.diagnoses, code, &spec::Diagnosis::code);
}

TEST_CASE("every one of the 386 upstream files becomes the job its row of the table describes") {
  for (const bool with_scripts : {false, true}) {
    const auto matrix = read_matrix(with_scripts);
    if (!matrix) return;
    CHECK(matrix->import.rows.size() == 386);
    for (const FolderRow& row : matrix->import.rows) {
      CAPTURE(row.path);
      REQUIRE_MESSAGE(row.imported.has_value(), row.problem);
      const Cells cells(*matrix, row.path);
      check_model(row.imported->job.model, cells);
      check_layout(row.imported->job, cells);
      check_recompute(row.imported->job.plan, cells);
      check_overlap(row.imported->job.plan, cells);
      check_optimizer(row.imported->job, cells);
      check_task(row.imported->job, cells);
    }
  }
}

TEST_CASE("no key of the 386 upstream files is unknown and no value unreadable") {
  const auto matrix = read_matrix(false);
  if (!matrix) return;
  for (const FolderRow& row : matrix->import.rows)
    for (const spec::Diagnosis& each : row.imported->diagnoses) {
      // That a task is not modelled yet says nothing of the file.
      const bool of_task = each.what.find(": task ") != std::string::npos;
      CHECK_MESSAGE((each.code != spec::DiagnosisCode::unsupported || of_task), each.what);
      CHECK_MESSAGE(each.what.find("unknown key") == std::string::npos, each.what);
      CHECK_MESSAGE(each.what.find("it must be") == std::string::npos, each.what);
    }
}

/// One diagnosis of this code for each row whose notes in the table say so, and no other.
void check_class(const Matrix& matrix, spec::DiagnosisCode code, std::string_view note,
                 int64_t expected) {
  CAPTURE(note);
  int64_t found = 0;
  for (const FolderRow& row : matrix.import.rows) {
    CAPTURE(row.path);
    const int64_t mine = count_code(*row.imported, code);
    CHECK(mine == (Cells(matrix, row.path).notes(note) ? 1 : 0));
    found += mine;
  }
  CHECK(found == expected);
}

/// Those which the file itself and its neighbours show.
void check_classes_of_files(const Matrix& matrix) {
  using enum spec::DiagnosisCode;
  check_class(matrix, layers_not_divisible, "layers%PP", 4);
  check_class(matrix, batch_not_divisible, "GBS not divisible", 21);
  check_class(matrix, head_dimension, "head_dim=192", 22);
  check_class(matrix, tensor_overlap_without_sequence_parallel,
              "TP overlap without sequence_parallel", 8);
  check_class(matrix, inconsistent, "named inference", 44);
  check_class(matrix, inert_option, "overlap digit has no effect here", 12);
}

TEST_CASE("each invalid class of the upstream matrix is found, with its count") {
  const auto matrix = read_matrix(true);
  if (!matrix) return;
  check_classes_of_files(*matrix);
  check_class(*matrix, spec::DiagnosisCode::node_count_mismatch, "YAML nodes 4 but job script 8",
              8);
}

TEST_CASE("without job scripts the same classes are found, but for the node counts") {
  const auto matrix = read_matrix(false);
  if (!matrix) return;
  check_classes_of_files(*matrix);
  for (const FolderRow& row : matrix->import.rows)
    CHECK(count_code(*row.imported, spec::DiagnosisCode::node_count_mismatch) == 0);
}

TEST_CASE("338 of the upstream files are distinct: 16 lie in four places each, 322 in one") {
  const auto matrix = read_matrix(false);
  if (!matrix) return;
  CHECK(matrix->import.distinct() == 338);
  std::map<std::string, int> places;
  for (const FolderRow& row : matrix->import.rows) {
    if (row.identical_to) CHECK(places.contains(*row.identical_to));
    places[row.identical_to.value_or(row.path)] += 1;
  }
  std::map<int, int> files_in_so_many;
  for (const auto& [path, count] : places)
    files_in_so_many[count] += 1;
  CHECK(files_in_so_many == std::map<int, int>{{1, 322}, {4, 16}});
}

/// Everything that is simulated, without where it was read and what was assumed.
void check_same_job(const spec::Job& a, const spec::Job& b) {
  CHECK(a.name == b.name);
  CHECK(a.task == b.task);
  CHECK(a.model == b.model);
  CHECK(a.plan == b.plan);
  CHECK(a.stack == b.stack);
  CHECK(a.cluster == b.cluster);
  CHECK(a.environment == b.environment);
}

TEST_CASE("every upstream file, exported to NeMo and imported again, says the same") {
  const auto matrix = read_matrix(false);
  if (!matrix) return;
  for (const FolderRow& row : matrix->import.rows) {
    CAPTURE(row.path);
    const Exported exported = export_nemo_yaml(row.imported->job);
    CHECK(exported.unsupported_settings.empty());
    const auto again =
        must(import_nemo_yaml(spec::default_library(), exported.text, "again.yaml", {}));
    check_same_job(again.job, row.imported->job);
    for (const spec::Diagnosis& each : again.diagnoses)
      CHECK_MESSAGE(each.what.find("unknown key") == std::string::npos, each.what);
  }
}

TEST_CASE(
    "every upstream pretraining job, exported to Megatron and imported again, is the same job") {
  const auto matrix = read_matrix(false);
  if (!matrix) return;
  for (const FolderRow& row : matrix->import.rows) {
    if (row.imported->job.task != spec::Task::pretrain) continue;
    CAPTURE(row.path);
    const Exported exported = export_megatron_args(row.imported->job);
    CHECK(exported.unsupported_settings.empty());
    auto again = must(import_megatron_args(spec::default_library(), exported.text, "again.sh", {}));
    // Megatron's optimizer has another name for the same bytes.
    again.job.plan.optimizer.name = row.imported->job.plan.optimizer.name;
    check_same_job(again.job, row.imported->job);
    for (const spec::Diagnosis& each : again.diagnoses)
      CHECK_MESSAGE(each.what.find("unknown key") == std::string::npos, each.what);
  }
}

}  // namespace
}  // namespace triplepoint::formats
