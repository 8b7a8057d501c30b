// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/kineto.h"

namespace triplepoint::trace {

bool looks_like_kineto(std::string_view head) {
  return head.find("\"traceEvents\"") != std::string_view::npos;
}

Result<Trace> read_kineto(Input& input, const ReadOptions&) {
  return error(input.name() + " is not read yet");
}

}  // namespace triplepoint::trace
