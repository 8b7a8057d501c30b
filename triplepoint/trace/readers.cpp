// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/readers.h"

#include <array>

#include "triplepoint/trace/chakra/chakra.h"
#include "triplepoint/trace/execution_trace/execution_trace.h"
#include "triplepoint/trace/flight_recorder/flight_recorder.h"
#include "triplepoint/trace/kineto/kineto.h"
#include "triplepoint/trace/logs/training_log.h"
#include "triplepoint/trace/nsys/nsys.h"
#include "triplepoint/trace/rocprofiler/rocprofiler.h"

namespace triplepoint::trace {

std::span<const Reader> all_readers() {
  // clang-format off
  static constexpr std::array readers = {
      Reader{"kineto", "PyTorch profiler (Kineto) JSON", looks_like_kineto, read_kineto},
      Reader{"chakra", "Chakra execution trace", looks_like_chakra, read_chakra},
      Reader{"execution_trace", "PyTorch execution trace", looks_like_execution_trace, read_execution_trace},
      Reader{"flight_recorder", "NCCL flight recorder of PyTorch", looks_like_flight_recorder, read_flight_recorder},
      Reader{"nsys", "SQLite export of Nsight Systems", looks_like_nsys, read_nsys},
      Reader{"rocprofiler", "rocprofv3 JSON", looks_like_rocprofiler, read_rocprofiler},
      Reader{"rocprof_csv", "kernel table of rocprofv3 or rocprof", looks_like_rocprof_csv, read_rocprof_csv},
      // Last: any text may hold a line that looks like a step.
      Reader{"training_log", "log of Megatron-LM, NeMo or torchtitan", looks_like_training_log, read_training_log},
  };
  // clang-format on
  return readers;
}

}  // namespace triplepoint::trace
