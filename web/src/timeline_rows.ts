// SPDX-License-Identifier: Apache-2.0
// Draws the ranks of a timeline into a canvas: pixels first, then what is wide enough for an edge, a hatching, a word.
import type { Palette, Rgb } from "./timeline_classes";
import { firstOf } from "./timeline_data";
import type { Found } from "./timeline_find";
import type { Rank, TimelineModel, Track, Visit } from "./timeline_model";
import type { Painter } from "./timeline_paint";
import type { TimeWindow } from "./timeline_window";

const font = '11px system-ui, "DejaVu Sans", sans-serif';
const characterWidth = 6; // more or less
const labelWidth = 6.4; // of a character; rather too much than cut off
const budget = 14; // ms a frame for rows that were not drawn before

/** The lane that the data names, else the fullest. */
function mainTrack({ tracks }: Rank, main: number | undefined): Track[] {
  const named = tracks.filter(({ lane }) => lane === main);
  if (named.length > 0) return named.slice(0, 1);
  const streams = tracks.filter(({ lane }) => lane >= 0);
  const most = Math.max(...streams.map(({ size }) => size));
  return streams.filter(({ size }) => size === most).slice(0, 1);
}

/** Where each track lies; heights in CSS pixels. */
export class RowLayout {
  readonly tracks: Track[] = [];
  readonly tops: number[] = [];
  height = 0;

  /** A line for every stream, or for the fullest one of each rank. */
  constructor(readonly model: TimelineModel, readonly lane: number, readonly allStreams: boolean) {
    const gap = lane >= 9 ? (allStreams ? 7 : 3) : lane >= 4 ? 2 : lane >= 3 ? 1 : 0;
    for (const rank of model.ranks) {
      for (const track of allStreams ? rank.tracks : mainTrack(rank, model.data.ranks[rank.index]?.main)) {
        this.tracks.push(track);
        this.tops.push(this.height);
        this.height += lane;
      }
      this.height += gap;
    }
  }

  /** Index of the track at this height. */
  at(y: number): number {
    return Math.max(0, firstOf(this.tops.length, (i) => this.tops[i]! > y) - 1);
  }
  /** A track that is not drawn stands where its rank stands. */
  topOf(track: Track): number {
    const own = this.tracks.indexOf(track);
    return this.tops[own >= 0 ? own : this.tracks.findIndex(({ rank }) => rank === track.rank)] ?? 0;
  }
  linesOf(rank: Rank): number {
    return this.allStreams ? rank.tracks.length : 1;
  }
}

export interface RowState {
  gutter: number;
  scroll: number;
  width: number;
  height: number;
  rank: number; // chosen
  found: Found | null;
}

/** "rank 7 · stage 1", where there is no room for it: "rank 7". */
function shortened(text: string, room: number): string {
  if (text.length <= room) return text;
  const head = text.split(" · ")[0]!;
  return head.length <= room ? head : `${head.slice(0, Math.max(1, room - 1))}…`;
}

function isDark([red, green, blue]: Rgb): boolean {
  return 0.299 * red + 0.587 * green + 0.114 * blue < 140;
}

function hatching(colour: string): CanvasPattern | null {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const context = tile.getContext("2d")!;
  context.strokeStyle = colour;
  context.globalAlpha = 0.65;
  context.lineWidth = 1.2;
  context.beginPath();
  for (const shift of [-6, 0, 6]) {
    context.moveTo(shift, 6);
    context.lineTo(shift + 6, 0);
  }
  context.stroke();
  return context.createPattern(tile, "repeat");
}

export class RowArtist {
  private readonly strip = document.createElement("canvas");
  private image: ImageData | null = null;
  private hatch: CanvasPattern | null = null;
  private hatchColour = "";

  constructor(private readonly model: TimelineModel, private readonly painter: Painter) {}

  /** False if some rows ran out of time and need another frame. */
  draw(context: CanvasRenderingContext2D, ratio: number, layout: RowLayout, view: TimeWindow, palette: Palette, state: RowState): boolean {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, state.width, state.height);
    context.font = font;
    context.textBaseline = "middle";
    if (layout.tracks.length === 0) return true;
    const first = layout.at(state.scroll);
    const last = Math.min(layout.tracks.length - 1, layout.at(state.scroll + state.height));
    this.drawChosen(context, layout, palette, state);
    const done = this.drawPixels(context, ratio, layout, view, state, first, last);
    if (layout.lane >= 10) {
      for (let i = first; i <= last; ++i) this.drawDetails(context, layout, view, palette, state, i);
    }
    this.drawLabels(context, layout, palette, state, first, last);
    this.drawFound(context, layout, view, palette, state);
    return done;
  }

  private drawChosen(context: CanvasRenderingContext2D, layout: RowLayout, palette: Palette, state: RowState): void {
    const rank = this.model.ranks[state.rank];
    const track = rank?.tracks[0];
    if (!rank || !track) return;
    context.fillStyle = palette.rule;
    context.globalAlpha = 0.45;
    context.fillRect(0, layout.topOf(track) - state.scroll - 1, state.width, Math.max(2, layout.linesOf(rank) * layout.lane + 2));
    context.globalAlpha = 1;
  }

  private drawPixels(context: CanvasRenderingContext2D, ratio: number, layout: RowLayout, view: TimeWindow, state: RowState, first: number, last: number): boolean {
    const count = Math.max(1, Math.round(view.width * ratio));
    const image = this.imageOf(count, Math.max(1, Math.ceil(state.height * ratio)));
    const pixels = new Uint32Array(image.data.buffer);
    const from = view.from - this.model.data.begin;
    const started = performance.now();
    let done = true;
    for (let i = first; i <= last; ++i) {
      const track = layout.tracks[i]!;
      if (!this.painter.isReady(track) && performance.now() - started > budget) {
        done = false;
        continue;
      }
      const top = Math.round((layout.tops[i]! - state.scroll) * ratio);
      const bottom = Math.round((layout.tops[i]! - state.scroll + layout.lane - (layout.lane >= 6 ? 1 : 0)) * ratio);
      const shown = Math.min(bottom, image.height) - Math.max(0, top);
      if (shown <= 0) continue;
      this.painter.row(track, from, view.perPixel / ratio, count, { pixels, offset: Math.max(0, top) * count, stride: count, lines: shown });
    }
    this.strip.getContext("2d")!.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.strip, state.gutter, 0, count / ratio, image.height / ratio);
    return done;
  }

  private imageOf(width: number, height: number): ImageData {
    if (this.image?.width === width && this.image.height === height) {
      this.image.data.fill(0);
      return this.image;
    }
    this.strip.width = width;
    this.strip.height = height;
    this.image = new ImageData(width, height);
    return this.image;
  }

  private drawDetails(context: CanvasRenderingContext2D, layout: RowLayout, view: TimeWindow, palette: Palette, state: RowState, index: number): void {
    const { model } = this;
    const track = layout.tracks[index]!;
    const offset = model.data.begin;
    const from = view.from - offset;
    const to = view.to - offset;
    const y = layout.tops[index]! - state.scroll;
    const height = layout.lane - 1;
    const draw: Visit = (begin, end, type, wait, microbatch) => {
      const left = Math.max(-1, view.x(begin + offset));
      const right = Math.min(view.width + 1, view.x(end + offset));
      if (right - left < 3) return;
      const spanClass = model.classOfType(type);
      if (palette.isOff(spanClass) || !palette.isWanted(type)) return;
      const x = state.gutter + left;
      context.fillStyle = palette.paper;
      context.fillRect(x - 0.5, y, 1, height);
      const waited = Math.min(right, view.x(begin + wait + offset)) - left;
      if (wait > 0 && waited > 3) this.fillHatched(context, palette, x, y, waited, height);
      this.write(context, palette, model.nameOf(type), microbatch, type < 0, spanClass, x, y, right - left, height, waited);
    };
    context.save();
    context.beginPath();
    context.rect(state.gutter, y, view.width, height);
    context.clip();
    if (track.lane < 0) {
      if (track.spans.index.length * view.span < 4 * view.width * model.length) model.visit(track, from, to, draw);
    } else {
      if (track.spans.index.length < 3000 || track.spans.index.length * view.span < 2 * view.width * model.length) model.visitSingles(track, from, to, draw);
      model.visitPieces(track, from, to, (piece, spans, begin, instance) => {
        if (piece.length / view.perPixel > 24) model.visitRepetitions(piece, spans, begin, instance, from, to, draw);
      });
    }
    context.restore();
  }

  private fillHatched(context: CanvasRenderingContext2D, palette: Palette, x: number, y: number, width: number, height: number): void {
    if (this.hatchColour !== palette.ink) {
      this.hatch = hatching(palette.ink);
      this.hatchColour = palette.ink;
    }
    if (!this.hatch) return;
    context.fillStyle = this.hatch;
    context.fillRect(x, y, width, height);
  }

  private write(context: CanvasRenderingContext2D, palette: Palette, name: string, microbatch: number, isPass: boolean, spanClass: number,
                x: number, y: number, width: number, height: number, waited: number): void {
    const number = microbatch >= 0 ? String(microbatch) : "";
    const full = isPass && number ? `${name} ${number}` : name;
    const room = Math.floor((width - 5) / characterWidth);
    let text = full.length <= room ? full : isPass && number.length <= room ? number : room >= 4 ? `${full.slice(0, room - 1)}…` : "";
    if (!text) return;
    const onPale = waited > 0.5 * width;
    if (onPale) text = full.length <= room ? full : "";
    context.fillStyle = onPale ? palette.ink : isDark(palette.ofClass[spanClass]!) ? "#ffffff" : "#101418";
    context.fillText(text, x + 3, y + height / 2 + 0.5);
  }

  private drawLabels(context: CanvasRenderingContext2D, layout: RowLayout, palette: Palette, state: RowState, first: number, last: number): void {
    context.textAlign = "right";
    let free = -Infinity;
    for (let i = first; i <= last; ++i) {
      const track = layout.tracks[i]!;
      const rank = this.model.ranks[track.rank]!;
      const y = layout.tops[i]! - state.scroll + layout.lane / 2;
      const isFirst = !layout.allStreams || rank.tracks[0] === track;
      const text = layout.lane < 10 ? (isFirst ? rank.label : "") : isFirst ? rank.label : track.depth === 0 ? track.name : "";
      if (!text || y < free) continue;
      free = y + 12;
      context.fillStyle = isFirst ? palette.ink : palette.soft;
      context.fillText(shortened(text, Math.floor((state.gutter - 8) / labelWidth)), state.gutter - 6, Math.max(7, y));
    }
    context.textAlign = "left";
  }

  private drawFound(context: CanvasRenderingContext2D, layout: RowLayout, view: TimeWindow, palette: Palette, state: RowState): void {
    if (!state.found) return;
    const y = layout.topOf(state.found.track) - state.scroll;
    const left = Math.max(-2, view.x(state.found.begin + this.model.data.begin));
    const right = Math.min(view.width + 2, view.x(state.found.end + this.model.data.begin));
    if (right < 0 || left > view.width) return;
    context.strokeStyle = palette.ink;
    context.lineWidth = 2;
    context.strokeRect(state.gutter + left - 1, y - 1, Math.max(3, right - left + 2), layout.lane + 1);
  }
}
