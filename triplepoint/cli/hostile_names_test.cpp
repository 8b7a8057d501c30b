// SPDX-License-Identifier: Apache-2.0
// Names of jobs are text: whatever they hold, no exporter makes code of them.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <doctest/doctest.h>

#include "triplepoint/base/csv.h"
#include "triplepoint/base/files.h"
#include "triplepoint/base/must_testing.h"
#include "triplepoint/base/quoting.h"
#include "triplepoint/base/scratch_folder.h"
#include "triplepoint/base/text.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/toml_tree.h"

#include "triplepoint/advise/clock_plan.h"
#include "triplepoint/cli/command_testing.h"
#include "triplepoint/formats/export.h"
#include "triplepoint/formats/import.h"
#include "triplepoint/formats/job_scripts.h"
#include "triplepoint/formats/yaml_document.h"
#include "triplepoint/store/store.h"

namespace triplepoint::cli {
namespace {

const std::vector<std::string>& hostile_names() {
  static const std::vector<std::string> all = {"x\ntouch marker\n#",
                                               "x\r\ntouch marker",
                                               "$(touch marker)",
                                               "`touch marker`",
                                               "'; touch marker; '",
                                               "\"; touch marker; \"",
                                               "x\xe2\x80\xa8touch marker",
                                               "x\n[evil]\na = 1\n",
                                               "\"\n[evil]\na = 1",
                                               "a: b\nevil: 1",
                                               "!!python/object/apply:os.system ['touch marker']",
                                               "${oc.env:HOME}",
                                               "=cmd|' /C calc'!A0",
                                               "x\\",
                                               "--evil",
                                               "x\x1b]0;evil\a"};
  return all;
}

const spec::Library& library() {
  static const spec::Library held = spec::default_library();
  return held;
}

void put(const Path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  REQUIRE(file.good());
}

std::string job_toml(const std::string& name) {
  return fmt::format(
      "name = {}\nmodel = \"llama3-8b\"\ncluster = \"hgx-h100\"\n\n[plan]\n"
      "tensor_parallel_size = 8\n",
      toml_text(name));
}

spec::Job job_named(const std::string& name) {
  const auto job = spec::parse_job(library(), job_toml(name), "job.toml");
  REQUIRE_MESSAGE(job, (job ? "" : job.error().what));
  CHECK(job->name == name);
  return *job;
}

/// Runs a script in the folder, where no marker may appear. What it starts does not exist.
void run_script(const Path& folder, const std::string& text, const std::string& argument) {
  put(folder / "script.sh", text);
  const std::string command = fmt::format(
      "cd {} && PATH=/bin:/usr/bin timeout 20 bash ./script.sh {} </dev/null >/dev/null 2>&1",
      shell_word(folder.string()), argument);
  [[maybe_unused]] const int code = std::system(command.c_str());
  CHECK_FALSE(std::filesystem::exists(folder / "marker"));
}

std::string clock_script_of(const spec::Job& job) {
  advise::ClockPoint point;
  point.clocks.assign(as_size(job.world_size()), 1000 * unit::MHz);
  point.caps.assign(as_size(job.world_size()), 500 * unit::W);
  return advise::clock_script(job, advise::ClockPlan{}, point);
}

/// Comment lines and lines of the script as it is for a plain name: no more, and the same.
std::vector<std::string> lines_without_comments(const std::string& script) {
  std::vector<std::string> lines;
  for (const std::string_view line : lines_of(script))
    if (!line.starts_with('#')) lines.emplace_back(line);
  return lines;
}

TEST_CASE("no hostile name becomes a command of a script") {
  const ScratchFolder scratch;
  const spec::Job plain = job_named("plain");
  for (const std::string& name : hostile_names()) {
    CAPTURE(name);
    spec::Job job = job_named(name);
    CHECK(lines_without_comments(clock_script_of(job)) ==
          lines_without_comments(clock_script_of(plain)));
    run_script(scratch.folder(), clock_script_of(job), "99");
    run_script(scratch.folder(), formats::export_megatron_args(job).text, "");
    for (const char* stack : {"triplepoint train", "Megatron-LM", "NeMo", "torchtitan"}) {
      job.stack.framework = stack;
      const formats::JobFiles files{scratch.folder(), "job"};
      run_script(scratch.folder(), formats::job_script(job, files, {}, unit::h, "/bin/true"), "1");
      for (const formats::LaunchFile& file : formats::launch_files(job, files, {}))
        if (file.path.extension() == ".sh") run_script(scratch.folder(), file.text, "");
    }
  }
}

TEST_CASE("no folder of a study becomes a command or a pattern of sbatch") {
  const spec::Job job = job_named("plain");
  for (const std::string name : {"a b", "a$(touch marker)", "a'b", "a%j"}) {
    const formats::JobFiles files{Path("/tmp") / name, "job"};
    const std::string script = formats::job_script(job, files, {}, unit::h, "/bin/true");
    std::string log = (Path("/tmp") / name / "logs" / "job.log").string();
    if (name == "a%j") log = "/tmp/a%%j/logs/job.log";
    CHECK(contains(script, "#SBATCH --output=" + shell_word(log) + "\n"));
    CHECK(contains(script, "cd " + shell_word((Path("/tmp") / name).string()) + "\n"));
  }
  CHECK_FALSE(make_folder("/tmp/a\ntouch marker\n#").has_value());
}

TEST_CASE("hostile names are texts of TOML and YAML, and read back as they were") {
  for (const std::string& name : hostile_names()) {
    CAPTURE(name);
    const spec::Job job = job_named(name);
    const auto again =
        must(spec::parse_job(library(), spec::write_job(job, library()), "again.toml"));
    CHECK(again.name == name);

    spec::Job other = job;
    other.model.name = name;
    const std::string titan = formats::export_torchtitan(other, 3).text;
    const auto tree = spec::parse_toml(titan, "titan.toml");
    REQUIRE_MESSAGE(tree, titan);
    CHECK(tree->find("evil") == nullptr);
    CHECK(tree->find("job")->find("description")->text == name);

    const std::string nemo = formats::export_nemo_yaml(job).text;
    REQUIRE(formats::parse_yaml(nemo, "nemo.yaml"));
    const auto read = formats::import_nemo_yaml(library(), nemo, "nemo.yaml", {});
    REQUIRE_MESSAGE(read, nemo);
    CHECK(read->job.name == name);
    CHECK_FALSE(contains(nemo, ": ${oc"));
  }
}

TEST_CASE("hostile names of NeMo files and recordings reach the exporters as texts, too") {
  const ScratchFolder scratch;
  for (const std::string& name : hostile_names()) {
    CAPTURE(name);
    put(scratch.folder() / "nemo.yaml", formats::export_nemo_yaml(job_named(name)).text);
    const auto nemo = must(formats::read_job(library(), (scratch.folder() / "nemo.yaml").string()));
    run_script(scratch.folder(), clock_script_of(nemo), "99");

    run::Run recording;
    recording.manifest.name = name;
    recording.manifest.job = job_named(name);
    const std::string file = (scratch.folder() / "sent.run").string();
    REQUIRE(run::save(recording, file));
    const auto sent = must(formats::read_job(library(), file));
    CHECK(sent.name == name);
    run_script(scratch.folder(), clock_script_of(sent), "99");
    run_script(scratch.folder(), formats::export_megatron_args(sent).text, "");
  }
}

TEST_CASE("a spreadsheet takes no hostile name for a formula") {
  for (const std::string& name : hostile_names()) {
    CAPTURE(name);
    CsvWriter csv(std::vector<std::string>{"job"});
    csv.cell(name).end_row();
    const auto table = must(CsvTable::parse(csv.text(), "results.csv"));
    CHECK_FALSE(is_formula(table.at(0, 0)));
    CHECK(contains(std::string(table.at(0, 0)), name.substr(0, 1)));
  }
}

}  // namespace
}  // namespace triplepoint::cli
