// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/recorder/recording_setup.h"

#include <array>
#include <ctime>
#include <filesystem>
#include <optional>

#include <unistd.h>

#include "triplepoint/mark/reader.h"

namespace triplepoint::telemetry {
namespace {

/// A library of ours: beside the program as it is built, or as it is installed.
std::optional<std::string> our_library(const std::string& name) {
  std::error_code problem;
  const Path folder = std::filesystem::read_symlink("/proc/self/exe", problem).parent_path();
  for (const char* place : {"../lib", "../" TPT_LIBRARY_FOLDER})
    if (const Path path = folder / place / name; std::filesystem::exists(path, problem))
      return std::filesystem::weakly_canonical(path, problem).string();
  return std::nullopt;
}

}  // namespace

std::string this_host(const LaunchEnvironment& environment) {
  if (!environment.node.empty()) return environment.node;
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "node";
  const std::string host = name.data();
  return host.substr(0, host.find('.'));
}

bool is_one_of_many_nodes(const LaunchEnvironment& environment) {
  if (environment.num_nodes) return *environment.num_nodes > 1;
  if (!environment.rank) return false;
  return !environment.world_size || environment.local_size != environment.world_size;
}

std::string default_recording_name(const LaunchEnvironment& environment) {
  if (environment.rank && !environment.job.empty()) return "run-" + environment.job + ".run";
  const time_t now = time(nullptr);
  tm local{};
  localtime_r(&now, &local);
  std::array<char, 32> text{};
  strftime(text.data(), text.size(), "run-%Y%m%d-%H%M%S.run", &local);
  return text.data();
}

std::map<std::string, std::string> recording_variables(const Path& marks) {
  std::map<std::string, std::string> variables = {{mark::folder_variable, marks.string()}};
  if (const auto library = our_library("libtriplepoint_mark.so"))
    variables["TRIPLEPOINT_MARK_LIBRARY"] = *library;
  // NVTX ranges become regions, unless a profiler has them already.
  constexpr const char* injection = "NVTX_INJECTION64_PATH";
  if (const auto library = our_library("libtriplepoint_nvtx.so");
      library && !process_variable(injection))
    variables[injection] = *library;
  return variables;
}

}  // namespace triplepoint::telemetry
