/* SPDX-License-Identifier: Apache-2.0 */
/* A double of AMD's libroctx64.so: counts what it is asked for. */
#include <stdint.h>

int roctx_calls;

int roctxRangePushA(const char* text) {
  (void)text;
  ++roctx_calls;
  return 40;
}
int roctxRangePop(void) {
  ++roctx_calls;
  return 41;
}
uint64_t roctxRangeStartA(const char* text) {
  (void)text;
  ++roctx_calls;
  return 42;
}
void roctxRangeStop(uint64_t range) {
  roctx_calls += range == 42;
}
