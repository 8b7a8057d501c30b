/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libtriplepoint_nvtx.so: ranges that programs already announce, as regions.
 *
 * NVTX (NVIDIA's annotations; PyTorch's torch.cuda.nvtx, NCCL, Megatron-LM's --profile). A program
 * with NVTX inside looks at its first annotation for the library that NVTX_INJECTION64_PATH names
 * and calls its InitializeInjectionNvtx2, which may put functions of its own into the program's
 * tables of callbacks. Every library with NVTX inside does so for itself.
 *
 * roctx (AMD's; torch.cuda.nvtx under ROCm). Has no such door: loaded before it (LD_PRELOAD), the
 * functions of its name below are found first, and call on.
 *
 * Pushed ranges become regions, started ones, which may end in another thread, spans of the group
 * "nvtx" or "roctx". Ranges of a domain are called DOMAIN/RANGE. Declarations are our own; the
 * layout is that of NVTX 3 (nvtxTypes.h, nvToolsExt.h) and of AMD's roctx.h.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <wchar.h>

#include "triplepoint/mark/mark.h"

#define EXPORT __attribute__((visibility("default")))

enum { name_bytes = 119, deepest = 64, most_started = 256 };

struct range_name {
  char text[name_bytes];
};

/* What NVTX calls a domain; what a program gets from us is a pointer to it. Never freed: a program
   has a handful. */
struct domain {
  char name[64];
};

/* Ranges that this thread is in, of all domains, the innermost last. */
struct pushed {
  const void* domain;
  struct range_name name;
};
static __thread struct pushed stack[deepest];
static __thread int depth; /* may be beyond `deepest`: those are not marked */

static struct range_name named(const char* domain, const char* text) {
  struct range_name name;
  snprintf(name.text, sizeof name.text, "%s%s%s", domain != NULL ? domain : "",
           domain != NULL ? "/" : "", text != NULL && *text != 0 ? text : "?");
  return name;
}

static int depth_of(const void* domain) {
  int count = 0;
  for (int i = 0; i < depth && i < deepest; ++i)
    count += stack[i].domain == domain;
  return count;
}

/* How deep the range is in its domain, from 0. */
static int push(const void* domain, struct range_name name) {
  const int level = depth_of(domain);
  if (depth < deepest) {
    stack[depth] = (struct pushed){domain, name};
    triplepoint_region_begin(stack[depth].name.text);
  }
  ++depth;
  return level;
}

/* How deep the range that ends was; -2 (NVTX_NO_PUSH_POP_TRACKING) if there was none. */
static int pop(const void* domain) {
  if (depth > deepest) {
    --depth;
    return deepest;
  }
  for (int i = depth - 1; i >= 0; --i) {
    if (stack[i].domain != domain) continue;
    triplepoint_region_end(stack[i].name.text);
    memmove(&stack[i], &stack[i + 1], (size_t)(depth - 1 - i) * sizeof *stack);
    --depth;
    return depth_of(domain);
  }
  return -2;
}

/* Ranges that were started and have not ended; a number is the place and how often it was used. */
static struct started {
  uint64_t uses; /* odd: in use */
  int64_t begin_ns;
  struct range_name name;
} started[most_started];

static uint64_t start(struct range_name name) {
  for (uint64_t i = 0; i < most_started; ++i) {
    uint64_t uses = __atomic_load_n(&started[i].uses, __ATOMIC_RELAXED);
    if (uses % 2 != 0 || !__atomic_compare_exchange_n(&started[i].uses, &uses, uses + 1, 0,
                                                      __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
      continue;
    started[i].name = name;
    started[i].begin_ns = triplepoint_now();
    return (uses + 1) * most_started + i;
  }
  return 0; /* too many at once: not marked */
}

static void end(uint64_t range, const char* group) {
  struct started* place = &started[range % most_started];
  const uint64_t uses = range / most_started;
  if (uses % 2 == 0 || __atomic_load_n(&place->uses, __ATOMIC_RELAXED) != uses) return;
  triplepoint_span(place->name.text, group, -1, -1, place->begin_ns, triplepoint_now());
  __atomic_store_n(&place->uses, uses + 1, __ATOMIC_RELEASE);
}

/* Wide text as UTF-8, cut to the room there is; characters that are none are left out. */
static const char* narrow(const wchar_t* wide, char* text, size_t room) {
  size_t size = 0;
  for (; wide != NULL && *wide != 0 && size + 5 < room; ++wide) {
    const uint32_t c = (uint32_t)*wide;
    if (c < 0x80) {
      text[size++] = (char)c;
    } else if (c < 0x800) {
      text[size++] = (char)(0xC0 | c >> 6);
      text[size++] = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
      text[size++] = (char)(0xE0 | c >> 12);
      text[size++] = (char)(0x80 | (c >> 6 & 0x3F));
      text[size++] = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x110000) {
      text[size++] = (char)(0xF0 | c >> 18);
      text[size++] = (char)(0x80 | (c >> 12 & 0x3F));
      text[size++] = (char)(0x80 | (c >> 6 & 0x3F));
      text[size++] = (char)(0x80 | (c & 0x3F));
    }
  }
  text[size] = 0;
  return text;
}

/* ---- NVTX ---- */

struct nvtx_attributes { /* nvtxEventAttributes_t, version 2 */
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type; /* 1 char*, 2 wchar_t*, 3 a handle of a registered string */
  const void* message;
};
_Static_assert(sizeof(struct nvtx_attributes) == 48, "nvtxEventAttributes_t");

static struct range_name name_of(const char* domain, const struct nvtx_attributes* attributes) {
  char text[name_bytes];
  if (attributes == NULL || attributes->message == NULL) return named(domain, NULL);
  if (attributes->message_type == 2)
    return named(domain, narrow(attributes->message, text, sizeof text));
  const int is_text = attributes->message_type == 1 || attributes->message_type == 3;
  return named(domain, is_text ? attributes->message : NULL);
}

static const char* name_of_domain(const struct domain* domain) {
  return domain != NULL ? domain->name : NULL;
}

static int nvtx_push(const struct nvtx_attributes* attributes) {
  return push(NULL, name_of(NULL, attributes));
}
static int nvtx_push_text(const char* text) {
  return push(NULL, named(NULL, text));
}
static int nvtx_push_wide(const wchar_t* wide) {
  char text[name_bytes];
  return push(NULL, named(NULL, narrow(wide, text, sizeof text)));
}
static int nvtx_pop(void) {
  return pop(NULL);
}
static uint64_t nvtx_start(const struct nvtx_attributes* attributes) {
  return start(name_of(NULL, attributes));
}
static uint64_t nvtx_start_text(const char* text) {
  return start(named(NULL, text));
}
static uint64_t nvtx_start_wide(const wchar_t* wide) {
  char text[name_bytes];
  return start(named(NULL, narrow(wide, text, sizeof text)));
}
static void nvtx_end(uint64_t range) {
  end(range, "nvtx");
}

static int nvtx_domain_push(struct domain* domain, const struct nvtx_attributes* attributes) {
  return push(domain, name_of(name_of_domain(domain), attributes));
}
static int nvtx_domain_pop(struct domain* domain) {
  return pop(domain);
}
static uint64_t nvtx_domain_start(struct domain* domain, const struct nvtx_attributes* attributes) {
  return start(name_of(name_of_domain(domain), attributes));
}
static void nvtx_domain_end(struct domain* domain, uint64_t range) {
  (void)domain;
  end(range, "nvtx");
}
static struct domain* nvtx_domain_create(const char* name) {
  struct domain* domain = calloc(1, sizeof *domain);
  if (domain != NULL) snprintf(domain->name, sizeof domain->name, "%s", name != NULL ? name : "?");
  return domain;
}
static struct domain* nvtx_domain_create_wide(const wchar_t* wide) {
  char text[64];
  return nvtx_domain_create(narrow(wide, text, sizeof text));
}
/* A handle of a registered string is the string. */
static void* nvtx_register(struct domain* domain, const char* text) {
  (void)domain;
  return strndup(text != NULL ? text : "?", name_bytes - 1);
}
static void* nvtx_register_wide(struct domain* domain, const wchar_t* wide) {
  char text[name_bytes];
  return nvtx_register(domain, narrow(wide, text, sizeof text));
}

typedef void (*function)(void);
struct nvtx_callbacks { /* NvtxExportTableCallbacks */
  size_t size;
  int (*table_of)(int module, function*** table, unsigned int* size);
};

struct callback {
  unsigned int index;
  function ours;
};
static const struct callback core[] = {
    /* NvtxCallbackIdCore */
    {4, (function)nvtx_start},      {5, (function)nvtx_start_text}, {6, (function)nvtx_start_wide},
    {7, (function)nvtx_end},        {8, (function)nvtx_push},       {9, (function)nvtx_push_text},
    {10, (function)nvtx_push_wide}, {11, (function)nvtx_pop},
};
static const struct callback core2[] = {
    /* NvtxCallbackIdCore2 */
    {2, (function)nvtx_domain_start},   {3, (function)nvtx_domain_end},
    {4, (function)nvtx_domain_push},    {5, (function)nvtx_domain_pop},
    {10, (function)nvtx_register},      {11, (function)nvtx_register_wide},
    {12, (function)nvtx_domain_create}, {13, (function)nvtx_domain_create_wide},
};

static void replace(const struct nvtx_callbacks* callbacks, int module, const struct callback* by,
                    size_t count) {
  function** table = NULL;
  unsigned int size = 0;
  if (callbacks->table_of(module, &table, &size) != 1 || table == NULL) return;
  for (size_t i = 0; i < count; ++i) {
    if (by[i].index < size && table[by[i].index] != NULL) *table[by[i].index] = by[i].ours;
  }
}

/* 1: NVTX calls us from now on; 0: nobody listens, and its annotations stay free of charge. */
EXPORT int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t));
EXPORT int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  enum { callbacks_table = 1, core_module = 1, core2_module = 5 };
  const struct nvtx_callbacks* callbacks = export_table(callbacks_table);
  if (callbacks == NULL || callbacks->size < sizeof *callbacks || !triplepoint_marking()) return 0;
  replace(callbacks, core_module, core, sizeof core / sizeof *core);
  replace(callbacks, core2_module, core2, sizeof core2 / sizeof *core2);
  return 1;
}

/* ---- roctx ---- */

static const char roctx_domain; /* its address is the domain */

static void* next(const char* name, void** found) {
  void* symbol = __atomic_load_n(found, __ATOMIC_RELAXED);
  if (symbol == NULL) {
    symbol = dlsym(RTLD_NEXT, name);
    __atomic_store_n(found, symbol, __ATOMIC_RELAXED);
  }
  return symbol;
}

EXPORT int roctxRangePushA(const char* text);
EXPORT int roctxRangePushA(const char* text) {
  static void* found;
  int (*original)(const char*);
  *(void**)&original = next("roctxRangePushA", &found);
  const int level = push(&roctx_domain, named(NULL, text));
  return original != NULL ? original(text) : level;
}

EXPORT int roctxRangePop(void);
EXPORT int roctxRangePop(void) {
  static void* found;
  int (*original)(void);
  *(void**)&original = next("roctxRangePop", &found);
  const int level = pop(&roctx_domain);
  return original != NULL ? original() : level;
}

/* The number that the program gets is that of the library behind, if there is one: 1,024 of them
   are remembered with ours. */
static struct { uint64_t theirs, ours; } numbers[1024];

static void remember(uint64_t theirs, uint64_t ours) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    uint64_t none = 0;
    if (!__atomic_compare_exchange_n(&numbers[i].ours, &none, ours, 0, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
      continue;
    __atomic_store_n(&numbers[i].theirs, theirs, __ATOMIC_RELEASE);
    return;
  }
}

static uint64_t recall(uint64_t theirs) {
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; ++i) {
    const uint64_t ours = __atomic_load_n(&numbers[i].ours, __ATOMIC_ACQUIRE);
    if (ours == 0 || __atomic_load_n(&numbers[i].theirs, __ATOMIC_ACQUIRE) != theirs) continue;
    __atomic_store_n(&numbers[i].theirs, UINT64_MAX, __ATOMIC_RELEASE);
    __atomic_store_n(&numbers[i].ours, 0, __ATOMIC_RELEASE);
    return ours;
  }
  return 0;
}

EXPORT uint64_t roctxRangeStartA(const char* text);
EXPORT uint64_t roctxRangeStartA(const char* text) {
  static void* found;
  uint64_t (*original)(const char*);
  *(void**)&original = next("roctxRangeStartA", &found);
  const uint64_t ours = start(named(NULL, text));
  const uint64_t theirs = original != NULL ? original(text) : ours;
  if (ours != 0) remember(theirs, ours);
  return theirs;
}

EXPORT void roctxRangeStop(uint64_t range);
EXPORT void roctxRangeStop(uint64_t range) {
  static void* found;
  void (*original)(uint64_t);
  *(void**)&original = next("roctxRangeStop", &found);
  const uint64_t ours = recall(range);
  if (ours != 0) end(ours, "roctx");
  if (original != NULL) original(range);
}
