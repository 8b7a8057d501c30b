// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/collective_rows.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include <fmt/format.h>

#include "triplepoint/base/text.h"

#include "triplepoint/calibrate/kernel_rows.h"
#include "triplepoint/calibrate/machine_names.h"
#include "triplepoint/calibrate/table_cells.h"
#include "triplepoint/calibrate/table_words.h"

namespace triplepoint::calibrate {
namespace {

using spec::Collective;

std::optional<Collective> collective_named(const std::string& spelling) {
  std::string plain;
  for (const char c : lower_case(spelling))
    if (std::isalpha(static_cast<unsigned char>(c)) != 0) plain += c;
  struct Named {
    std::string_view part;
    Collective collective;
  };
  static constexpr std::array<Named, 8> names{{{"allreduce", Collective::all_reduce},
                                               {"allgather", Collective::all_gather},
                                               {"reducescatter", Collective::reduce_scatter},
                                               {"alltoall", Collective::all_to_all},
                                               {"broadcast", Collective::broadcast},
                                               {"sendrecv", Collective::send_recv},
                                               {"ptop", Collective::send_recv},
                                               {"bcast", Collective::broadcast}}};
  for (const Named& name : names)
    if (plain.find(name.part) != std::string::npos) return name.collective;
  return std::nullopt;
}

bool is_blackwell(const std::string& gpu) {
  return gpu == "b200" || gpu == "b300" || gpu == "gb200" || gpu == "gb300";
}

SwitchReduction reduction_of(const std::string& text, bool aiconfigurator, const std::string& gpu) {
  if (mentions(text, "nvls_enable=0") || mentions(text, "algo ring")) return SwitchReduction::off;
  if (mentions(text, "nvls")) return SwitchReduction::on;
  if (aiconfigurator)
    return is_blackwell(gpu) ? SwitchReduction::off : SwitchReduction::as_the_cluster;
  return SwitchReduction::as_the_cluster;
}

double element_bytes(const std::string& dtype) {
  const std::string plain = lower_case(dtype);
  if (plain == "int8" || plain == "uint8" || plain.starts_with("fp8")) return 1;
  return plain == "float" || plain == "float32" || plain == "fp32" ? 4 : 2;
}

Bytes payload_of(const Cells& cells, std::vector<std::string>& notes) {
  if (const auto bytes = cells.number("msg_bytes")) return *bytes * unit::B;
  if (const auto elements = cells.number("message_size_elements"))
    return *elements * element_bytes(cells.text("dtype")) * unit::B;
  notes.emplace_back("size not stated: 1 GiB assumed");
  return 1 * unit::GiB;
}

std::string software_of(const Cells& cells) {
  return cells.has("nccl_version") ? "NCCL " + cells.text("nccl_version") : std::string();
}

std::string family_of(const Cells& cells, const std::string& gpu) {
  if (cells.has("family")) return cells.text("family");
  return fmt::format("nccl {} {}", gpu, cells.text("nccl_version"));
}

void set_measured(CollectiveRow& row, const Cells& cells) {
  if (const auto ms = cells.number("latency_ms")) row.latency = *ms * unit::ms;
  if (const auto us = cells.number("latency_us")) row.latency = *us * unit::us;
  row.busbw_gb_per_s = cells.number_or("busbw_gbps", cells.number_or("gbps", 0));
}

/// What makes a row impossible to predict, or nothing.
std::string why_not(const CollectiveRow& row) {
  if (row.ranks < 2) return "fewer than two GPUs are stated";
  if (row.latency <= Seconds() && row.busbw_gb_per_s <= 0) return "no latency or rate is stated";
  if (row.cluster.empty()) return fmt::format("no cluster of {} is in the library", row.gpu);
  return {};
}

Result<CollectiveRow> read_row(const Cells& cells) {
  const std::string spelled = cells.has("gpu") ? cells.text("gpu") : cells.text("system");
  if (mentions(spelled, "not stated")) return error("the source does not state the GPU");
  const auto gpu = gpu_named(spelled);
  if (!gpu) return error(fmt::format("no GPU of the library is named in '{}'", spelled));
  const auto collective = collective_named(cells.text("op"));
  if (!collective) return error(fmt::format("no collective is named in '{}'", cells.text("op")));
  CollectiveRow row{.row_id = cells.id(),
                    .family = family_of(cells, *gpu),
                    .gpu = *gpu,
                    .cluster = usual_cluster(*gpu).value_or(""),
                    .interconnect = cells.text("interconnect"),
                    .software = software_of(cells),
                    .dtype = cells.text("dtype"),
                    .collective = *collective};
  const bool aiconfigurator = row.family.starts_with("aic-") || cells.has("nccl_version");
  row.reduction =
      reduction_of(row.interconnect + " " + cells.text("notes"), aiconfigurator, row.gpu);
  row.payload = payload_of(cells, row.notes);
  row.ranks = cells.has("num_gpus") ? cells.count("num_gpus") : cells.count("n_gpus");
  row.nodes = std::max<int64_t>(1, cells.count("n_nodes"));
  if (row.nodes > 1 && mentions(cells.text("notes"), "algo "))
    return error("its algorithm was forced (predictions are of the one that NCCL chooses)");
  set_measured(row, cells);
  return row;
}

}  // namespace

bool is_collective_table(const std::vector<std::string>& header) {
  const auto has = [&](std::string_view title) {
    return std::find(header.begin(), header.end(), title) != header.end();
  };
  return has("system") && has("op") && has("num_gpus") && has("message_size_elements") &&
         has("latency_ms");
}

Result<CollectiveRows> read_collective_rows(const CsvTable& table) {
  const bool mixed = is_kernels_table(table.header());
  if (!mixed && !is_collective_table(table.header()))
    return error(
        fmt::format("{}: no table of collectives (its columns are those of no such table); "
                    "columns it may have: docs/formats.md",
                    table.name()));
  CollectiveRows out;
  for (std::size_t r = 0; r < table.rows(); ++r) {
    const Cells cells(table, r);
    if (mixed && cells.text("kind") != "collective") continue;
    Result<CollectiveRow> row = read_row(cells);
    const std::string reason = row ? why_not(*row) : row.error().what;
    if (reason.empty())
      out.rows.push_back(*std::move(row));
    else
      out.skipped.push_back({cells.id(), reason});
  }
  return out;
}

Result<spec::Cluster> machine_of(const CollectiveRow& row, const spec::Library& library,
                                 std::vector<std::string>& notes) {
  const bool amazon = mentions(row.interconnect, "efa");
  std::string name = row.cluster;
  if (amazon && row.gpu == "h100") name = "aws-p5";
  if (amazon && row.gpu == "h200") name = "aws-p5en";
  if (amazon && row.gpu.starts_with("a100")) name = "aws-p4d";
  spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, name));
  if (row.nodes > 1) {
    if (const auto bandwidth = node_bandwidth_in(row.interconnect, cluster.gpus_per_node))
      cluster.scale_out.nic_bandwidth =
          *bandwidth / static_cast<double>(cluster.scale_out.nics_per_node);
    notes.push_back(fmt::format("{} nodes as in {}, {} NICs of {:.0f} Gb/s", row.nodes, name,
                                cluster.scale_out.nics_per_node,
                                cluster.scale_out.nic_bandwidth / (unit::Gb / unit::s)));
  }
  if (row.reduction != SwitchReduction::as_the_cluster)
    cluster.scale_up.nvls = row.reduction == SwitchReduction::on;
  return cluster;
}

}  // namespace triplepoint::calibrate
