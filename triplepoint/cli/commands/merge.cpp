// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/run/merge.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "triplepoint/base/files.h"
#include "triplepoint/base/json.h"

#include "triplepoint/cli/command.h"
#include "triplepoint/cli/flags.h"
#include "triplepoint/flags/bind.h"
#include "triplepoint/store/store.h"
#include "triplepoint/system/process.h"
#include "triplepoint/tui/console.h"

namespace triplepoint::cli {
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

class Merge : public Command {
 public:
  Arguments arguments() override {
    return Arguments()
        .word("SOURCE", "recordings of a job's nodes, or a folder of them", into(sources_),
              {.words = Words::files, .required = true, .repeats = true})
        .flag("-o,--output", "ALL.run", "the run of all nodes", into(output_),
              {.words = Words::files})
        .add(format_.argument());
  }

  Result<int> run(tui::Console& console) override {
    let_interrupts_end_us();
    if (!output_) return error("no -o (the merged run needs a name); add -o all.run");
    std::vector<run::Run> recordings;
    for (const Path& file : TPT_TRY(files(console))) {
      recordings.push_back(TPT_TRY(run::load(file.string())));
      recordings.back().manifest.name = file.stem().string();  // a rerun's file has its own
    }
    const run::Merged merged = TPT_TRY(run::merge(std::move(recordings)));
    TPT_TRY(run::save(merged.run, *output_));
    print(console, merged);
    return exit_ok;
  }

 private:
  /// In a folder all runs but the one that is to be written, and older ones that record has kept.
  Result<std::vector<Path>> files(tui::Console& console) const {
    std::vector<Path> all;
    std::error_code ignored;
    for (const std::string& source : sources_) {
      if (!is_folder(source)) {
        all.emplace_back(source);
        continue;
      }
      for (const Path& file : TPT_TRY(list_files(source, ".run"))) {
        if (std::filesystem::equivalent(file, *output_, ignored)) continue;
        const auto newer = newer_recording(file);
        if (newer)
          console.warn(
              fmt::format("triplepoint: left out {} (an older recording than {}); name the "
                          "files to merge it\n",
                          file.string(), newer->filename().string()));
        else
          all.push_back(file);
      }
    }
    if (all.empty())
      return error(fmt::format("{}: no .run file in it; give the folder into which record wrote",
                               sources_.front()));
    return all;
  }

  void print(tui::Console& console, const run::Merged& merged) const {
    Json nodes = Json::array();
    for (const run::Alignment& node : merged.alignments) {
      Json json = {{"host", node.host},
                   {"aligned_by", run::name_of(node.by)},
                   {"offset_s", node.offset / unit::s},
                   {"num_events", node.num_events}};
      if (node.residual) json["residual_s"] = *node.residual / unit::s;
      nodes.push_back(std::move(json));
    }
    if (format_.is_json()) {
      print_json(console, {{"run", *output_}, {"nodes", std::move(nodes)}});
      return;
    }
    DataTable table = text_table({{"host", Align::left},
                                  {"clock aligned by", Align::left},
                                  {"moved s"},
                                  {"residual us"},
                                  {"events"}});
    for (const run::Alignment& node : merged.alignments)
      table.add({node.host, std::string(run::name_of(node.by)),
                 fmt::format("{:.6f}", node.offset / unit::s),
                 node.residual ? fmt::format("{:.1f}", *node.residual / unit::us) : "n/a",
                 std::to_string(node.num_events)});
    console.print(tui::table_text(table, console) + "\n");
    console.print(fmt::format("wrote {}: {} nodes, {} devices, {} ranks, {} steps\n", *output_,
                              merged.alignments.size(), merged.run.devices.size(),
                              merged.run.timeline.num_ranks, merged.run.steps.size()));
  }

  std::vector<std::string> sources_;
  std::optional<std::string> output_;
  FormatFlag format_;
};

}  // namespace

std::unique_ptr<Command> make_merge() {
  return std::make_unique<Merge>();
}

}  // namespace triplepoint::cli
