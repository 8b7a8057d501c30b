// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/store/store_database.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

// Readers of profilers' files that are no more than a reader; Kineto, Chakra and logs have a
// header.
namespace triplepoint::trace {

/// What Nsight Systems exports with `nsys export --type sqlite`.
///
/// The export makes a table, and often a column, only where it has something to put into it: each
/// is looked for. A rank is a process with work on a device, in the order of its first device and
/// its number; with ReadOptions::rank, the only one. Kernels, copies, graphs, runtime calls and
/// NVTX ranges become spans; correlation ids hold inside their process. Times count from the
/// session's start, whose wall clock is in TARGET_INFO_SESSION_START_TIME.
bool looks_like_nsys(std::string_view head);
Result<Trace> read_nsys(Input&, const ReadOptions&);

/// AMD's rocprofv3 --output-format json (rocprofiler-sdk): kernels, copies, API calls and markers.
/// Each process in the file is a rank. Grids count work items there; here they are blocks of
/// workgroups. Times are of the machine's own clock: no Unix time is known.
bool looks_like_rocprofiler(std::string_view head);
Result<Trace> read_rocprofiler(Input&, const ReadOptions&);

/// The tables of kernels that rocprofv3 (*_kernel_trace.csv) and rocprof (results.csv) write.
bool looks_like_rocprof_csv(std::string_view head);
Result<Trace> read_rocprof_csv(Input&, const ReadOptions&);

/// rocprofv3's database (rocpd), and that of rocmProfileData (RPD): kernels, copies and calls;
/// ranks are processes in the order of their ids. Source: rocprofiler-sdk,
/// share/rocprofiler-sdk-rocpd.
Result<Trace> read_rocpd(run::Database, const std::string& name, const ReadOptions&);

/// PyTorch's NCCL flight recorder, versions 2.x: JSON, or a pickle of the same.
///
/// One span per collective or message; its communicator is the process group (of a message: the
/// pair), its sequence number the recorder's. A length is what the recorder measured
/// (TORCH_NCCL_ENABLE_TIMING): its looks at issue and end are no length. What was not measured is
/// an issue (run/issued.h) with its state; operations that ended as parts of a coalesced one take
/// the state of the whole. With the frame of the program as a span of the host at the same instant.
/// Times are Unix times. The rank comes from the dump's groups and messages, else from the number
/// at the end of the file's name.
bool looks_like_flight_recorder(std::string_view head);
Result<Trace> read_flight_recorder(Input&, const ReadOptions&);

/// A pickle of plain data as JSON text. Runs nothing: of the machine's instructions only those that
/// build dictionaries, lists, tuples, numbers, texts and None are known, and PyTorch's wrappers of
/// typed lists give what they wrap. Every other instruction is an error.
///
/// Tuples become lists, keys texts. Protocols 2 to 4. Source: CPython, Lib/pickletools.py.
Result<std::string> pickle_to_json(std::string_view bytes);

/// Whether a file of these first bytes is a pickle of protocol 2 or newer.
bool looks_like_pickle(std::string_view head);

}  // namespace triplepoint::trace
