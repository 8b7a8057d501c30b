// SPDX-License-Identifier: Apache-2.0
// Spans narrower than a pixel: a column of pixels is divided among the classes by the time each took in it.
import { classes, type Palette, parseColour } from "./timeline_classes";
import type { Piece, PieceLane, TimelineModel, Track } from "./timeline_model";
import { styleValue } from "./page_data";

/** Shares of time by channel: the classes that occur, then waiting, then what the search is not for. */
class Bins {
  sums = new Float32Array();
  private from = 0;
  private perBin = 1;
  count = 0;
  constructor(readonly channels: number) {}

  reset(from: number, perBin: number, count: number): void {
    this.from = from;
    this.perBin = perBin;
    this.count = count;
    if (this.sums.length < this.channels * count) this.sums = new Float32Array(this.channels * count);
    else this.sums.fill(0, 0, this.channels * count);
  }

  add(begin: number, end: number, channel: number, weight: number): void {
    const a = Math.max(0, (begin - this.from) / this.perBin);
    const b = Math.min(this.count, (end - this.from) / this.perBin);
    if (!(b > a)) return;
    const { sums, channels } = this;
    const last = Math.min(this.count - 1, Math.floor(b));
    for (let bin = Math.floor(a); bin <= last; ++bin) {
      const share = Math.min(b, bin + 1) - Math.max(a, bin);
      const at = bin * channels + channel;
      sums[at] = sums[at]! + share * weight;
    }
  }
}

/** Halved and halved again: the shares over the whole timeline of a track, 255 for all of the time. */
interface Levels {
  version: number;
  levels: Uint8Array[];
}

/** A part of an image: `lines` rows of pixels from `offset` on. */
export interface Stripe {
  pixels: Uint32Array;
  offset: number;
  stride: number;
  lines: number;
}

const smallest = 256;
const stackedFrom = 5; // rows of fewer pixels show what took most of the time

function word([red, green, blue]: readonly number[]): number {
  return ((255 << 24) | (blue! << 16) | (green! << 8) | red!) >>> 0; // as little-endian machines keep RGBA
}

export class Painter {
  private readonly channelOf = new Int8Array(classes.length).fill(-1);
  private readonly classOfChannel: number[] = [];
  private readonly waiting: number;
  private readonly dimmed: number;
  private readonly channels: number;
  private readonly bins: Bins;
  private readonly shares: Float32Array; // of one column
  private readonly kept = new Map<Track, Levels>();
  private means = new Map<PieceLane, Float32Array>();
  private words = new Uint32Array();
  private version = 0;
  private readonly most: number;

  constructor(private readonly model: TimelineModel, private palette: Palette) {
    const used = new Set<number>([...model.typeClass, ...model.patterns.map(({ passClass }) => passClass)]);
    for (const spanClass of [...used].sort((a, b) => a - b)) {
      this.channelOf[spanClass] = this.classOfChannel.length;
      this.classOfChannel.push(spanClass);
    }
    this.waiting = this.classOfChannel.length;
    this.dimmed = this.waiting + 1;
    this.channels = this.waiting + 2;
    this.bins = new Bins(this.channels);
    this.shares = new Float32Array(this.channels);
    const tracks = model.ranks.reduce((sum, rank) => sum + rank.tracks.length, 0);
    this.most = tracks > 400 ? 1024 : 16384; // bounds memory: some 30 MB for a thousand ranks
    this.setPalette(palette, true);
  }

  /** `counts`: what is counted has changed too, not just its colours. */
  setPalette(palette: Palette, counts: boolean): void {
    this.palette = palette;
    const colours = this.classOfChannel.map((spanClass) => (palette.isOff(spanClass) ? 0 : word(palette.ofClass[spanClass]!)));
    this.words = Uint32Array.from([...colours, word(parseColour(styleValue("--waiting"))), word(parseColour(styleValue("--rule")))]);
    if (!counts) return;
    this.means = new Map();
    ++this.version;
  }

  private addSpan(bins: Bins, begin: number, end: number, type: number, wait: number): void {
    const channel = this.palette.isWanted(type) ? this.channelOf[this.model.classOfType(type)]! : this.dimmed;
    const split = wait > 0 ? Math.min(end, begin + wait) : begin;
    if (split > begin) bins.add(begin, split, channel === this.dimmed ? channel : this.waiting, 1);
    if (end > split) bins.add(split, end, channel, 1);
  }

  /** Of one repetition, over its length. */
  private meanOf(piece: Piece, spans: PieceLane): Float32Array {
    let mean = this.means.get(spans);
    if (mean) return mean;
    const bins = new Bins(this.channels);
    bins.reset(0, Math.max(1, piece.length), 1);
    for (let i = 0; i < spans.begin.length; ++i) {
      this.addSpan(bins, spans.begin[i]!, spans.begin[i]! + spans.length[i]!, spans.type[i]!, spans.wait[i]!);
    }
    mean = bins.sums;
    this.means.set(spans, mean);
    return mean;
  }

  private accumulate(track: Track, from: number, perBin: number, count: number): void {
    const { bins, model } = this;
    const to = from + perBin * count;
    bins.reset(from, perBin, count);
    const add = (begin: number, end: number, type: number, wait: number): void => this.addSpan(bins, begin, end, type, wait);
    if (track.lane < 0) return model.visit(track, from, to, add);
    model.visitSingles(track, from, to, add);
    model.visitPieces(track, from, to, (piece, spans, begin, instance) => {
      if (piece.length >= 3 * perBin) return model.visitRepetitions(piece, spans, begin, instance, from, to, add);
      this.meanOf(piece, spans).forEach((share, channel) => {
        if (share > 0) bins.add(begin, begin + piece.repeat * piece.length, channel, share);
      });
    });
  }

  private binsOf(track: Track): number {
    const wanted = 2 ** Math.ceil(Math.log2(Math.max(smallest, track.spans.index.length / 2)));
    return Math.min(wanted, this.most);
  }

  private levelsOf(track: Track): Levels {
    const kept = this.kept.get(track);
    if (kept?.version === this.version) return kept;
    const count = this.binsOf(track);
    this.accumulate(track, 0, this.model.length / count, count);
    const base = new Uint8Array(this.channels * count);
    for (let i = 0; i < base.length; ++i) base[i] = Math.min(255, this.bins.sums[i]! * 255 + 0.5);
    const levels: Uint8Array[] = [base];
    while (levels[levels.length - 1]!.length > this.channels * 64) levels.push(halved(levels[levels.length - 1]!, this.channels));
    const made = { version: this.version, levels };
    this.kept.set(track, made);
    return made;
  }

  /** True if the row's levels are there already, or are not needed. */
  isReady(track: Track): boolean {
    return this.kept.get(track)?.version === this.version || track.size < 2000;
  }

  /** `count` columns of pixels from time `from` on. */
  row(track: Track, from: number, perPixel: number, count: number, into: Stripe): void {
    const levels = perPixel * this.binsOf(track) >= this.model.length ? this.levelsOf(track) : null;
    if (levels) return this.sample(levels, from, perPixel, count, into);
    this.accumulate(track, from, perPixel, count);
    for (let x = 0; x < count; ++x) this.column(this.bins.sums, x * this.channels, 1, into, x);
  }

  private sample({ levels }: Levels, from: number, perPixel: number, count: number, into: Stripe): void {
    const { channels, shares } = this;
    const base = levels[0]!.length / channels;
    const wanted = Math.floor(Math.log2((perPixel * base) / this.model.length) + 1e-9);
    const level = levels[Math.max(0, Math.min(levels.length - 1, wanted))]!;
    const size = level.length / channels;
    const scale = size / this.model.length;
    for (let x = 0; x < count; ++x) {
      const first = Math.max(0, Math.floor((from + x * perPixel) * scale));
      const last = Math.min(size - 1, Math.ceil((from + (x + 1) * perPixel) * scale) - 1);
      if (last < first) continue;
      shares.fill(0);
      for (let at = first * channels; at < (last + 1) * channels; ++at) shares[at % channels]! += level[at]!;
      this.column(shares, 0, 1 / (255 * (last - first + 1)), into, x);
    }
  }

  /** Stacked from the bottom; rows too flat for that show the largest share. */
  private column(sums: Float32Array, at: number, scale: number, { pixels, offset, stride, lines }: Stripe, x: number): void {
    const { channels, words } = this;
    if (lines < stackedFrom) {
      let most = -1;
      for (let c = 0; c < channels; ++c) if (sums[at + c]! > 0.02 / scale && words[c] !== 0 && (most < 0 || sums[at + c]! > sums[at + most]!)) most = c;
      for (let line = 0; most >= 0 && line < lines; ++line) pixels[offset + line * stride + x] = words[most]!;
      return;
    }
    let sum = 0;
    let filled = 0;
    for (let c = 0; c < channels && filled < lines; ++c) {
      const share = sums[at + c]!;
      if (share === 0) continue;
      sum += share * scale;
      const until = Math.min(lines, Math.round(sum * lines));
      for (; filled < until; ++filled) pixels[offset + (lines - 1 - filled) * stride + x] = words[c]!;
    }
  }
}

function halved(level: Uint8Array, channels: number): Uint8Array {
  const half = new Uint8Array(channels * Math.ceil(level.length / channels / 2));
  for (let i = 0; i < half.length; ++i) {
    const from = 2 * channels * Math.floor(i / channels) + (i % channels);
    half[i] = (level[from]! + (level[from + channels] ?? 0) + 1) >> 1;
  }
  return half;
}
