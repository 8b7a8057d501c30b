// SPDX-License-Identifier: Apache-2.0
// A browser in place of an operating system: files in memory, one thread.
#include "wasm/host.h"

#include <cstring>
#include <map>
#include <string>

#include "triplepoint/base/files.h"
#include "triplepoint/base/installation.h"
#include "triplepoint/base/parallel.h"

namespace triplepoint {
namespace {

std::map<std::string, std::string, std::less<>>& files() {
  static std::map<std::string, std::string, std::less<>> all;
  return all;
}

std::string name_of(const Path& path) {
  return path.lexically_normal().string();
}

bool has_file(const Path& path) {
  return files().contains(name_of(path));
}

/// "/data/gpus/" of "/data/gpus": what the names of its files begin with.
std::string beginning_of(const Path& folder) {
  std::string beginning = name_of(folder);
  if (!beginning.ends_with('/')) beginning += '/';
  return beginning;
}

bool has_folder(const Path& path) {
  const std::string beginning = beginning_of(path);
  const auto found = files().lower_bound(beginning);
  return found != files().end() && found->first.starts_with(beginning);
}

/// Takes a number of 32 bits from the front.
bool take(std::string_view& pack, std::uint32_t& number) {
  if (pack.size() < sizeof(number)) return false;
  std::memcpy(&number, pack.data(), sizeof(number));
  pack.remove_prefix(sizeof(number));
  return true;
}

}  // namespace

bool mount(std::string_view pack) {
  while (!pack.empty()) {
    std::uint32_t name = 0, content = 0;
    if (!take(pack, name) || !take(pack, content)) return false;
    if (pack.size() < name || pack.size() - name < content) return false;
    files()[std::string(pack.substr(0, name))] = pack.substr(name, content);
    pack.remove_prefix(name + content);
  }
  return true;
}

// ---- base/files.h

bool path_exists(const Path& path) {
  return has_file(path) || has_folder(path);
}
bool is_folder(const Path& path) {
  return has_folder(path);
}
Path absolute_path(const Path& path) {
  return path;
}
Path by_own_name(const Path& folder) {
  return folder.lexically_normal();
}
Result<void> require_other_file(const Path&, const std::vector<std::string>&) {
  return {};
}

Result<std::string> read_file(const Path& path) {
  const auto found = files().find(name_of(path));
  if (found != files().end()) return found->second;
  return error(
      "cannot read {} (the page has no file of this name); drop it on the page, or name "
      "one of the library",
      path.string());
}

Result<void> write_file_atomically(const Path& path, std::string_view content) {
  files()[name_of(path)] = content;
  return {};
}

Result<void> make_folder(const Path&) {
  return {};
}

Result<std::vector<Path>> list_files(const Path& folder, std::string_view extension) {
  const std::string beginning = beginning_of(folder);
  std::vector<Path> found;
  for (auto at = files().lower_bound(beginning);
       at != files().end() && at->first.starts_with(beginning); ++at)
    if (extension.empty() || Path(at->first).extension() == extension)
      found.emplace_back(at->first);
  if (!found.empty()) return found;
  return error("cannot list {} (the page has no such folder)", folder.string());
}

// ---- base/installation.h

Result<Path> data_folder() {
  return Path("/data");
}

std::string program_version() {
  return "triplepoint " TPT_VERSION;
}

// ---- base/parallel.h

void parallel_for(std::size_t items, int, const std::function<void(std::size_t)>& task,
                  const std::stop_token&) {
  for (std::size_t i = 0; i < items; ++i)
    task(i);
}
int available_threads() {
  return 1;
}
ThreadLimit::ThreadLimit(int threads) : before_(threads) {}
ThreadLimit::~ThreadLimit() = default;

}  // namespace triplepoint

namespace std::filesystem {

bool exists(const path& where, error_code&) {
  return triplepoint::path_exists(where);
}
bool is_regular_file(const path& where, error_code&) {
  return triplepoint::has_file(where);
}
bool is_directory(const path& where, error_code&) {
  return triplepoint::has_folder(where);
}
uintmax_t file_size(const path& where, error_code&) {
  const auto text = triplepoint::read_file(where);
  return text ? text->size() : 0;
}
bool remove(const path& where, error_code&) {
  return triplepoint::files().erase(where.string()) > 0;
}

}  // namespace std::filesystem
