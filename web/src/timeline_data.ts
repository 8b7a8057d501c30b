// SPDX-License-Identifier: Apache-2.0
// What the run page hands to the timeline viewer: the member "timeline" of the page's JSON data. This file is the contract
// between triplepoint/report (which writes it) and web/ (which reads it); the decoder below is its definition.
//
// Page:   <div id="timeline" class="timeline"></div> stands where the viewer goes (inside a figure, say); the script fills it.
//         The curves under it are the page data's "plots" (page_data.ts), drawn on the viewer's time axis. No "timeline"
//         in the data: the viewer shows curves only.
// Time:   whole nanoseconds. "begin" is since the run's epoch, as the seconds of "plots" are; everything else counts from it.
// Column: a number (all entries have this value) or text: base64 of LEB128 varints (7 bits a byte, least significant
//         first, 0x80: more follow) of zigzag(difference to the entry before; of the first entry, to 0).
//         zigzag(d) = d >= 0 ? 2 d : -2 d - 1. No value may exceed 2^52.

export type Column = number | string;

/** What does not change from one span to the next. Words as run::SpanType has them (name_of of the enums). */
export interface TypeData {
  name: string; // "qkv", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
  kind: "compute" | "memory" | "communication" | "other" | "host" | "pass" | "step" | "copy";
  op_class?: string; // "gemm", "attention", "optimizer", ... where it is known
  collective?: string; // "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "send_recv"
  group?: string; // "tensor", "data", "pipeline", ...
}

/** One row of the viewer. A simulated run may write one rank for several which do the same at the same time. */
export interface RankData {
  rank: number;
  label?: string; // default "rank 7 · stage 1"
  stage?: number; // pipeline stage
  node?: number;
  like?: number[]; // further ranks this one stands for
  main?: number; // index into lanes: the line of a rank that has one; default: the lane with most spans
  lanes: string[]; // "compute", "communication", "host", "stream 7", "thread 1234 (python)": at least one
}

/** Single spans, sorted by (rank, begin). Entry i of every column belongs to span i. */
export interface SpansData {
  count: number;
  rank: Column; // index into "ranks"
  lane: Column; // index into the lanes of that rank
  begin: Column; // ns since the timeline's begin
  length: Column; // ns
  type: Column; // index into "types"
  microbatch: Column; // -1: does not apply
  layer: Column; // -1: does not apply
  wait: Column; // ns: the first part of the span, before the last peer came
  bytes: Column; // payload, whole bytes; 0: none
}

/** Spans that repeat, written once. Same meaning as run::Pattern: the pieces follow each other, each played "repeat" times. */
export interface PatternData {
  name: string; // "forward", "backward", "backward_input", "backward_weight"
  pieces: { repeat: number; length: number; first_layer: number; spans: number }[]; // length: ns of one repetition; spans: how many
}

/** The spans of all pieces of all patterns, in their order; times are relative to the start of a repetition. */
export interface PieceSpansData {
  count: number;
  lane: Column; // index into the lanes of the rank that plays it
  begin: Column;
  length: Column;
  type: Column;
  wait: Column;
  bytes: Column;
}

/** Where patterns are played, sorted by (rank, begin). */
export interface InstancesData {
  count: number;
  rank: Column; // index into "ranks"
  begin: Column;
  pattern: Column; // index into "patterns"
  microbatch: Column;
}

export interface TimelineData {
  version: 1;
  begin: number; // ns since the run's epoch
  length: number; // ns, to the end of the last span
  note?: string; // one sentence: what is left out, what stands for what
  types: TypeData[];
  ranks: RankData[];
  spans: SpansData;
  patterns?: PatternData[];
  piece_spans?: PieceSpansData;
  instances?: InstancesData;
}

/** The first index below `count` of which something holds that holds of all behind it, too; `count` if there is none. */
export function firstOf(count: number, holds: (index: number) => boolean): number {
  let low = 0;
  for (let high = count; low < high;) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The numbers of a column. Doubles: nanoseconds of hours need more than 32 bits. */
export function decode(column: Column, count: number): Float64Array {
  const values = new Float64Array(count);
  if (typeof column === "number") return values.fill(column);
  const bytes = atob(column);
  let at = 0;
  let value = 0;
  for (let i = 0; i < count; ++i) {
    let scale = 1;
    let zigzag = 0;
    for (;;) {
      const byte = bytes.charCodeAt(at++);
      zigzag += (byte & 0x7f) * scale;
      if (byte < 0x80) break;
      scale *= 128;
    }
    value += zigzag % 2 === 0 ? zigzag / 2 : -(zigzag + 1) / 2;
    values[i] = value;
  }
  return values;
}
