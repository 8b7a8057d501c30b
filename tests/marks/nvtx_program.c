/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that annotates itself with NVTX. With TPT_REAL_NVTX, by NVIDIA's own headers; without,
 * by a double of what they put into a program: tables of function pointers, the export table, and
 * the search for NVTX_INJECTION64_PATH at the first call.
 */
#ifdef TPT_REAL_NVTX
#include <nvtx3/nvToolsExt.h>
#else
#include "nvtx_double.h"
#endif

#include <pthread.h>
#include <string.h>
#include <wchar.h>

static void* end_of(void* range) {
  nvtxRangeEnd(*(nvtxRangeId_t*)range);
  return NULL;
}

static nvtxEventAttributes_t ascii(const char* text) {
  nvtxEventAttributes_t attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = text;
  return attributes;
}

int main(void) {
  nvtxRangePushA("outer");
  nvtxDomainHandle_t nccl = nvtxDomainCreateA("NCCL");
  nvtxEventAttributes_t registered = ascii(NULL);
  registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  registered.message.registered = nvtxDomainRegisterStringA(nccl, "ncclAllReduce");
  nvtxDomainRangePushEx(nccl, &registered);
  nvtxRangePushW(L"wide \u20ac");
  nvtxRangePop(); /* "wide": domains nest apart from each other */
  nvtxRangePop(); /* "outer", although NCCL's range was pushed after it */
  nvtxDomainRangePop(nccl);
  nvtxRangePop(); /* one too many: nothing */

  const nvtxEventAttributes_t attributes = ascii("attributed");
  nvtxRangePushEx(&attributes);
  nvtxRangePop();

  nvtxRangeId_t range = nvtxRangeStartA("across threads");
  pthread_t thread;
  pthread_create(&thread, NULL, end_of, &range);
  pthread_join(thread, NULL);
  nvtxRangeEnd(range); /* twice: nothing */
  return 0;
}
