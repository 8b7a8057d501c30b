// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/library.h"

#include <dlfcn.h>

namespace triplepoint::telemetry {

Result<std::unique_ptr<Library>> Library::open(const std::string& name) {
  if (name.empty()) return error("no library (its name is empty); give one");
  void* const handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return std::unique_ptr<Library>(new Library(handle));
  const char* const why = dlerror();
  return error(std::string(why != nullptr ? why : "dlopen failed"));
}

Library::~Library() {
  dlclose(handle_);
}

void* Library::symbol(std::initializer_list<const char*> names) const {
  for (const char* const name : names)
    if (void* const found = dlsym(handle_, name)) return found;
  return nullptr;
}

}  // namespace triplepoint::telemetry
