// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/csv_export.h"

#include <array>

#include "triplepoint/base/csv.h"

#include "triplepoint/spec/names.h"

namespace triplepoint::run {

namespace {

void add(CsvWriter& csv, std::optional<double> value) {
  if (value)
    csv.cell(*value);
  else
    csv.empty_cell();
}

/// -1 is how a span says that a number does not apply; a table leaves the cell empty.
void add_index(CsvWriter& csv, int32_t index) {
  if (index >= 0)
    csv.cell(int64_t{index});
  else
    csv.empty_cell();
}

constexpr std::array<std::string_view, span_kind_count> kind_names = {
    "compute", "memory", "communication", "other", "host", "pass", "step", "copy"};

std::string spans_csv(const Timeline& timeline) {
  const std::vector<std::string> header = {"rank",   "begin_ns",   "end_ns", "name",       "kind",
                                           "stage",  "microbatch", "layer",  "collective", "group",
                                           "wait_s", "bytes",      "flops"};
  CsvWriter csv(header);
  for_each_span(timeline, -1, [&](const Span& span) {
    const SpanType& type = timeline.types[static_cast<size_t>(span.type)];
    csv.cell(int64_t{span.rank}).cell(span.begin.nanoseconds()).cell(span.end.nanoseconds());
    csv.cell(type.name).cell(kind_names[static_cast<size_t>(type.kind)]);
    add_index(csv, span.stage);
    add_index(csv, span.microbatch);
    add_index(csv, span.layer);
    csv.cell(type.collective ? spec::enum_name(*type.collective) : "");
    csv.cell(type.group ? spec::enum_name(*type.group) : "");
    csv.cell(span.wait / unit::s).cell(span.bytes / unit::B).cell(span.flops / unit::FLOP);
    csv.end_row();
  });
  return csv.text();
}

std::string series_csv(const std::vector<Series>& all) {
  const std::vector<std::string> header = {"scope", "index", "signal", "time_ns", "value"};
  CsvWriter csv(header);
  for (const Series& series : all)
    for (size_t i = 0; i < series.times.size(); ++i) {
      csv.cell(series.of_node ? "node" : "device").cell(int64_t{series.device});
      csv.cell(series.signal).cell(series.times[i].nanoseconds()).cell(series.values[i]);
      csv.end_row();
    }
  return csv.text();
}

std::string devices_csv(const Run& run) {
  const std::vector<std::string> header = {"device",
                                           "node",
                                           "local",
                                           "slot",
                                           "name",
                                           "rank",
                                           "power_mean_w",
                                           "power_peak_w",
                                           "energy_j",
                                           "die_mean_c",
                                           "die_peak_c",
                                           "sm_clock_mean_mhz",
                                           "sm_clock_min_mhz",
                                           "scale_up_bytes",
                                           "scale_out_bytes"};
  CsvWriter csv(header);
  for (size_t i = 0; i < run.devices.size(); ++i) {
    const Device& device = run.devices[i];
    const DeviceSummary known = i < run.summaries.size() ? run.summaries[i] : DeviceSummary();
    csv.cell(int64_t{device.index}).cell(int64_t{device.node}).cell(int64_t{device.local});
    csv.cell(int64_t{device.slot}).cell(device.name);
    add_index(csv, device.rank.value_or(-1));
    for (const auto& value : {known.power_mean_w, known.power_peak_w, known.energy_j,
                              known.die_mean_c, known.die_peak_c, known.sm_clock_mean_mhz,
                              known.sm_clock_min_mhz, known.scale_up_bytes, known.scale_out_bytes})
      add(csv, value);
    csv.end_row();
  }
  return csv.text();
}

std::string steps_csv(const std::vector<StepRecord>& steps) {
  const std::vector<std::string> header = {"begin_ns", "end_ns", "samples", "tokens"};
  CsvWriter csv(header);
  for (const StepRecord& step : steps) {
    csv.cell(step.begin.nanoseconds()).cell(step.end.nanoseconds());
    csv.cell(step.samples).cell(step.tokens);
    csv.end_row();
  }
  return csv.text();
}

}  // namespace

std::vector<NamedText> csv_tables(const Run& run) {
  return {{"spans.csv", spans_csv(run.timeline)},
          {"series.csv", series_csv(run.series)},
          {"devices.csv", devices_csv(run)},
          {"steps.csv", steps_csv(run.steps)}};
}

Result<void> write_all(const std::vector<NamedText>& files, const Path& folder) {
  if (auto made = make_folder(folder); !made) return made;
  for (const NamedText& file : files)
    if (auto written = write_file_atomically(folder / file.name, file.text); !written)
      return written;
  return {};
}

}  // namespace triplepoint::run
