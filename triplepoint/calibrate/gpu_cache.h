// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"

namespace triplepoint::calibrate {

/// GPUs of the library, loaded once each.
class GpuCache {
 public:
  explicit GpuCache(const spec::Library& library) : library_(library) {}
  const Result<spec::Gpu>& gpu(const std::string& name) {
    auto found = gpus_.find(name);
    if (found == gpus_.end()) found = gpus_.emplace(name, spec::load_gpu(library_, name)).first;
    return found->second;
  }

 private:
  const spec::Library& library_;
  std::map<std::string, Result<spec::Gpu>> gpus_;
};

}  // namespace triplepoint::calibrate
