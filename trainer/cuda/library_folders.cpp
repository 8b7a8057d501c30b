// SPDX-License-Identifier: Apache-2.0
#include "trainer/cuda/library_folders.h"

#include <algorithm>
#include <filesystem>

#include "triplepoint/base/text.h"

namespace triplepoint::trainer {
namespace {

namespace fs = std::filesystem;

/// Entries of a folder whose names begin so, in the order of their names.
std::vector<fs::path> entries(const fs::path& folder, const std::string& begin) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    if (entry->path().filename().string().starts_with(begin)) found.push_back(entry->path());
  std::sort(found.begin(), found.end());
  return found;
}

class Folders {
 public:
  void add(const fs::path& folder) {
    std::error_code failed;
    const std::string text = folder.string();
    if (fs::is_directory(folder, failed) &&
        std::find(found_.begin(), found_.end(), text) == found_.end())
      found_.push_back(text);
  }
  /// PREFIX/lib/python3.11/site-packages; Debian's own are called dist-packages.
  void add_python(const fs::path& prefix) {
    for (const fs::path& python : entries(prefix / "lib", "python3"))
      for (const char* kind : {"site-packages", "dist-packages"})
        add_packages(python / kind);
  }
  void add_packages(const fs::path& site) {
    for (const fs::path& package : entries(site / "nvidia", ""))
      add(package / "lib");
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

/// The prefixes of the python3 that the shell would start: of the link, and of what it leads to.
std::vector<fs::path> python_prefixes(const std::string& path_variable) {
  std::vector<fs::path> prefixes;
  for (const std::string& folder : split(path_variable, ':')) {
    const fs::path program = fs::path(folder) / "python3";
    std::error_code failed;
    if (folder.empty() || !fs::exists(program, failed)) continue;
    prefixes.push_back(program.parent_path().parent_path());
    const fs::path real = fs::canonical(program, failed);
    if (!failed) prefixes.push_back(real.parent_path().parent_path());
    break;
  }
  return prefixes;
}

}  // namespace

std::vector<std::string> cuda_library_folders(
    const std::function<std::optional<std::string>(const char*)>& variable,
    const std::string& root) {
  Folders folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const auto toolkit = variable(name)) folders.add(fs::path(*toolkit) / "lib64");
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const auto prefix = variable(name)) folders.add_python(*prefix);
  if (const auto conda = variable("CONDA_PREFIX")) folders.add(fs::path(*conda) / "lib");
  if (const auto sites = variable("PYTHONPATH"))
    for (const std::string& site : split(*sites, ':'))
      if (!site.empty()) folders.add_packages(site);
  for (const fs::path& prefix : python_prefixes(variable("PATH").value_or("")))
    folders.add_python(prefix);
  if (const auto home = variable("HOME")) folders.add_python(fs::path(*home) / ".local");
  folders.add(root + "/usr/local/cuda/lib64");
  for (const char* prefix : {"/usr/local", "/usr"})
    folders.add_python(root + prefix);
  return folders.take();
}

}  // namespace triplepoint::trainer
