/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "triplepoint/mark/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "triplepoint/mark/wire.h"

#define EXPORT __attribute__((visibility("default")))

_Static_assert(sizeof(struct triplepoint_wire_header) <= triplepoint_wire_header_bytes, "layout");
_Static_assert(offsetof(struct triplepoint_wire_header, head) == 64, "layout");
_Static_assert(sizeof(struct triplepoint_wire_name) == 128, "layout");
_Static_assert(sizeof(struct triplepoint_wire_entry) == 64, "layout");

static size_t bytes_of_file(uint32_t entries) {
  return triplepoint_wire_header_bytes +
         triplepoint_wire_name_count * sizeof(struct triplepoint_wire_name) +
         entries * sizeof(struct triplepoint_wire_entry);
}

enum phase { unopened, opening, listening, silent };

/* What a process knows of its file. The kernel wipes this page in the child of a fork (also of a
   bare clone), so that a child opens a file of its own instead of writing into its parent's. */
struct process {
  int phase;
  struct triplepoint_wire_header* header;
};
static struct process* process;
static struct process fallback; /* where there is no such page; the fork handler wipes it */

/* The parent's file, for the child to let go of. */
static void* mapped;
static size_t mapped_bytes;
static int mapped_file = -1;

static void forget_after_fork(void) {
  memset(process, 0, sizeof *process);
  if (mapped != NULL) munmap(mapped, mapped_bytes);
  if (mapped_file >= 0) close(mapped_file);
  mapped = NULL;
  mapped_file = -1;
}

__attribute__((constructor)) static void prepare(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  void* wiped = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (wiped != MAP_FAILED) madvise(wiped, page, MADV_WIPEONFORK);
  process = wiped != MAP_FAILED ? wiped : &fallback;
  pthread_atfork(NULL, NULL, forget_after_fork);
}

/* A number of the environment, if it is one. */
static int32_t number_of(const char* variable) {
  const char* text = variable != NULL ? getenv(variable) : NULL;
  if (text == NULL || *text == 0) return -1;
  char* end;
  const long number = strtol(text, &end, 10);
  return *end == 0 && number >= 0 && number <= INT32_MAX ? (int32_t)number : -1;
}

/* Who we are, in the words of the innermost launcher: torchrun may stand inside of srun. A launcher
   speaks only where its last variable is set: RANK alone may mean anything, and outside of srun, in
   a batch script, Slurm's rank is that of the script. */
static void name_rank(struct triplepoint_wire_header* header) {
  static const char* const launchers[][4] = {
      {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_RANK"},
      {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "SLURM_STEP_ID"},
      {"PMI_RANK", NULL, "PMI_SIZE", "PMI_RANK"},
  };
  header->rank = header->local_rank = header->world_size = -1;
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers && header->rank < 0; ++i) {
    if (getenv(launchers[i][3]) == NULL) continue;
    header->rank = number_of(launchers[i][0]);
    if (header->rank < 0) continue;
    header->local_rank = number_of(launchers[i][1]);
    header->world_size = number_of(launchers[i][2]);
  }
  const char* devices = getenv("CUDA_VISIBLE_DEVICES");
  if (devices == NULL) devices = getenv("HIP_VISIBLE_DEVICES");
  if (devices != NULL)
    strncpy(header->visible_devices, devices, sizeof header->visible_devices - 1);
}

/* Entries of the ring: as many as the recorder asks for, if that is a power of two in reason. */
static uint32_t entries_wanted(void) {
  const int32_t wanted = number_of(triplepoint_wire_entries_variable);
  const int is_power = wanted > 0 && (wanted & (wanted - 1)) == 0;
  if (!is_power || wanted < triplepoint_wire_entry_count || wanted > triplepoint_wire_most_entries)
    return triplepoint_wire_entry_count;
  return (uint32_t)wanted;
}

/* Whether the limit of file sizes leaves room: going beyond it ends a program with a signal. */
static int may_be_as_large(size_t bytes) {
  struct rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         limit.rlim_cur >= bytes;
}

/* A new file with all its room taken, so that a full disk is noticed here and not as a SIGBUS in
   the middle of a training. -1 if it cannot be. */
static int make_file(int64_t now, size_t bytes) {
  const char* folder = getenv("TRIPLEPOINT_MARKS");
  char path[4096];
  if (folder == NULL || *folder == 0 || !may_be_as_large(bytes)) return -1;
  const int length =
      snprintf(path, sizeof path, "%s/%ld-%lld.marks", folder, (long)getpid(), (long long)now);
  if (length < 0 || (size_t)length >= sizeof path) return -1;
  const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return -1;
  int problem = EINTR;
  for (int tries = 0; problem == EINTR && tries < 100; ++tries)
    problem = posix_fallocate(file, 0, (off_t)bytes);
  if (problem == 0) return file;
  unlink(path);
  close(file);
  return -1;
}

static struct triplepoint_wire_header* make_ring(void) {
  const int64_t now = triplepoint_now();
  const uint32_t entries = entries_wanted();
  const size_t bytes = bytes_of_file(entries);
  const int file = make_file(now, bytes);
  if (file < 0) return NULL;
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) {
    close(file);
    return NULL;
  }
  /* Held until this process ends, however it ends: tells readers that it lives. */
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  fcntl(file, F_SETLK, &lock);
  struct triplepoint_wire_header* header = memory;
  header->version = triplepoint_wire_version;
  header->header_bytes = triplepoint_wire_header_bytes;
  header->entry_count = entries;
  header->name_count = triplepoint_wire_name_count;
  header->pid = getpid();
  header->begin_ns = now;
  name_rank(header);
  uint64_t magic;
  memcpy(&magic, TRIPLEPOINT_WIRE_MAGIC, sizeof magic);
  __atomic_store_n((uint64_t*)(void*)header->magic, magic, __ATOMIC_RELEASE);
  mapped = memory;
  mapped_bytes = bytes;
  mapped_file = file;
  return header;
}

/* The ring, made by the first who asks; null if nobody listens. Whoever comes while it is made
   waits for some turns of the scheduler, but not for ever: the maker may be the very thread that a
   signal handler interrupted. */
static struct triplepoint_wire_header* ring(void) {
  int phase = __atomic_load_n(&process->phase, __ATOMIC_ACQUIRE);
  if (phase == listening) return process->header;
  if (phase == unopened && __atomic_compare_exchange_n(&process->phase, &phase, opening, 0,
                                                       __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    const int problem = errno;
    process->header = make_ring();
    phase = process->header != NULL ? listening : silent;
    __atomic_store_n(&process->phase, phase, __ATOMIC_RELEASE);
    errno = problem;
  }
  for (int turn = 0; phase == opening && turn < 10000; ++turn) {
    sched_yield();
    phase = __atomic_load_n(&process->phase, __ATOMIC_ACQUIRE);
  }
  return phase == listening ? process->header : NULL;
}

static uint32_t thread_id(const struct triplepoint_wire_header* header) {
  static __thread int64_t pid;
  static __thread uint32_t thread;
  if (pid != header->pid) { /* a child of fork has its own */
    thread = (uint32_t)syscall(SYS_gettid);
    pid = header->pid;
  }
  return thread;
}

/* Its place in the table of names, where it is put if it is not there yet. */
static uint16_t place_of(struct triplepoint_wire_header* header, const char* text) {
  if (text == NULL || *text == 0) return 0;
  struct triplepoint_wire_name* names =
      (struct triplepoint_wire_name*)(void*)((char*)header + triplepoint_wire_header_bytes);
  const size_t length = strnlen(text, triplepoint_wire_name_length);
  const uint64_t hash = triplepoint_wire_hash(text, length);
  for (uint64_t probe = 0; probe < triplepoint_wire_probes; ++probe) {
    const uint64_t place = (hash + probe) % triplepoint_wire_name_count;
    struct triplepoint_wire_name* name = &names[place];
    uint64_t there = __atomic_load_n(&name->hash, __ATOMIC_ACQUIRE);
    if (there == hash && name->length == length && memcmp(name->text, text, length) == 0)
      return (uint16_t)(place + 1);
    if (there == 0 && __atomic_compare_exchange_n(&name->hash, &there, 1, 0, __ATOMIC_ACQ_REL,
                                                  __ATOMIC_RELAXED)) {
      name->length = (uint16_t)length;
      memcpy(name->text, text, length);
      __atomic_store_n(&name->hash, hash, __ATOMIC_RELEASE);
      return (uint16_t)(place + 1);
    }
  }
  return 0;
}

static void write_entry(struct triplepoint_wire_header* header,
                        struct triplepoint_wire_entry* entry) {
  struct triplepoint_wire_entry* entries =
      (struct triplepoint_wire_entry*)(void*)((char*)header + triplepoint_wire_header_bytes +
                                              triplepoint_wire_name_count *
                                                  sizeof(struct triplepoint_wire_name));
  const uint64_t number = __atomic_fetch_add(&header->head, 1, __ATOMIC_ACQ_REL);
  struct triplepoint_wire_entry* place = &entries[number % header->entry_count];
  entry->sequence = number + 1;
  entry->check = triplepoint_wire_check(entry);
  memcpy((char*)place + 8, (const char*)entry + 8, sizeof *entry - 8);
  __atomic_store_n(&place->sequence, entry->sequence, __ATOMIC_RELEASE);
}

/* Seconds that this thread has waited for a core since it began, as the kernel counts them; -1: it
   does not. Some microseconds, once a step. */
static double seconds_waited_for_core(void) {
  const int problem = errno;
  char text[96] = "";
  const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  const ssize_t length = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  if (file >= 0) close(file);
  errno = problem;
  long long ran = 0, waited = 0;
  const int is_known = length > 0 && sscanf(text, "%lld %lld", &ran, &waited) == 2 && waited >= 0;
  return is_known ? (double)waited * 1e-9 : -1;
}

EXPORT int triplepoint_mark_open(void) {
  return ring() != NULL;
}

EXPORT void triplepoint_mark_put(int kind, const char* name, const char* group, int64_t begin_ns,
                                 int64_t end_ns, int64_t number, double amount, double flops) {
  struct triplepoint_wire_header* header = ring();
  if (header == NULL) return;
  struct triplepoint_wire_entry entry = {
      .begin_ns = begin_ns != 0 ? begin_ns : triplepoint_now(),
      .number = number,
      .amount = amount,
      .flops = flops,
      .thread = thread_id(header),
      .name = place_of(header, name),
      .group = place_of(header, group),
      .kind = (uint16_t)kind,
  };
  entry.end_ns = end_ns != 0 || kind != triplepoint_mark_span ? end_ns : triplepoint_now();
  if (kind == triplepoint_mark_step_end) entry.amount = seconds_waited_for_core();
  write_entry(header, &entry);
}

/* The same with little to pass, for callers to whom every argument costs time (Python's ctypes). */
EXPORT void triplepoint_mark_name(int kind, const char* name) {
  triplepoint_mark_put(kind, name, NULL, 0, 0, -1, -1, -1);
}

/* Another recording of this process begins or has ended: marks go where TRIPLEPOINT_MARKS says now.
   The old file stays mapped, because another thread may be writing into it. */
EXPORT void triplepoint_mark_again(void) {
  mapped = NULL;
  mapped_file = -1;
  __atomic_store_n(&process->phase, unopened, __ATOMIC_RELEASE);
}
