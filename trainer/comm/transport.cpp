// SPDX-License-Identifier: Apache-2.0
#include "trainer/comm/transport.h"

#include <chrono>
#include <thread>

#include "triplepoint/base/expect.h"

namespace triplepoint::trainer {

Transport::Ticket Transport::receive_reduce(int, int, size_t, const ReduceTarget&) {
  TPT_EXPECT(can_reduce_on_receive());
  return 0;
}

Transport::Ticket Transport::all_reduce_with(int, int, std::span<float>, bool) {
  TPT_EXPECT(swaps());
  return 0;
}

void Transport::rest(int looks) {
  constexpr int patient_looks = 64;
  if (looks < patient_looks) return std::this_thread::yield();
  // Waiting must not cost those who compute on the same core much: a look takes some microseconds.
  std::this_thread::sleep_for(std::chrono::microseconds(looks < 2 * patient_looks ? 20 : 100));
}

std::atomic<int64_t>* Transport::shared_number(int) {
  return nullptr;
}

}  // namespace triplepoint::trainer
