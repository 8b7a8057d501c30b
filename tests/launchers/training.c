/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training in small: every step computes (sleeps) and meets the other ranks in an all-reduce,
 * where they wait for the last one. By MPI with TPT_MPI, else in a file that all ranks map
 * (TPT_MEETING, zeros); their number is then what Slurm says.
 *
 *   training STEPS
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "triplepoint/mark/mark.h"

#ifdef TPT_MPI
#include <mpi.h>

static void open_meeting(int* argc, char*** argv, int* rank, int* ranks) {
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
}
static void meet(int step, int ranks) {
  (void)step, (void)ranks;
  double mine = 1, sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}
static void close_meeting(void) {
  MPI_Finalize();
}
#else
static int* arrived;

static int number_of(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  return text != NULL ? atoi(text) : otherwise;
}
static void open_meeting(int* argc, char*** argv, int* rank, int* ranks) {
  (void)argc, (void)argv;
  *rank = number_of("SLURM_PROCID", 0);
  *ranks = number_of("SLURM_NTASKS", 1);
  const char* path = getenv("TPT_MEETING");
  const int file = path != NULL ? open(path, O_RDWR) : -1;
  arrived = file < 0 ? NULL : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (arrived == NULL || arrived == MAP_FAILED) _exit(2);
}
static void meet(int step, int ranks) {
  __atomic_fetch_add(&arrived[step], 1, __ATOMIC_ACQ_REL);
  while (__atomic_load_n(&arrived[step], __ATOMIC_ACQUIRE) < ranks)
    sched_yield();
}
static void close_meeting(void) {}
#endif

int main(int argc, char** argv) {
  int rank = 0, ranks = 1;
  open_meeting(&argc, &argv, &rank, &ranks);
  const int steps = argc > 1 ? atoi(argv[1]) : 10;
  if (steps < 1 || steps > 1000) return 2;
  for (int step = 0; step < steps; ++step) {
    triplepoint_step_begin(step);
    triplepoint_region_begin("forward");
    usleep(20000 + 2000 * (unsigned)((rank + step) % ranks)); /* somebody else is late each time */
    triplepoint_region_end("forward");
    const int64_t begin = triplepoint_now();
    meet(step, ranks);
    triplepoint_span("all_reduce", "dp", 8, -1, begin, triplepoint_now());
    triplepoint_value("tokens", 128);
    triplepoint_step_end(step);
  }
  printf("rank %d of %d: %s\n", rank, ranks, triplepoint_marking() ? "recorded" : "alone");
  close_meeting();
  return 0;
}
