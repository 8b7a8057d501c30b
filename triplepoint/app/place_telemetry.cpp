// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/place_telemetry.h"

#include <algorithm>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/text.h"

#include "triplepoint/flags/shared_flags.h"
#include "triplepoint/report/pages/document_page.h"
#include "triplepoint/sim/simulate.h"
#include "triplepoint/store/store.h"
#include "triplepoint/telemetry/timeseries/reader.h"

namespace triplepoint::app {
namespace {

using advise::ThermalSample;

Result<void> require_same_size(const spec::Job& job, const std::vector<ThermalSample>& samples) {
  int64_t nodes = 0, locals = 0;
  for (const ThermalSample& sample : samples) {
    nodes = std::max(nodes, sample.node + 1);
    locals = std::max(locals, sample.local + 1);
  }
  const bool fits = samples.empty() || (locals <= job.cluster.gpus_per_node &&
                                        (nodes == 1 || nodes == job.cluster.num_nodes));
  if (fits) return {};
  return error(
      "the telemetry is of {} nodes with up to {} GPUs, the job is for {} with {} (its GPUs are "
      "others); give that of one node, or of all of them",
      nodes, locals, job.cluster.num_nodes, job.cluster.gpus_per_node);
}

/// The machine that placements are judged on, and how warm its GPUs are.
struct PlaceMachine {
  spec::Job job;
  std::vector<ThermalSample> samples;
  std::optional<std::string> note;  // how near it came to what was measured
};

Result<PlaceMachine> machine_to_place(const spec::Job& job, const Telemetry& telemetry) {
  TPT_TRY(flags::require_power(job, "place"));
  TPT_TRY(require_same_size(job, telemetry.samples));
  const run::Run at_rest = TPT_TRY(run_at_rest(job));
  if (telemetry.measured) {
    // Placements are judged on the machine as it was read: all of it is believed.
    constexpr learn::RoomPriors as_read = {
        .inlet_k = 10, .slot_k = 10, .board = 1, .noise_k = 0.01, .power = 1e-4};
    const auto room = learn::learn_room(as_read, {{job, heat_of(telemetry)}});
    if (!room) return PlaceMachine{job, telemetry.samples, {}};
    const auto measured = static_cast<int64_t>(advise::mean_samples(telemetry.samples).size());
    return PlaceMachine{
        learn::in_room(job, *room), telemetry.samples,
        fmt::format("the simulated machine was made as warm as the measured one: its GPUs are "
                    "{:.1f} K from them on average (rms), {:.1f} K before{}",
                    room->after_k, room->before_k,
                    measured < job.world_size()
                        ? fmt::format("; the {} that were measured stand for all {}", measured,
                                      job.world_size())
                        : "")};
  }
  std::vector<ThermalSample> samples = advise::thermal_samples(at_rest);
  return PlaceMachine{job, std::move(samples), {}};
}

Result<std::vector<std::string>> host_names(const spec::Job& job,
                                            const std::optional<std::string>& names,
                                            const Telemetry& telemetry) {
  if (!names) return telemetry.hosts;
  std::vector<std::string> hosts = TPT_TRY(split_list(*names));
  if (static_cast<int64_t>(hosts.size()) == job.cluster.num_nodes) return hosts;
  return error("--hosts names {} nodes, the job has {} (each needs a name); name them all",
               hosts.size(), job.cluster.num_nodes);
}

/// Of a column per GPU, as papers' tables have it; nothing where the file is none.
Result<std::optional<std::vector<ThermalSample>>> read_wide_table(
    const std::string& path, const advise::TableChoice& choice) {
  if (!path.ends_with(".csv")) return std::nullopt;
  std::string text = TPT_TRY(read_file(path));
  const auto table = CsvTable::parse(std::move(text), path);
  if (!table || !advise::is_thermal_table(*table)) return std::nullopt;
  return TPT_TRY(advise::read_thermal_table(*table, choice));
}

}  // namespace

std::vector<learn::GpuHeat> heat_of(const Telemetry& telemetry) {
  std::vector<learn::GpuHeat> heat;
  for (const ThermalSample& one : advise::mean_samples(telemetry.samples))
    if (one.temperature_c) heat.push_back({one.node, one.local, *one.temperature_c, one.power_w});
  return heat;
}

bool may_have_rows(const std::string& path) {
  return !path.ends_with(".run");
}

Result<Telemetry> read_telemetry(const std::vector<std::string>& files,
                                 const advise::TableChoice& choice) {
  Telemetry all{.measured = !files.empty()};
  for (const std::string& path : files) {
    if (may_have_rows(path))
      if (const auto samples = TPT_TRY(read_wide_table(path, choice))) {
        all.samples.insert(all.samples.end(), samples->begin(), samples->end());
        continue;
      }
    const telemetry::TimeSeriesOptions options{
        .row = choice.row, .gpus_per_node = static_cast<int32_t>(choice.gpus_per_node)};
    const run::Run run =
        TPT_TRY(may_have_rows(path) ? telemetry::read_time_series(path, options) : run::load(path));
    const std::vector<ThermalSample> samples = advise::thermal_samples(run);
    all.samples.insert(all.samples.end(), samples.begin(), samples.end());
    if (run.manifest.job && !all.job) all.job = run.manifest.job;
    if (all.hosts.empty()) all.hosts = run.manifest.hosts;
    if (may_have_rows(path))
      all.notes.insert(all.notes.end(), run.manifest.notes.begin(), run.manifest.notes.end());
  }
  if (!files.empty() && all.samples.empty())
    return error(
        "{}: no GPU was recorded (there is nothing to group); triplepoint doctor says why no "
        "sensor was read",
        files.front());
  return all;
}

Result<advise::GroupedMachine> group_devices(const std::vector<ThermalSample>& samples,
                                             const std::vector<std::string>& files,
                                             const std::string& sign,
                                             const std::optional<double>& kelvin_per_watt) {
  advise::GroupingOptions options;
  options.kelvin_per_watt = kelvin_per_watt;
  bool any = false;
  for (const auto each : {advise::ThermalSign::temperature, advise::ThermalSign::clock,
                          advise::ThermalSign::throttling}) {
    if (sign == name_of(each)) options.sign = each;
    if (sign.empty() || sign == name_of(each))
      any |= std::ranges::any_of(samples, [&](const ThermalSample& one) {
        return advise::reading(one, each).has_value();
      });
  }
  if (!any)
    return error(
        "{}: no GPU has a reading of {} (GPUs are grouped by one); {}",
        files.empty() ? "the simulated job" : files.front(),
        sign.empty() ? "temperature, clock or throttling" : sign,
        sign.empty() ? "record it with triplepoint record" : "leave out --by, or name another");
  advise::GroupedMachine seen{.devices = advise::mean_samples(samples),
                              .groups = advise::find_thermal_groups(samples, options),
                              .source = "simulated"};
  if (!files.empty()) seen.source = "from " + Path(files.front()).filename().string();
  if (files.size() > 1) seen.source += fmt::format(" and {} more", files.size() - 1);
  return seen;
}

Result<run::Run> run_at_rest(const spec::Job& job) {
  run::Run run = sim::simulate(job, {.timeline = false});
  if (!run.manifest.fits_memory)
    return error(
        "{} does not fit in memory (there is no step at thermal steady state); "
        "triplepoint simulate prints the memory breakdown",
        job.name);
  if (run.shutdown) return error("{}: {}", job.name, run::shutdown_text(run));
  return run;
}

Result<PlacedJob> place_job(const spec::Job& job, const Telemetry& telemetry,
                            const std::vector<std::string>& files, const std::string& sign,
                            advise::PlaceOptions options) {
  const PlaceMachine machine = TPT_TRY(machine_to_place(job, telemetry));
  const advise::GroupedMachine seen =
      TPT_TRY(group_devices(machine.samples, files, sign, learn::kelvin_per_watt(job.cluster.gpu)));
  const advise::ColdMap map = advise::cold_map(seen.groups, seen.devices, job);
  options.machine_is_known = telemetry.measured || !job.environment.device_resistances.empty();
  advise::PlaceResult result = advise::place(machine.job, map, options);
  if (machine.note) result.notes.push_back(*machine.note);
  const std::vector<std::string> assumptions = spec::assumptions_of(job);
  result.notes.insert(result.notes.end(), assumptions.begin(), assumptions.end());
  result.notes.insert(result.notes.end(), telemetry.notes.begin(), telemetry.notes.end());
  return PlacedJob{seen, std::move(result)};
}

Result<std::string> write_placements(const std::string& folder, const spec::Library& library,
                                     const PlacedJob& placed, const spec::Job& job,
                                     const Telemetry& telemetry,
                                     const std::optional<std::string>& names,
                                     const answers::Document& answer) {
  const advise::PlaceResult& result = placed.result;
  const bool only_page = folder.ends_with(".html");
  const auto hosts = TPT_TRY(host_names(job, names, telemetry));
  std::string remarks;
  if (!only_page) remarks = TPT_TRY(advise::write_placements(folder, library, result, job, hosts));
  TPT_TRY(write_file_atomically(only_page ? Path(folder) : Path(folder) / "report.html",
                                report::document_page(answer)));
  if (only_page) return fmt::format("wrote {}\n", folder);
  return fmt::format(
      "{} placements as job.toml, megatron.sh, nemo.yaml, devices.sh and hostfile in {}, with "
      "report.html\n{}",
      result.placements.size(), folder, remarks);
}

}  // namespace triplepoint::app
