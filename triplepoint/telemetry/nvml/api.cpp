// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/telemetry/nvml/api.h"

#include <dlfcn.h>

#include "triplepoint/system/process.h"

namespace triplepoint::telemetry::nvml {

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

Driver::Driver(std::unique_ptr<Library> library) : library_(std::move(library)), api_{*library_} {
  library_->find(error_string_, {"nvmlErrorString"});
}

Result<std::unique_ptr<Driver>> Driver::open(const std::string& library) {
  auto opened = TPT_TRY(Library::open(library));  // not inside new: a return there would leak
  std::unique_ptr<Driver> driver(new Driver(std::move(opened)));
  const Api& api = driver->api_;
  if (!api.init || !api.shutdown || !api.count || !api.by_index)
    return error("{} is not NVML (it lacks nvmlInit)", library);
  const int code = api.init();
  if (code != Code::success) return error(driver->words(code));
  driver->running_ = true;
  return driver;
}

Driver::~Driver() {
  if (!running_) return;
  // The thread keeps the library loaded, where it does not return from the call.
  ends_within(500 * unit::ms,
              [library = std::move(library_), shutdown = api_.shutdown] { shutdown(); });
}

int Driver::restart(int64_t seen) {
  const std::unique_lock lock(restarting_, std::try_to_lock);
  if (!lock) return Code::uninitialized;
  if (generation_ != seen) return Code::success;
  if (running_) api_.shutdown();
  const int code = api_.init();
  running_ = code == Code::success;
  if (running_) ++generation_;
  return code;
}

std::string Driver::words(int code) const {
  const char* const text = error_string_ != nullptr ? error_string_(code) : nullptr;
  return fmt::format("{} ({})", text != nullptr ? text : "NVML error", code);
}

}  // namespace triplepoint::telemetry::nvml
