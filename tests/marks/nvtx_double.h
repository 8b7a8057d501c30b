/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A double of NVTX 3 as it lies inside a program, for the calls that nvtx_program.c makes. Written
 * from the interface alone: entry n of a module's table points to the pointer of function n; all
 * are NULL until a library is injected.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define NVTX_VERSION 3
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE (uint16_t)sizeof(nvtxEventAttributes_t)
enum { NVTX_MESSAGE_TYPE_ASCII = 1, NVTX_MESSAGE_TYPE_REGISTERED = 3 };

typedef uint64_t nvtxRangeId_t;
typedef void *nvtxDomainHandle_t, *nvtxStringHandle_t;
typedef struct {
  uint16_t version, size;
  uint32_t category;
  int32_t colorType;
  uint32_t color;
  int32_t payloadType, reserved0;
  uint64_t payload;
  int32_t messageType;
  union {
    const char* ascii;
    const wchar_t* unicode;
    nvtxStringHandle_t registered;
  } message;
} nvtxEventAttributes_t;

typedef void (*nvtx_function)(void);
enum { core_size = 16, core2_size = 16 };
static nvtx_function core_functions[core_size], core2_functions[core2_size];
static nvtx_function* core_table[core_size + 1];
static nvtx_function* core2_table[core2_size + 1];

static int get_module_function_table(int module, nvtx_function*** table, unsigned int* size) {
  if (module != 1 && module != 5) return 0;
  *table = module == 1 ? core_table : core2_table;
  *size = 16;
  return 1;
}

static const struct {
  size_t struct_size;
  int (*get)(int, nvtx_function***, unsigned int*);
} callbacks = {sizeof callbacks, get_module_function_table};

static const void* get_export_table(uint32_t id) {
  return id == 1 ? &callbacks : NULL;
}

static void initialize(void) {
  static int done;
  const char* path = getenv("NVTX_INJECTION64_PATH");
  if (done++ != 0 || path == NULL) return;
  for (int i = 1; i < 16; ++i) {
    core_table[i] = &core_functions[i];
    core2_table[i] = &core2_functions[i];
  }
  void* library = dlopen(path, RTLD_LAZY);
  int (*inject)(const void* (*)(uint32_t)) = NULL;
  if (library != NULL) *(void**)&inject = dlsym(library, "InitializeInjectionNvtx2");
  if (inject == NULL || inject(get_export_table) != 1) abort(); /* the test would see nothing */
}

static nvtx_function function_of(nvtx_function* functions, int index) {
  initialize();
  return functions[index];
}

/* How a function of the interface is called, if a listener exists. */
#define NVTX_DOUBLE(result, name, functions, index, parameters, arguments, otherwise) \
  static inline result name parameters {                                              \
    const nvtx_function found = function_of(functions, index);                        \
    return found != NULL ? ((result(*) parameters)found)arguments : otherwise;        \
  }

NVTX_DOUBLE(nvtxRangeId_t, nvtxRangeStartA, core_functions, 5, (const char* text), (text), 0)
NVTX_DOUBLE(int, nvtxRangePushEx, core_functions, 8, (const nvtxEventAttributes_t* a), (a), -2)
NVTX_DOUBLE(int, nvtxRangePushA, core_functions, 9, (const char* text), (text), -2)
NVTX_DOUBLE(int, nvtxRangePushW, core_functions, 10, (const wchar_t* text), (text), -2)
NVTX_DOUBLE(int, nvtxRangePop, core_functions, 11, (void), (), -2)
NVTX_DOUBLE(int, nvtxDomainRangePushEx, core2_functions, 4,
            (nvtxDomainHandle_t domain, const nvtxEventAttributes_t* a), (domain, a), -2)
NVTX_DOUBLE(int, nvtxDomainRangePop, core2_functions, 5, (nvtxDomainHandle_t domain), (domain), -2)
NVTX_DOUBLE(nvtxStringHandle_t, nvtxDomainRegisterStringA, core2_functions, 10,
            (nvtxDomainHandle_t domain, const char* text), (domain, text), NULL)
NVTX_DOUBLE(nvtxDomainHandle_t, nvtxDomainCreateA, core2_functions, 12, (const char* text), (text),
            NULL)

static inline void nvtxRangeEnd(nvtxRangeId_t id) {
  const nvtx_function found = function_of(core_functions, 7);
  if (found != NULL) ((void (*)(nvtxRangeId_t))found)(id);
}
