/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * The wire between a program that marks and the recorder: one file per process, version 1.
 *
 *   <folder>/<pid>-<CLOCK_MONOTONIC when it was opened>.marks
 *
 *      0  header, 4096 bytes        who the process is, how large the parts are, how many entries
 *   4096  names, name_count x 128   a hash table that only grows; entries refer to its places
 *    ...  entries, entry_count x 64 a ring: entry n lies in place n mod entry_count
 *
 * Numbers are of the machine's own byte order: the file never leaves the node. The program maps it
 * and writes; the recorder reads it and never writes. What a killed program wrote stays.
 *
 * To write, a thread takes the next number n from `head` (an atomic addition, the only moment that
 * threads meet), fills the place and stores `sequence` = n + 1. `check` is a hash of all the rest,
 * so that a reader tells a whole entry from one that is half written, overwritten or was never
 * finished, without a lock and whatever the order in which the memory is copied. Who reads too
 * late finds a larger sequence: the ring never waits for its reader.
 *
 * A name is put into the first free place of the 64 from (hash mod name_count) on, claimed by
 * writing 1 into `hash` and published by writing the hash itself; a name that meets a claimed place
 * goes on to the next, so that no writer waits, and a name may be stored twice. Places are numbered
 * from 1; 0 is "no name". When 64 places are taken, an entry has no name.
 */

/* NOLINTBEGIN: C, with a prefix for want of namespaces and with C's casts. */

#define TRIPLEPOINT_WIRE_MAGIC "TPTMARK1" /* stored last: without it, the file is not ready */

/* Names the number of entries that the recorder wants, for programs that mark fast. */
#define triplepoint_wire_entries_variable "TRIPLEPOINT_MARK_ENTRIES"

enum {
  triplepoint_wire_version = 1,
  triplepoint_wire_header_bytes = 4096,
  triplepoint_wire_name_count = 2048,
  triplepoint_wire_entry_count = 16384, /* a power of two; 1 MiB */
  triplepoint_wire_most_entries = 1 << 20,
  triplepoint_wire_name_length = 118, /* what is longer is cut */
  triplepoint_wire_probes = 64
};

struct triplepoint_wire_header {
  char magic[8];
  uint32_t version, header_bytes, entry_count, name_count;
  int64_t pid;
  int32_t rank, local_rank, world_size; /* as the launcher's environment says; -1: it does not */
  uint32_t reserved;
  int64_t begin_ns; /* CLOCK_MONOTONIC when the file was made */
  uint64_t padding[1];
  uint64_t head; /* entries begun so far; has a cache line to itself */
  uint64_t more_padding[7];
  char visible_devices[1024]; /* CUDA_VISIBLE_DEVICES, else HIP_VISIBLE_DEVICES; ends in 0 */
};

struct triplepoint_wire_name {
  uint64_t hash; /* 0: free, 1: being written */
  uint16_t length;
  char text[triplepoint_wire_name_length];
};

/* Kinds are those of mark.h. */
struct triplepoint_wire_entry {
  uint64_t sequence;       /* number of the entry + 1; stored last */
  int64_t begin_ns;        /* CLOCK_MONOTONIC */
  int64_t end_ns;          /* of a span */
  int64_t number;          /* of a step; -1: not counted */
  double amount, flops;    /* bytes and flops of a span (-1: unknown); amount: what a value is, and
                              of a step's end the s that its thread has waited for a core */
  uint32_t thread;         /* the kernel's id */
  uint16_t name, group;    /* places in the table of names */
  uint16_t kind, reserved; /* see mark.h */
  uint32_t check;
};

static inline uint64_t triplepoint_wire_mix(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9E3779B97F4A7C15u; /* 2^64 / golden ratio: spreads every bit upward */
  return hash ^ (hash >> 29);
}

/* Of all of the entry but `check`: the words are copied, so that any alignment will do. */
static inline uint32_t triplepoint_wire_check(const struct triplepoint_wire_entry* entry) {
  uint64_t hash = entry->kind;
  for (size_t i = 0; i < 7; ++i) {
    uint64_t word;
    __builtin_memcpy(&word, (const char*)entry + 8 * i, sizeof word);
    hash = triplepoint_wire_mix(hash, word);
  }
  return (uint32_t)(hash >> 32);
}

/* Never 0 or 1. */
static inline uint64_t triplepoint_wire_hash(const char* text, size_t length) {
  uint64_t hash = length;
  for (; length >= 8; text += 8, length -= 8) {
    uint64_t word;
    __builtin_memcpy(&word, text, 8);
    hash = triplepoint_wire_mix(hash, word);
  }
  uint64_t rest = 0;
  for (size_t i = 0; i < length; ++i)
    rest |= (uint64_t)(unsigned char)text[i] << (8 * i);
  return triplepoint_wire_mix(hash, rest) | 2;
}

/* NOLINTEND */
