// SPDX-License-Identifier: Apache-2.0
// Spans narrower than a pixel: the colour of a stretch of time is the mean of what ran in it, waiting paler.
import { type Palette } from "./timeline_classes";
import type { Piece, PieceLane, TimelineModel, Track } from "./timeline_model";

const waitStrength = 0.38;

/** Adds colour times covered bins: four numbers per bin, colours premultiplied. */
class Bins {
  sums = new Float32Array();
  constructor(private from = 0, private perBin = 1, public count = 0) {}

  reset(from: number, perBin: number, count: number): void {
    this.from = from;
    this.perBin = perBin;
    this.count = count;
    if (this.sums.length < 4 * count) this.sums = new Float32Array(4 * count);
    else this.sums.fill(0, 0, 4 * count);
  }

  add(begin: number, end: number, red: number, green: number, blue: number, alpha: number): void {
    const a = Math.max(0, (begin - this.from) / this.perBin);
    const b = Math.min(this.count, (end - this.from) / this.perBin);
    if (!(b > a)) return;
    const { sums } = this;
    const last = Math.min(this.count - 1, Math.floor(b));
    for (let bin = Math.floor(a); bin <= last; ++bin) {
      const share = Math.min(b, bin + 1) - Math.max(a, bin);
      const at = 4 * bin;
      sums[at] = sums[at]! + share * red;
      sums[at + 1] = sums[at + 1]! + share * green;
      sums[at + 2] = sums[at + 2]! + share * blue;
      sums[at + 3] = sums[at + 3]! + share * alpha;
    }
  }

  /** As an image has it: not premultiplied, bytes. */
  write(into: Uint8ClampedArray, offset: number): void {
    for (let i = 0; i < this.count; ++i) {
      const alpha = this.sums[4 * i + 3]!;
      const scale = alpha > 0 ? 1 / alpha : 0;
      const at = offset + 4 * i;
      into[at] = this.sums[4 * i]! * scale;
      into[at + 1] = this.sums[4 * i + 1]! * scale;
      into[at + 2] = this.sums[4 * i + 2]! * scale;
      into[at + 3] = 255 * Math.min(1, alpha);
    }
  }
}

type Mean = [number, number, number, number];

/** Halved and halved again: the colours of the whole timeline of a track. Premultiplied, four bytes a bin. */
interface Levels {
  version: number;
  levels: Uint8Array[];
}

const smallest = 256;

export class Painter {
  private readonly bins = new Bins();
  private readonly kept = new Map<Track, Levels>();
  private means = new Map<PieceLane, Mean>();
  private version = 0;
  private readonly most: number;

  constructor(private readonly model: TimelineModel, private palette: Palette) {
    const tracks = model.ranks.reduce((sum, rank) => sum + rank.tracks.length, 0);
    this.most = tracks > 400 ? 2048 : 16384; // bounds memory: some 30 MB for a thousand ranks
  }

  setPalette(palette: Palette): void {
    this.palette = palette;
    this.means = new Map();
    ++this.version;
  }

  private addSpan(bins: Bins, begin: number, end: number, type: number, wait: number): void {
    const spanClass = this.model.classOfType(type);
    const strength = this.palette.strength(type, spanClass);
    if (strength === 0) return;
    const [red, green, blue] = this.palette.ofClass[spanClass]!;
    const split = wait > 0 ? Math.min(end, begin + wait) : begin;
    const pale = strength * waitStrength;
    if (split > begin) bins.add(begin, split, red * pale, green * pale, blue * pale, pale);
    if (end > split) bins.add(split, end, red * strength, green * strength, blue * strength, strength);
  }

  /** Of one repetition, over its length. */
  private meanOf(piece: Piece, spans: PieceLane): Mean {
    let mean = this.means.get(spans);
    if (mean) return mean;
    const bins = new Bins();
    bins.reset(0, Math.max(1, piece.length), 1);
    for (let i = 0; i < spans.begin.length; ++i) {
      this.addSpan(bins, spans.begin[i]!, spans.begin[i]! + spans.length[i]!, spans.type[i]!, spans.wait[i]!);
    }
    mean = [...bins.sums.subarray(0, 4)] as Mean;
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
      if (piece.length < 3 * perBin) {
        const [red, green, blue, alpha] = this.meanOf(piece, spans);
        bins.add(begin, begin + piece.repeat * piece.length, red, green, blue, alpha);
      } else {
        model.visitRepetitions(piece, spans, begin, instance, from, to, add);
      }
    });
  }

  private binsOf(track: Track): number {
    const wanted = 2 ** Math.ceil(Math.log2(Math.max(smallest, track.spans.index.length / 2)));
    return Math.min(wanted, this.most);
  }

  private levelsOf(track: Track): Levels | null {
    const count = this.binsOf(track);
    if (count <= smallest && track.lane >= 0 && track.spans.index.length < 64 && track.size < 1000) return null; // as fast without
    const kept = this.kept.get(track);
    if (kept?.version === this.version) return kept;
    this.accumulate(track, 0, this.model.length / count, count);
    const base = new Uint8Array(4 * count);
    for (let i = 0; i < 4 * count; ++i) base[i] = Math.min(255, this.bins.sums[i]! * (i % 4 === 3 ? 255 : 1) + 0.5);
    const levels: Uint8Array[] = [base];
    while (levels[levels.length - 1]!.length > 4 * 64) levels.push(halved(levels[levels.length - 1]!));
    const made = { version: this.version, levels };
    this.kept.set(track, made);
    return made;
  }

  /** True if the row's levels are there already, or are not needed. */
  isReady(track: Track): boolean {
    return this.kept.get(track)?.version === this.version || track.size < 2000;
  }

  /** The colours of `count` pixels from time `from` on, as bytes of an image. */
  row(track: Track, from: number, perPixel: number, count: number, into: Uint8ClampedArray, offset: number): void {
    const levels = perPixel * this.binsOf(track) >= this.model.length ? this.levelsOf(track) : null;
    if (levels) return this.sample(levels, from, perPixel, count, into, offset);
    this.accumulate(track, from, perPixel, count);
    this.bins.write(into, offset);
  }

  private sample({ levels }: Levels, from: number, perPixel: number, count: number, into: Uint8ClampedArray, offset: number): void {
    const base = levels[0]!.length / 4;
    const wanted = Math.floor(Math.log2((perPixel * base) / this.model.length) + 1e-9);
    const level = levels[Math.max(0, Math.min(levels.length - 1, wanted))]!;
    const size = level.length / 4;
    const scale = size / this.model.length;
    for (let i = 0; i < count; ++i) {
      const first = Math.floor((from + i * perPixel) * scale);
      const last = Math.max(first, Math.ceil((from + (i + 1) * perPixel) * scale) - 1);
      let red = 0, green = 0, blue = 0, alpha = 0;
      for (let bin = first; bin <= last; ++bin) {
        if (bin < 0 || bin >= size) continue;
        red += level[4 * bin]!;
        green += level[4 * bin + 1]!;
        blue += level[4 * bin + 2]!;
        alpha += level[4 * bin + 3]!;
      }
      const at = offset + 4 * i;
      const share = alpha > 0 ? 255 / alpha : 0;
      into[at] = red * share;
      into[at + 1] = green * share;
      into[at + 2] = blue * share;
      into[at + 3] = alpha / (last - first + 1);
    }
  }
}

function halved(level: Uint8Array): Uint8Array {
  const half = new Uint8Array(level.length / 2);
  for (let i = 0; i < half.length; ++i) {
    const from = 8 * (i >> 2) + (i & 3);
    half[i] = (level[from]! + level[from + 4]! + 1) >> 1;
  }
  return half;
}
