/* SPDX-License-Identifier: Apache-2.0 */
/* A program that annotates itself with roctx; fails if its library is not called as always. */
#include <stdint.h>

extern int roctx_calls;
int roctxRangePushA(const char* text);
int roctxRangePop(void);
uint64_t roctxRangeStartA(const char* text);
void roctxRangeStop(uint64_t range);

int main(void) {
  const int level = roctxRangePushA("outer");
  const uint64_t range = roctxRangeStartA("started");
  roctxRangeStop(range);
  return level == 40 && roctxRangePop() == 41 && range == 42 && roctx_calls == 4 ? 0 : 1;
}
