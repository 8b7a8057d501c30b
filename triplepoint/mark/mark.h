/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Marks what a training program is doing, for `triplepoint record`. C99 with POSIX (-std=gnu99) and
 * C++; nothing to link: the header looks for libtriplepoint_mark.so when the first marker is set,
 * and only if a recorder asked for marks (it sets TRIPLEPOINT_MARKS and TRIPLEPOINT_MARK_LIBRARY).
 * Without one a marker costs a few nanoseconds, with one well under a microsecond. Any thread may
 * mark, also after fork(). No marker ever blocks, fails or prints. (Before glibc 2.34, link with
 * -ldl.)
 *
 *   triplepoint_step_begin(step);                     // one per training step
 *     triplepoint_region_begin("forward");            // regions nest, per thread
 *     triplepoint_region_end("forward");
 *     int64_t begin = triplepoint_now();
 *     MPI_Allreduce(...);
 *     triplepoint_span("all_reduce", "dp", bytes, -1, begin, triplepoint_now());
 *     triplepoint_value("tokens", 4096);              // this rank's share of the step
 *   triplepoint_step_end(step);
 */

/* NOLINTBEGIN: C, with a prefix for want of namespaces and with C's casts. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

enum triplepoint_mark_kind {
  triplepoint_mark_step_begin = 0,
  triplepoint_mark_step_end = 1,
  triplepoint_mark_region_begin = 2,
  triplepoint_mark_region_end = 3,
  triplepoint_mark_span = 4,
  triplepoint_mark_value = 5
};

/* What libtriplepoint_mark.so exports: `triplepoint_mark_open`, 1 if a recorder listens, and
   `triplepoint_mark_put`. Times are CLOCK_MONOTONIC in ns; a begin of 0 is now, an end of 0 too.
   `amount` is a span's bytes or a value. Texts may be null. */
typedef int (*triplepoint_mark_open_function)(void);
typedef void (*triplepoint_mark_put_function)(int kind, const char* name, const char* group,
                                              int64_t begin_ns, int64_t end_ns, int64_t number,
                                              double amount, double flops);

/* Used without a recorder. */
static inline void triplepoint_mark_nothing(int kind, const char* name, const char* group,
                                            int64_t begin_ns, int64_t end_ns, int64_t number,
                                            double amount, double flops) {
  (void)kind, (void)name, (void)group, (void)begin_ns, (void)end_ns, (void)number, (void)amount,
      (void)flops;
}

static inline triplepoint_mark_put_function triplepoint_mark_load(void) {
  const char* folder = getenv("TRIPLEPOINT_MARKS");
  if (folder == NULL || *folder == 0) return triplepoint_mark_nothing;
  const char* path = getenv("TRIPLEPOINT_MARK_LIBRARY");
  void* library =
      dlopen(path != NULL && *path != 0 ? path : "libtriplepoint_mark.so", RTLD_NOW | RTLD_LOCAL);
  void* open_symbol = library != NULL ? dlsym(library, "triplepoint_mark_open") : NULL;
  void* put_symbol = library != NULL ? dlsym(library, "triplepoint_mark_put") : NULL;
  if (open_symbol == NULL || put_symbol == NULL) return triplepoint_mark_nothing;
  triplepoint_mark_open_function open_marks;
  triplepoint_mark_put_function put;
  memcpy(&open_marks, &open_symbol, sizeof open_marks); /* ISO C knows no such cast */
  memcpy(&put, &put_symbol, sizeof put);
  return open_marks() ? put : triplepoint_mark_nothing;
}

static inline triplepoint_mark_put_function triplepoint_mark_put_now(void) {
  static triplepoint_mark_put_function found;
  triplepoint_mark_put_function put = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (put == NULL) {
    put = triplepoint_mark_load(); /* two threads at once find the same */
    __atomic_store_n(&found, put, __ATOMIC_RELAXED);
  }
  return put;
}

/* 1 if a recorder listens: worth the work of naming things. */
static inline int triplepoint_marking(void) {
  return triplepoint_mark_put_now() != triplepoint_mark_nothing;
}

/* The clock of all marks: CLOCK_MONOTONIC, ns. */
static inline int64_t triplepoint_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A training step; `number` as the program counts, or -1. */
static inline void triplepoint_step_begin(int64_t number) {
  triplepoint_mark_put_now()(triplepoint_mark_step_begin, NULL, NULL, 0, 0, number, -1, -1);
}
static inline void triplepoint_step_end(int64_t number) {
  triplepoint_mark_put_now()(triplepoint_mark_step_end, NULL, NULL, 0, 0, number, -1, -1);
}

/* A part of a step: "forward", "optimizer". Names of up to 118 bytes; few and fixed ones. An end
   without a name (NULL) closes the innermost region of the thread. */
static inline void triplepoint_region_begin(const char* name) {
  triplepoint_mark_put_now()(triplepoint_mark_region_begin, name, NULL, 0, 0, -1, -1, -1);
}
static inline void triplepoint_region_end(const char* name) {
  triplepoint_mark_put_now()(triplepoint_mark_region_end, name, NULL, 0, 0, -1, -1, -1);
}

/* Something that has happened: a collective ("all_reduce") of a group ("tp", "dp", "pp", "ep", ...)
   or a computation; bytes and flops that do not apply are -1. */
static inline void triplepoint_span(const char* kind, const char* group, double bytes, double flops,
                                    int64_t begin_ns, int64_t end_ns) {
  triplepoint_mark_put_now()(triplepoint_mark_span, kind, group, begin_ns, end_ns, -1, bytes,
                             flops);
}

/* A number that belongs to this moment. "tokens" and "samples" of all ranks are added up to those
   of the step: a rank says its share (with tensor or pipeline parallelism, those of the step over
   the number of ranks). Others ("loss") are kept as series. */
static inline void triplepoint_value(const char* name, double value) {
  triplepoint_mark_put_now()(triplepoint_mark_value, name, NULL, 0, 0, -1, value, -1);
}

#ifdef __cplusplus
}  // extern "C"

/* NOLINTEND */

namespace triplepoint::mark {

/// A region that lasts as long as the scope it stands in.
class Region {
 public:
  explicit Region(const char* name) : name_(name) { triplepoint_region_begin(name_); }
  ~Region() { triplepoint_region_end(name_); }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 private:
  const char* name_;
};

/// A step that lasts as long as the scope it stands in.
class Step {
 public:
  explicit Step(int64_t number) : number_(number) { triplepoint_step_begin(number_); }
  ~Step() { triplepoint_step_end(number_); }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  int64_t number_;
};

}  // namespace triplepoint::mark
#endif
