// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/chakra/chakra.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/logs/training_log.h"
#include "triplepoint/trace/nccl_tests/nccl_tests.h"
#include "triplepoint/trace/readers.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// The text with the first byte cut off, handed to a reader in pieces of that many bytes.
auto read_in_pieces(const std::uint8_t* data, std::size_t size, auto&& read) {
  Input input =
      Input::of_text(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), "fuzz");
  input.read_in_steps_of(1 + data[0]);
  return read(input);
}

/// Whatever a reader reads is a sound timeline, and the same however the text is cut into pieces.
inline int fuzz_reader(const std::uint8_t* data, std::size_t size,
                       Result<Trace> (*read)(Input&, const ReadOptions&)) {
  if (size == 0) return 0;
  const auto pieces = read_in_pieces(data, size, [&](Input& input) { return read(input, {}); });
  Input input =
      Input::of_text(std::string(reinterpret_cast<const char*>(data) + 1, size - 1), "fuzz");
  const auto whole = read(input, {});
  TPT_ENSURE(whole.has_value() == pieces.has_value());
  if (!whole) return 0;
  TPT_ENSURE(!run::find_fault(whole->timeline));
  TPT_ENSURE(*whole == *pieces);
  return 0;
}

}  // namespace triplepoint::trace

extern "C" int fuzz_trace_kineto(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_kineto);
}

extern "C" int fuzz_trace_chakra(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_chakra);
}

extern "C" int fuzz_trace_flight_recorder(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_flight_recorder);
}

extern "C" int fuzz_trace_nsys(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_nsys);
}

extern "C" int fuzz_trace_rocprofiler(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_rocprofiler);
}

extern "C" int fuzz_trace_rocprof_csv(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_rocprof_csv);
}

extern "C" int fuzz_trace_training_log(const std::uint8_t* data, std::size_t size) {
  return triplepoint::trace::fuzz_reader(data, size, triplepoint::trace::read_training_log);
}

/// A table is an error or rows without negative times and speeds.
extern "C" int fuzz_nccl_tests(const std::uint8_t* data, std::size_t size) {
  using namespace triplepoint;
  if (size == 0) return 0;
  const auto tests = trace::read_in_pieces(data, size, trace::parse_nccl_tests);
  if (!tests) return 0;
  for (const trace::NcclTestRow& row : tests->rows)
    TPT_ENSURE(row.time >= Seconds() && row.bus_bandwidth >= BytesPerSecond());
  return 0;
}
