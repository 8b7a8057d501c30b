// SPDX-License-Identifier: Apache-2.0
#include "triplepoint/trace/kineto/name_table.h"

#include <cstring>
#include <utility>

#include "triplepoint/trace/hash.h"

namespace triplepoint::trace::kineto {

int32_t NameTable::find(std::string_view name, uint32_t salt) {
  const uint64_t hash = hash_of(name, salt);
  for (size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
    const Slot& slot = slots_[i];
    if (slot.number < 0) break;
    if (slot.hash == hash && slot.salt == salt && slot.size == name.size() &&
        std::string_view(slot.name, slot.size) == name)
      return slot.number;
  }
  missed_ = name, missed_hash_ = hash, missed_salt_ = salt;
  return -1;
}

void NameTable::give(int32_t number) {
  if (2 * (used_ + 1) > slots_.size()) grow();
  names_.emplace_back(missed_);
  name_bytes_ += missed_.size() + sizeof(std::string);
  size_t i = missed_hash_ & (slots_.size() - 1);
  while (slots_[i].number >= 0)
    i = (i + 1) & (slots_.size() - 1);
  slots_[i] = {.hash = missed_hash_,
               .name = names_.back().data(),
               .size = static_cast<uint32_t>(missed_.size()),
               .salt = missed_salt_,
               .number = number};
  ++used_;
}

void NameTable::grow() {
  std::vector<Slot> larger(2 * slots_.size());
  for (const Slot& slot : slots_) {
    if (slot.number < 0) continue;
    size_t i = slot.hash & (larger.size() - 1);
    while (larger[i].number >= 0)
      i = (i + 1) & (larger.size() - 1);
    larger[i] = slot;
  }
  slots_ = std::move(larger);
}

}  // namespace triplepoint::trace::kineto
