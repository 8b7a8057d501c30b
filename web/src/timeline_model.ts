// SPDX-License-Identifier: Apache-2.0
// The spans of a timeline, found by rank, lane and time; patterns stay patterns.
import { classIndex, classOf, passClass } from "./timeline_classes";
import { type Column, decode, firstOf, type TimelineData } from "./timeline_data";

/** Called once per span; times in ns since the timeline's begin. */
export type Visit = (begin: number, end: number, type: number, wait: number, microbatch: number, layer: number, bytes: number) => void;

/** The spans of one piece on one lane, relative to a repetition's start. */
export interface PieceLane {
  begin: number[];
  length: number[];
  type: number[];
  wait: number[];
  bytes: number[];
}
export interface Piece {
  repeat: number;
  length: number;
  firstLayer: number;
  lanes: (PieceLane | undefined)[];
}
export interface Pattern {
  name: string;
  passClass: number;
  pieces: Piece[];
  length: number;
  reach: number; // where its last span ends, which may lie beyond its length
}

interface Spans {
  begin: Float64Array;
  length: Float64Array;
  type: Float64Array;
  microbatch: Float64Array;
  layer: Float64Array;
  wait: Float64Array;
  bytes: Float64Array;
}

/** Entries in order of begin; `reach` is the latest end so far, so that one can search for what is still running. */
export interface Sequence {
  index: Uint32Array;
  begin: Float64Array;
  reach: Float64Array;
}

/** One line of the picture: the spans of one lane at one depth, or the passes of a rank. */
export interface Track {
  rank: number; // index into ranks
  lane: number; // -1: the passes that the patterns stand for
  depth: number;
  name: string;
  spans: Sequence;
  size: number; // spans, instances expanded
}
export interface Rank {
  index: number;
  rank: number;
  label: string;
  stage: number;
  like: number[];
  tracks: Track[];
}

const firstReaching = ({ reach }: Sequence, time: number): number => firstOf(reach.length, (i) => reach[i]! > time);

function sequenceOf(index: Uint32Array, begins: Float64Array, endOf: (i: number) => number): Sequence {
  const begin = new Float64Array(index.length);
  const reach = new Float64Array(index.length);
  let latest = -Infinity;
  for (let i = 0; i < index.length; ++i) {
    const at = index[i]!;
    begin[i] = begins[at]!;
    latest = Math.max(latest, endOf(at));
    reach[i] = latest;
  }
  return { index, begin, reach };
}

const deepest = 3; // further nesting is drawn on the last line

export class TimelineModel {
  readonly length: number;
  readonly typeNames: string[];
  readonly typeClass: Uint8Array;
  readonly groups: (string | undefined)[];
  readonly ranks: Rank[] = [];
  readonly patterns: Pattern[] = [];
  readonly instances: Sequence[] = []; // per rank
  private readonly spans: Spans;
  private instancePattern: Float64Array = new Float64Array();
  private instanceMicrobatch: Float64Array = new Float64Array();

  constructor(readonly data: TimelineData) {
    this.length = Math.max(1, data.length);
    this.typeNames = data.types.map((type) => type.name);
    this.groups = data.types.map((type) => type.group);
    this.typeClass = Uint8Array.from(data.types, classOf);
    const { spans } = data;
    const column = (name: keyof typeof spans): Float64Array => decode(spans[name] as Column, spans.count);
    this.spans = {
      begin: column("begin"), length: column("length"), type: column("type"), microbatch: column("microbatch"),
      layer: column("layer"), wait: column("wait"), bytes: column("bytes"),
    };
    this.readPatterns();
    this.readInstances();
    this.makeTracks(column("rank"), column("lane"));
  }

  private readPatterns(): void {
    const { piece_spans: raw, patterns = [] } = this.data;
    if (!raw) return;
    const column = (name: keyof typeof raw): Float64Array => decode(raw[name] as Column, raw.count);
    const [lane, begin, length, type] = [column("lane"), column("begin"), column("length"), column("type")];
    const [wait, bytes] = [column("wait"), column("bytes")];
    let at = 0;
    for (const pattern of patterns) {
      let total = 0;
      let reach = 0;
      const pieces = pattern.pieces.map((raw) => {
        const piece: Piece = { repeat: raw.repeat, length: raw.length, firstLayer: raw.first_layer, lanes: [] };
        for (const end = at + raw.spans; at < end; ++at) {
          const into = (piece.lanes[lane[at]!] ??= { begin: [], length: [], type: [], wait: [], bytes: [] });
          into.begin.push(begin[at]!);
          into.length.push(length[at]!);
          into.type.push(type[at]!);
          into.wait.push(wait[at]!);
          into.bytes.push(bytes[at]!);
          reach = Math.max(reach, total + (raw.repeat - 1) * raw.length + begin[at]! + length[at]!);
        }
        total += raw.repeat * raw.length;
        return piece;
      });
      this.patterns.push({ name: pattern.name, passClass: classIndex(passClass(pattern.name)), pieces, length: total, reach: Math.max(reach, total) });
    }
  }

  private readInstances(): void {
    const { instances, ranks } = this.data;
    const rank = instances ? decode(instances.rank, instances.count) : new Float64Array();
    const begin = instances ? decode(instances.begin, instances.count) : new Float64Array();
    if (instances) {
      this.instancePattern = decode(instances.pattern, instances.count);
      this.instanceMicrobatch = decode(instances.microbatch, instances.count);
    }
    const chosen: number[][] = ranks.map(() => []);
    rank.forEach((r, i) => chosen[r]?.push(i));
    for (const list of chosen) {
      this.instances.push(sequenceOf(Uint32Array.from(list), begin, (i) => begin[i]! + this.patterns[this.instancePattern[i]!]!.reach));
    }
  }

  private makeTracks(rank: Float64Array, lane: Float64Array): void {
    const lists: number[][][] = this.data.ranks.map((data) => data.lanes.map(() => []));
    for (let i = 0; i < rank.length; ++i) lists[rank[i]!]?.[lane[i]!]?.push(i);
    this.data.ranks.forEach((data, index) => {
      const made: Rank = { index, rank: data.rank, label: data.label ?? (data.stage === undefined ? `rank ${data.rank}` : `rank ${data.rank} · stage ${data.stage}`), stage: data.stage ?? -1, like: data.like ?? [], tracks: [] };
      const played = this.instances[index]!;
      if (played.index.length > 0) {
        made.tracks.push({ rank: index, lane: -1, depth: 0, name: "passes", spans: played, size: played.index.length });
      }
      data.lanes.forEach((name, l) => {
        const depths = this.byDepth(lists[index]![l]!);
        depths.forEach((list, depth) => {
          const spans = sequenceOf(Uint32Array.from(list), this.spans.begin, (i) => this.spans.begin[i]! + this.spans.length[i]!);
          made.tracks.push({ rank: index, lane: l, depth, name, spans, size: list.length + (depth === 0 ? this.patternSpans(played, l) : 0) });
        });
      });
      this.ranks.push(made);
    });
  }

  private patternSpans(played: Sequence, lane: number): number {
    const sizes = this.patterns.map(({ pieces }) => pieces.reduce((sum, { repeat, lanes }) => sum + repeat * (lanes[lane]?.begin.length ?? 0), 0));
    let sum = 0;
    for (const i of played.index) sum += sizes[this.instancePattern[i]!]!;
    return sum;
  }

  /** Spans inside of others go one line down. */
  private byDepth(list: number[]): number[][] {
    const depths: number[][] = [[]];
    const open: number[] = []; // ends of what encloses
    for (const i of list) {
      const begin = this.spans.begin[i]!;
      while (open.length > 0 && open[open.length - 1]! <= begin) open.pop();
      const depth = Math.min(open.length, deepest);
      (depths[depth] ??= []).push(i);
      open.push(begin + this.spans.length[i]!);
    }
    return depths;
  }

  patternOf(instance: number): Pattern {
    return this.patterns[this.instancePattern[instance]!]!;
  }
  microbatchOf(instance: number): number {
    return this.instanceMicrobatch[instance]!;
  }

  /** Every single span of the track that touches [from, to). */
  visitSingles(track: Track, from: number, to: number, visit: Visit): void {
    const { spans } = this;
    for (let i = firstReaching(track.spans, from); i < track.spans.index.length && track.spans.begin[i]! < to; ++i) {
      const at = track.spans.index[i]!;
      const begin = spans.begin[at]!;
      const end = begin + spans.length[at]!;
      if (end > from) visit(begin, end, spans.type[at]!, spans.wait[at]!, spans.microbatch[at]!, spans.layer[at]!, spans.bytes[at]!);
    }
  }

  /** Every instance on the rank that touches [from, to). */
  visitInstances(rank: number, from: number, to: number, visit: (instance: number, begin: number) => void): void {
    const played = this.instances[rank]!;
    for (let i = firstReaching(played, from); i < played.index.length && played.begin[i]! < to; ++i) visit(played.index[i]!, played.begin[i]!);
  }

  /**
   * Every piece of the instances on the track that touches [from, to). A visitor that wants the spans calls visitRepetitions().
   */
  visitPieces(track: Track, from: number, to: number, visit: (piece: Piece, spans: PieceLane, begin: number, instance: number) => void): void {
    if (track.lane < 0 || track.depth > 0) return;
    this.visitInstances(track.rank, from, to, (instance, start) => {
      let begin = start;
      for (const piece of this.patternOf(instance).pieces) {
        const spans = piece.lanes[track.lane];
        const end = begin + piece.repeat * piece.length;
        if (spans && begin < to && end + piece.length > from) visit(piece, spans, begin, instance);
        begin = end;
      }
    });
  }

  visitRepetitions(piece: Piece, spans: PieceLane, begin: number, instance: number, from: number, to: number, visit: Visit): void {
    const unit = Math.max(1, piece.length);
    const first = Math.max(0, Math.floor((from - begin) / unit) - 1);
    const last = Math.min(piece.repeat - 1, Math.floor((to - begin) / unit) + 1);
    const microbatch = this.instanceMicrobatch[instance]!;
    for (let r = first; r <= last; ++r) {
      const start = begin + r * piece.length;
      const layer = piece.firstLayer < 0 ? -1 : piece.firstLayer + r;
      for (let i = 0; i < spans.begin.length; ++i) {
        const at = start + spans.begin[i]!;
        const end = at + spans.length[i]!;
        if (end > from && at < to) visit(at, end, spans.type[i]!, spans.wait[i]!, microbatch, layer, spans.bytes[i]!);
      }
    }
  }

  /** Every span of the track that touches [from, to), instances expanded. Passes have the type -1 - their pattern. */
  visit(track: Track, from: number, to: number, visit: Visit): void {
    if (track.lane < 0) {
      this.visitInstances(track.rank, from, to, (instance, begin) => {
        const pattern = this.instancePattern[instance]!;
        const end = begin + this.patterns[pattern]!.length;
        if (end > from) visit(begin, end, -1 - pattern, 0, this.instanceMicrobatch[instance]!, -1, 0);
      });
      return;
    }
    this.visitSingles(track, from, to, visit);
    this.visitPieces(track, from, to, (piece, spans, begin, instance) => this.visitRepetitions(piece, spans, begin, instance, from, to, visit));
  }

  nameOf(type: number): string {
    return type >= 0 ? this.typeNames[type]! : this.patterns[-1 - type]!.name;
  }
  classOfType(type: number): number {
    return type >= 0 ? this.typeClass[type]! : this.patterns[-1 - type]!.passClass;
  }
}
