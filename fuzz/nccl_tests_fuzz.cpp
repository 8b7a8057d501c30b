// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/nccl_tests/nccl_tests.h"

#include "trace_reader_fuzz.h"

/// A table is an error or rows without negative times and speeds.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  if (size == 0) return 0;
  const auto tests = trace::read_in_pieces(data, size, trace::parse_nccl_tests);
  if (!tests) return 0;
  for (const trace::NcclTestRow& row : tests->rows)
    TPT_ENSURE(row.time >= Seconds() && row.bus_bandwidth >= BytesPerSecond());
  return 0;
}
