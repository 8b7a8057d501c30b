// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/skipped.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace triplepoint::trace {
namespace {

void keep_few(std::vector<std::string>& all, std::string sentence) {
  constexpr size_t most = 8;
  if (all.size() < most && !holds(all, sentence)) all.push_back(std::move(sentence));
}

}  // namespace

void note_reason(Skipped& skipped, std::string note) {
  keep_few(skipped.notes, std::move(note));
}

void note_skipped(Skipped& skipped, std::string reason) {
  ++skipped.events;
  keep_few(skipped.reasons, std::move(reason));
}

}  // namespace triplepoint::trace
