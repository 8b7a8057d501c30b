// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/rocprofiler/rocprofiler.h"

#include "trace_reader_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_rocprofiler);
}
