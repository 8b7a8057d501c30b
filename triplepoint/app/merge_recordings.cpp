// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/app/merge_recordings.h"

#include <algorithm>
#include <filesystem>

#include "triplepoint/app/sources.h"
#include "triplepoint/store/store.h"
#include "triplepoint/trace_report/input.h"

namespace triplepoint::app {
namespace {

/// NAME.run for NAME.1.run, if it is there: record has moved the older one out of its way.
std::optional<Path> newer_recording(const Path& file) {
  const Path name = file.stem();
  const std::string number = name.extension().string();
  const bool is_number =
      number.size() > 1 && number.find_first_not_of("0123456789", 1) == std::string::npos;
  Path newer = file.parent_path() / name.stem();
  newer += ".run";
  if (!is_number || !path_exists(newer)) return std::nullopt;
  return newer;
}

Result<std::vector<Path>> recordings_of(const trace_report::TraceOptions& options,
                                        std::vector<std::string>& remarks) {
  std::vector<Path> all;
  std::error_code ignored;
  for (const std::string& source : options.files) {
    if (!is_folder(source)) {
      all.emplace_back(source);
      continue;
    }
    for (const Path& file : TPT_TRY(list_files(source, ".run"))) {
      if (std::filesystem::equivalent(file, *options.output, ignored)) continue;
      if (const auto newer = newer_recording(file))
        remarks.push_back(
            fmt::format("left out {} (an older recording than {}); name the files to merge it",
                        file.string(), newer->filename().string()));
      else
        all.push_back(file);
    }
  }
  return all;
}

}  // namespace

bool are_recordings(const trace_report::TraceOptions& options) {
  const bool is_whole = !options.ranks && !options.step && !options.rules;
  return is_whole && options.output && options.output->ends_with(".run") &&
         std::ranges::all_of(options.files, [](const std::string& source) {
           return is_folder(source) ? kind_of_source(source) == SourceKind::study
                                    : trace_report::is_run_file(source);
         });
}

Result<run::Merged> merge_files(const std::vector<Path>& files) {
  std::vector<run::Run> recordings;
  for (const Path& file : files) {
    recordings.push_back(TPT_TRY(run::load(file.string())));
    recordings.back().manifest.name = file.stem().string();  // a rerun's file has its own
  }
  return run::merge(std::move(recordings));
}

Result<trace_report::TraceReport> merge_recordings(const trace_report::TraceOptions& options) {
  trace_report::TraceReport report{.shown = {"nodes"}, .written = {*options.output}};
  const std::vector<Path> files = TPT_TRY(recordings_of(options, report.remarks));
  if (files.empty())
    return error("{}: no .run file in it; give the folder into which record wrote",
                 options.files.front());
  const run::Merged merged = TPT_TRY(merge_files(files));
  TPT_TRY(run::save(merged.run, *options.output));
  DataTable table{.name = "nodes",
                  .title = "Clocks of the nodes",
                  .columns = {{"host", "host"},
                              {"aligned_by", "clock aligned by"},
                              {"offset_s", "moved s", 1, 6},
                              {"residual_s", "residual us", 1e-6, 1},
                              {"num_events", "events"}}};
  for (const run::Alignment& node : merged.alignments) {
    const auto residual = node.residual ? std::optional(*node.residual / unit::s) : std::nullopt;
    table.add({node.host, std::string(run::name_of(node.by)), node.offset / unit::s,
               cell_of(residual, "one clock"), node.num_events});
  }
  report.tables = {std::move(table)};
  report.headlines = {fmt::format("{} nodes, {} devices, {} ranks, {} steps.",
                                  merged.alignments.size(), merged.run.devices.size(),
                                  merged.run.timeline.num_ranks, merged.run.steps.size())};
  return report;
}

}  // namespace triplepoint::app
