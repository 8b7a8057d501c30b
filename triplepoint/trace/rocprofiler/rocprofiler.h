// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/store/store_database.h"
#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

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

}  // namespace triplepoint::trace
