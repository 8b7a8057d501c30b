// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "triplepoint/trace/input.h"

namespace triplepoint::trace::kineto {

// Made-up profiler files of every year, for tests and benchmarks: what is in them is known.

enum class TraceVersion : uint8_t { year_2021, year_2022, early_2024, current, amd, mtia, xpu };
inline constexpr TraceVersion all_vintages[] = {TraceVersion::year_2021,  TraceVersion::year_2022,
                                                TraceVersion::early_2024, TraceVersion::current,
                                                TraceVersion::amd,        TraceVersion::mtia,
                                                TraceVersion::xpu};
/// The finest step of its times.
int64_t granularity_ns(TraceVersion);

struct SampleEvent {
  enum class Kind : uint8_t { op, python, annotation, launch, kernel, copy, set, collective_op };
  Kind kind = Kind::op;
  std::string name;
  int64_t begin_ns = 0, length_ns = 0;  // from the file's own epoch
  int64_t place = 0;                    // thread or stream
  int64_t correlation = -1;             // launches and what they launch
  int64_t external_id = -1;
  int64_t elements = -1;  // of the collective, in and out; bytes of a copy
};

struct SampleFile {
  TraceVersion vintage = TraceVersion::current;
  int32_t rank = 0, world_size = 8;
  std::string collective = "allreduce";
  bool one_line = false;  // as a program that re-wrote the file leaves it
};
/// The Unix time of the events' instant 0.
int64_t sample_epoch_unix_ns(TraceVersion);
/// The whole file.
std::string sample_text(const std::vector<SampleEvent>&, const SampleFile&);

/// Layers of operators, their launches, kernels on two streams, a collective per layer. Times are
/// multiples of `granularity_ns`; no two events of a stream overlap.
struct SampleShape {
  int layers = 8;
  int ops_per_layer = 20;
  bool python = true;  // a call around every operator
  uint64_t seed = 1;
};
std::vector<SampleEvent> sample_step(const SampleShape&, int64_t granularity_ns);

/// A file of the current version of at least `bytes` bytes, generated step by step while it is
/// read.
std::unique_ptr<Source> endless_sample(const SampleShape&, uint64_t bytes);

}  // namespace triplepoint::trace::kineto
