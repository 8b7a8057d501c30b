// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "triplepoint/base/result.h"

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

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
