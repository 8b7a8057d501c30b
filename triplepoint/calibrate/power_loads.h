// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/spec/load.h"
#include "triplepoint/spec/op.h"

namespace triplepoint::calibrate {

/// Benchmarks of kernels run in cool rooms; nobody writes the temperature of the die down.
inline constexpr Celsius benchmark_die{60};

/// One kernel that takes `duration` and is followed by the next without a pause.
spec::GpuLoad looped_load(const spec::Gpu&, const spec::Op&, Seconds duration);

/// GPUs of the library, loaded once each, in the order of first use.
class GpuShelf {
 public:
  explicit GpuShelf(const spec::Library& library) : library_(library) {}
  const Result<spec::Gpu>& gpu(const std::string& name);
  /// This one, whatever the library says under its name: a trial of a fit.
  void put(const spec::Gpu& gpu) { gpus_.insert_or_assign(gpu.name, gpu); }

 private:
  const spec::Library& library_;
  std::map<std::string, Result<spec::Gpu>> gpus_;
};

}  // namespace triplepoint::calibrate
