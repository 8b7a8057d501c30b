// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/mark/reader.h"

#include <algorithm>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "triplepoint/mark/ring.h"

namespace triplepoint::mark {
namespace {

/// More files than this are not looked at: each costs a file descriptor.
constexpr std::size_t most_rings = 4096;

bool is_ring_file(const std::filesystem::directory_entry& entry) {
  std::error_code ignored;
  return entry.path().extension() == ".marks" &&
         entry.symlink_status(ignored).type() == std::filesystem::file_type::regular;
}

}  // namespace

struct Reader::State {
  Path folder;
  Names names;
  std::map<std::string, std::unique_ptr<Ring>> rings;  // by file name; null: not one of ours
  std::vector<Process> processes;
  int64_t lost = 0;

  void adopt(const Path& path);
  void look_for_rings();
};

void Reader::State::adopt(const Path& path) {
  Opened opened = open_ring(path);
  if (opened.state == Opened::State::unready) return;  // its writer has just made it
  if (opened.ring) {
    opened.ring->index = static_cast<int32_t>(processes.size());
    processes.push_back(opened.process);
  }
  rings.emplace(path.filename().string(), std::move(opened.ring));
}

void Reader::State::look_for_rings() {
  std::error_code problem;
  std::vector<Path> fresh;
  for (const auto& entry : std::filesystem::directory_iterator(folder, problem)) {
    if (is_ring_file(entry) && !rings.contains(entry.path().filename().string()))
      fresh.push_back(entry.path());
  }
  std::sort(fresh.begin(), fresh.end());
  for (const Path& path : fresh) {
    if (rings.size() < most_rings) adopt(path);
  }
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

Result<Reader> Reader::watch(const Path& folder) {
  std::error_code problem;
  if (!std::filesystem::is_directory(folder, problem))
    return error(fmt::format("{}: no folder to read marks from ({}); name the one that {} names",
                             folder.string(), problem ? problem.message() : "it is not a folder",
                             folder_variable));
  auto state = std::make_unique<State>();
  state->folder = folder;
  return Reader(std::move(state));
}

void Reader::drain(const std::function<void(const Event&)>& visit) {
  state_->look_for_rings();
  for (auto& [name, ring] : state_->rings) {
    if (ring) state_->lost += ring->drain(state_->names, visit);
  }
}

const std::vector<Process>& Reader::processes() const {
  return state_->processes;
}

int64_t Reader::lost() const {
  return state_->lost;
}

}  // namespace triplepoint::mark
