// SPDX-License-Identifier: Apache-2.0
#include "tests/doubles/fake_drivers.h"

#include <cstdlib>
#include <fstream>

#include <dlfcn.h>

namespace triplepoint::doubles {

constexpr const char* variable = "TRIPLEPOINT_FAKE_NVML";

FakeNvml::FakeNvml(const std::string& script, int age)
    : library_(fmt::format("{}/nvml-{}/libnvidia-ml.so.1", TPT_DOUBLES_DIR, age)) {
  folder_.write("script", script);
  setenv(variable, (folder_.root() / "script").c_str(), 1);
}

FakeNvml::~FakeNvml() {
  unsetenv(variable);
  if (handle_ != nullptr) dlclose(handle_);
}

void FakeNvml::set_time(double at) {
  if (handle_ == nullptr) handle_ = dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_ == nullptr) std::abort();
  const auto set = reinterpret_cast<void (*)(double)>(dlsym(handle_, "triplepoint_fake_set_time"));
  set(at);
}

ScratchTree::ScratchTree() {
  std::string name = (std::filesystem::temp_directory_path() / "triplepoint-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  root_ = name;
}

ScratchTree::~ScratchTree() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

void ScratchTree::write(const Path& file, std::string_view content) const {
  std::filesystem::create_directories((root_ / file).parent_path());
  std::ofstream(root_ / file, std::ios::binary | std::ios::trunc) << content;
}

void ScratchTree::write(const Path& file, double number) const {
  write(file, fmt::format("{}\n", number));
}

void ScratchTree::link(const Path& from, const Path& to) const {
  std::filesystem::create_directories((root_ / from).parent_path());
  std::filesystem::create_symlink(to, root_ / from);
}

void ScratchTree::remove(const Path& file) const {
  std::filesystem::remove_all(root_ / file);
}

void ScratchTree::forbid(const Path& file) const {
  std::filesystem::permissions(root_ / file, std::filesystem::perms::none);
}

}  // namespace triplepoint::doubles
