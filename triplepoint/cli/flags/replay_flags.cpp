// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/cli/flags/replay_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/spec/library.h"

#include "triplepoint/flags/bind.h"
#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/store/store.h"
#include "triplepoint/study/trace_what_if.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
namespace {

Store into_factor(std::optional<double>& target, const char* flag) {
  return [&target, flag](std::string_view text) -> Result<void> {
    double value = 0;
    const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = fault == std::errc() && stop == text.data() + text.size();
    if (!whole || !(value >= 0.01 && value <= 100))
      return error(fmt::format("{} is \"{}\" (it must be a factor from 0.01 to 100); try {} 0.9",
                               flag, text, flag));
    target = value;
    return {};
  };
}

}  // namespace

Arguments ReplayFlags::arguments() {
  return Arguments()
      .group("What-if from a measured trace")
      .flag("--replay", "TRACES",
            "traces of all ranks (files, folders, tars, comma-separated) instead of a job",
            into(files_, split_list), {.words = Words::files})
      .flag("--measured-on", "CLUSTER",
            "cluster of the traces; with --cluster, which requires it, kernels and links are "
            "scaled by the ratio of the two",
            into(measured_on_), {.words = Words::clusters})
      .flag("--clock-scale", "FACTOR", "SM clock over the measured one: 0.9",
            into_factor(clock_, "--clock-scale"))
      .flag("--host-scale", "FACTOR", "time of the host's own work over the measured one: 0.5",
            into_factor(host_, "--host-scale"));
}

Result<void> ReplayFlags::check() const {
  if (!given() && (measured_on_ || clock_ || host_))
    return error(
        "--measured-on, --clock-scale and --host-scale change a measured step (there is "
        "none); give its traces with --replay");
  return {};
}

Result<double> ReplayFlags::insensitive_share(const spec::Library& library) const {
  if (!measured_on_) return 0.;
  const spec::Cluster cluster = TPT_TRY(spec::load_cluster(library, *measured_on_));
  return cluster.gpu.kernels.clock_insensitive_share;
}

Result<sim::TraceScaling> ReplayFlags::scaling(const std::optional<std::string>& cluster) const {
  if (cluster && !measured_on_)
    return error(
        fmt::format("--cluster {} without --measured-on (a trace does not name its cluster, and "
                    "times are scaled by the ratio of the two); add --measured-on CLUSTER",
                    *cluster));
  sim::TraceScaling scaling;
  if (measured_on_) {
    const spec::Library library = TPT_TRY(spec::require_library());
    const spec::Cluster from = TPT_TRY(spec::load_cluster(library, *measured_on_));
    if (cluster) scaling = sim::on_cluster(TPT_TRY(spec::load_cluster(library, *cluster)), &from);
    if (clock_) {
      const sim::TraceScaling slower = sim::at_clock(*clock_, TPT_TRY(insensitive_share(library)));
      scaling.compute_time *= slower.compute_time;
      scaling.other_time *= slower.other_time;
    }
  } else if (clock_) {
    scaling = sim::at_clock(*clock_, 0);
  }
  scaling.host_time = host_.value_or(1);
  return scaling;
}

Result<run::Run> ReplayFlags::run(tui::Console& console, bool as_json,
                                  const std::optional<std::string>& cluster) const {
  const sim::TraceScaling scaling = TPT_TRY(this->scaling(cluster));
  const study::TraceComparison answer = TPT_TRY(study::trace_what_if(files_, scaling));
  if (as_json) {
    print_json(console, answer.json);
  } else {
    console.print(answer.headline + "\n\n" + tui::table_text(answer.table, console));
    for (const std::string& remark : answer.remarks)
      console.print("note: " + remark + "\n");
  }
  return answer.run;
}

}  // namespace triplepoint::cli
