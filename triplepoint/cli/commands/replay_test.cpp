// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "triplepoint/base/json.h"
#include "triplepoint/base/scratch_folder.h"

#include "triplepoint/run/store.h"

#include "triplepoint/cli/command_line.h"
#include "triplepoint/trace/kineto/write_kineto.h"
#include "triplepoint/trace/timeline_testing.h"

namespace triplepoint::cli {
namespace {

struct CommandOutput {
  int code = 0;
  std::string out, err;
};

CommandOutput run_command(const std::vector<std::string>& words) {
  std::ostringstream out, err;
  tui::Console console(out, err, {});
  const int code = run_command_line(words, console);
  return {code, out.str(), err.str()};
}

/// The traces of two ranks in a folder.
std::string traces(const ScratchFolder& scratch) {
  const run::Timeline timeline = trace::sample_timeline(5, 2);
  REQUIRE(make_folder(scratch.folder() / "ranks"));
  for (int32_t rank = 0; rank < 2; ++rank)
    scratch.file(fmt::format("ranks/rank{}.json", rank),
                 trace::write_kineto(timeline, rank, 1'700'000'000'000'000'000));
  return scratch.path("ranks");
}

Json row(const Json& json, const std::string& what) {
  for (const Json& each : json["replay"]["rows"])
    if (each["what"] == what) return each;
  return {};
}

}  // namespace

TEST_CASE("a replay without a change takes as long as was measured") {
  const ScratchFolder scratch;
  const CommandOutput said =
      run_command({"simulate", "--replay", traces(scratch), "--format", "json"});
  CHECK(said.code == exit_ok);
  const auto json = parse_json(said.out, "output");
  REQUIRE(json);
  for (const Json& each : (*json)["replay"]["rows"])
    CHECK(each["measured_s"] == each["replayed_s"]);
}

TEST_CASE("at half the clock compute kernels take twice as long, and others do not") {
  const ScratchFolder scratch;
  const std::string folder = traces(scratch), run = scratch.path("slow.run");
  const CommandOutput said = run_command(
      {"simulate", "--replay", folder, "--clock-scale", "0.5", "--format", "json", "-o", run});
  REQUIRE_MESSAGE(said.code == exit_ok, said.err);
  const auto json = parse_json(said.out, "output");
  REQUIRE(json);
  CHECK(row(*json, "compute kernels")["change"].get<double>() == doctest::Approx(1));
  CHECK(row(*json, "memory kernels")["change"] == 0);
  const auto stored = run::load(run);
  REQUIRE(stored);
  CHECK(stored->manifest.origin == run::Origin::simulated);
  CHECK(stored->timeline.spans.size() > 100);
}

TEST_CASE("what does not go with a replay is said in a sentence") {
  const ScratchFolder scratch;
  const std::string folder = traces(scratch);
  CHECK(run_command({"simulate", "--clock-scale", "0.9"}).err.find("--replay") !=
        std::string::npos);
  CHECK(run_command({"simulate", "--replay", folder, "--tp", "2"}).err.find("keep one") !=
        std::string::npos);
  CHECK(run_command({"simulate", "--replay", folder, "--clock-scale", "0"}).code != exit_ok);
  CHECK(run_command({"simulate", "--replay", folder, "--cluster", "no-such"}).code != exit_ok);
  CHECK(run_command({"simulate", "--replay", folder, "--cluster", "hgx-h200"}).code == exit_ok);
}

}  // namespace triplepoint::cli
