// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "triplepoint/trace/input.h"
#include "triplepoint/trace/trace.h"

namespace triplepoint::trace {

/// PyTorch's NCCL flight recorder, versions 2.x: JSON, or a pickle of the same.
///
/// One span per collective or message; its communicator is the process group (of a message: the
/// pair), its sequence number the recorder's. Times are Unix times of the watchdog's looks: `end`
/// is when it saw the end; `begin` is `end` less the measured duration where timing was on, else
/// when it saw the start, else when the call was made. What never ended lasts until the last time
/// in the dump, and `facts` count it as "unfinished". The rank is not in the file: it is taken from
/// the options.
bool looks_like_flight_recorder(std::string_view head);
Result<Trace> read_flight_recorder(Input&, const ReadOptions&);

}  // namespace triplepoint::trace
