// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/calibrate/collective_tables.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/files.h"

#include "triplepoint/calibrate/collective_fit.h"

namespace triplepoint::calibrate {
namespace {

using doctest::Approx;

const std::string nccl_header =
    "system,nccl_version,op,dtype,num_gpus,message_size_elements,latency_ms\n";
const std::string mixed_header =
    "row_id,family,kind,gpu,dtype,op,m,n,k,heads,n_gpus,n_nodes,interconnect,msg_bytes,latency_us,"
    "busbw_gbps,notes\n";

CsvTable parsed(std::string text) {
  return CsvTable::parse(std::move(text), "test.csv").value();
}

CollectiveRow only_row(const std::string& csv) {
  const auto rows = read_collective_rows(parsed(csv));
  REQUIRE_MESSAGE(rows, rows.error().what);
  REQUIRE(rows->rows.size() == 1);
  return rows->rows[0];
}

std::string mixed(const std::string& gpu, const std::string& rest) {
  return mixed_header + "x1,some-family,collective," + gpu + "," + rest + "\n";
}

TEST_CASE("a message size in elements becomes bytes of its type") {
  const std::string row = "h100_sxm,2.29.2,all_gather,{},8,1048576,0.1\n";
  CHECK(only_row(nccl_header + fmt::format(fmt::runtime(row), "half")).payload == 2 * unit::MiB);
  CHECK(only_row(nccl_header + fmt::format(fmt::runtime(row), "int8")).payload == 1 * unit::MiB);
  CHECK(only_row(nccl_header + fmt::format(fmt::runtime(row), "float")).payload == 4 * unit::MiB);
}

TEST_CASE("notes say whether the switches reduced") {
  const auto reduction = [](const std::string& interconnect, const std::string& notes) {
    return only_row(mixed("H200-SXM",
                          "half,all_reduce,,,,,8,1," + interconnect + ",8589934592,,400," + notes))
        .reduction;
  };
  CHECK(reduction("NVLink", "algo NVLS") == SwitchReduction::on);
  CHECK(reduction("NVLink/NVSwitch (NVLS)", "") == SwitchReduction::on);
  CHECK(reduction("NVLink", "algo Ring (NCCL_NVLS_ENABLE=0)") == SwitchReduction::off);
  CHECK(reduction("NVLink", "") == SwitchReduction::as_the_cluster);
}

TEST_CASE("what joins the nodes is read from the row") {
  const auto fabric = [](const std::string& gpu, const std::string& interconnect) {
    const CollectiveRow row =
        only_row(mixed(gpu, "half,all_reduce,,,,,16,2," + interconnect + ",1048576,100,,"));
    std::vector<std::string> notes;
    const auto machine = machine_of(row, spec::default_library(), notes);
    REQUIRE_MESSAGE(machine, machine.error().what);
    CHECK(notes.size() == 1);
    return machine->scale_out.nic_bandwidth *
           static_cast<double>(machine->scale_out.nics_per_node) / (unit::Gb / unit::s);
  };
  CHECK(fabric("H100", "8 x 400 Gb/s") == Approx(3200));
  CHECK(fabric("A100-SXM4-80GB", "4x HDR200 InfiniBand") == Approx(800));
  CHECK(fabric("A100-SXM4-40GB", "EFA") == Approx(400));
  CHECK(fabric("H100", "EFA 3200 Gbps") == Approx(3200));
  CHECK(fabric("A100", "") == Approx(1600));
}

TEST_CASE("collectives that say too little are skipped with a reason") {
  const auto rows = read_collective_rows(
      parsed(mixed_header +
             "a,f,collective,A100 (not stated in the file),,all_reduce,,,,,8,1,,1024,1,,\n" +
             "b,f,collective,H100,,gossip,,,,,8,1,,1024,1,,\n" +
             "c,f,collective,H100,,all_reduce,,,,,1,1,,1024,1,,\n" +
             "d,f,collective,H100,,all_reduce,,,,,8,1,,1024,,,\n"));
  REQUIRE(rows);
  CHECK(rows->rows.empty());
  REQUIRE(rows->skipped.size() == 4);
  CHECK(rows->skipped[0].reason == "the source does not state the GPU");
  CHECK(rows->skipped[1].reason == "no collective is named in 'gossip'");
  CHECK(rows->skipped[2].reason == "fewer than two GPUs are stated");
  CHECK(rows->skipped[3].reason == "no latency or rate is stated");
}

TEST_CASE("bandwidths and latencies of one prediction agree") {
  const std::string text = mixed_header +
                           "a,f,collective,H100,half,all_gather,,,,,8,1,,1073741824,2000,,\n"
                           "b,f,collective,H100,half,all_gather,,,,,8,1,,1073741824,,400,\n";
  const auto scores = score_collective_table(parsed(text), spec::default_library());
  REQUIRE_MESSAGE(scores, scores.error().what);
  REQUIRE(scores->scored.size() == 2);
  CHECK(scores->scored[0].quantity == "latency_us");
  CHECK(scores->scored[1].quantity == "busbw_gb_per_s");
  CHECK(scores->scored[0].family == "f/large");
  const double bytes = 1073741824;
  CHECK(scores->scored[1].predicted == Approx(bytes * 7 / 8 / scores->scored[0].predicted / 1000));
}

TEST_CASE("a fit of links finds the numbers that rows were made with") {
  const std::string name = "dgx-h100";
  spec::Cluster cluster = spec::load_cluster(spec::default_library(), name).value();
  cluster.scale_up.efficiency = 0.7;
  cluster.scale_up.launch = 8 * unit::us;
  std::vector<CollectiveRow> rows;
  for (const int64_t ranks : {2, 4})
    for (const auto collective : {spec::Collective::all_gather, spec::Collective::all_to_all})
      for (double bytes = 1024; bytes < 1e9; bytes *= 2) {
        CollectiveRow row{.gpu = "h100",
                          .cluster = name,
                          .collective = collective,
                          .payload = bytes * unit::B,
                          .ranks = ranks};
        row.latency = predicted_time(cluster, row);
        rows.push_back(row);
      }
  const auto fit = fit_collectives(rows, spec::default_library(), name);
  REQUIRE_MESSAGE(fit, fit.error().what);
  CHECK(fit->large.median_pct < 2);
  CHECK(fit->small.median_pct < 2);
  CHECK(fit->links.efficiency == Approx(0.7).epsilon(0.05));
  CHECK(fit->links.launch / unit::us == Approx(8).epsilon(0.1));
}

TEST_CASE("a fit of links to too few rows is refused") {
  const auto fit = fit_collectives({}, spec::default_library(), "dgx-h100");
  REQUIRE_FALSE(fit);
  CHECK(fit.error().what.find("at least 40") != std::string::npos);
}

std::optional<CsvTable> published(const std::string& name) {
  auto text = read_file(Path(TPT_SHARED_DIR) / "data" / name);
  if (text) return CsvTable::parse(*std::move(text), name).value();
  MESSAGE("skipped: no ../shared/data/" << name);
  return std::nullopt;
}

TEST_CASE("the shipped links are what the fit gives, within 6 % above 16 MB and 20 % below 1 MB") {
  const auto table = published("nccl.csv");
  if (!table) return;
  const CollectiveRows rows = read_collective_rows(*table).value();
  const spec::Library library = spec::default_library();
  for (const char* name : {"dgx-a100", "dgx-h100", "dgx-b200", "dgx-b300"}) {
    CAPTURE(name);
    const auto fit = fit_collectives(rows.rows, library, name);
    REQUIRE_MESSAGE(fit, fit.error().what);
    const spec::ScaleUp shipped = spec::load_cluster(library, name).value().scale_up;
    CHECK(shipped.efficiency == Approx(fit->links.efficiency).epsilon(0.01));
    CHECK(shipped.all_to_all_efficiency == Approx(fit->links.all_to_all_efficiency).epsilon(0.01));
    CHECK(shipped.launch / fit->links.launch == Approx(1).epsilon(0.01));
    CHECK(shipped.half_size / fit->links.half_size == Approx(1).epsilon(0.01));
    CHECK(fit->held_out_large.median_pct < 6);
    CHECK(fit->held_out_small.median_pct < 20);
  }
}

TEST_CASE("the numbers that people published of many nodes are within their scatter") {
  const std::string path = TPT_SOURCE_DIR "/data/calibrations/collectives_published.csv";
  const CsvTable table = CsvTable::parse(read_file(path).value(), path).value();
  const auto scores = score_collective_table(table, spec::default_library());
  REQUIRE_MESSAGE(scores, scores.error().what);
  REQUIRE(scores->skipped.size() == 1);
  CHECK(scores->skipped.front().reason.find("forced") != std::string::npos);
  std::vector<double> errors;
  for (const ScoredRow& row : scores->scored)
    errors.push_back(std::abs(row.error_pct()));
  std::sort(errors.begin(), errors.end());
  REQUIRE(errors.size() == 15);
  CHECK(errors[7] < 15);
  CHECK(errors[14] < 60);
}

}  // namespace
}  // namespace triplepoint::calibrate
