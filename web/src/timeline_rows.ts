// SPDX-License-Identifier: Apache-2.0
// Draws the ranks of a timeline into a canvas: pixels first, then what is wide enough for an edge, a hatching, a word.
import type { Palette, Rgba } from "./timeline_classes";
import type { Found } from "./timeline_find";
import type { TimelineModel, Track, Visit } from "./timeline_model";
import type { Painter } from "./timeline_paint";
import type { TimeWindow } from "./timeline_window";

const font = '10.5px system-ui, "DejaVu Sans", sans-serif';
const characterWidth = 6;
const budget = 14; // ms a frame for rows that were not drawn before

/** Where each track lies; heights in CSS pixels. */
export class RowLayout {
  readonly tracks: Track[] = [];
  readonly tops: number[] = [];
  height = 0;

  constructor(readonly model: TimelineModel, readonly lane: number) {
    const gap = lane >= 9 ? 7 : lane >= 4 ? 2 : lane >= 2 ? 1 : 0;
    for (const rank of model.ranks) {
      for (const track of rank.tracks) {
        this.tracks.push(track);
        this.tops.push(this.height);
        this.height += lane;
      }
      this.height += gap;
    }
  }

  /** Index of the track at this height. */
  at(y: number): number {
    let low = 0;
    let high = this.tops.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle]! <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  topOf(track: Track): number {
    return this.tops[this.tracks.indexOf(track)] ?? 0;
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

function isDark([red, green, blue]: Rgba): boolean {
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
  private hatch: CanvasPattern | null = null;
  private hatchColour = "";

  constructor(private readonly model: TimelineModel, private readonly painter: Painter) {}

  /** False if some rows ran out of time and need another frame. */
  draw(context: CanvasRenderingContext2D, ratio: number, layout: RowLayout, view: TimeWindow, palette: Palette, state: RowState): boolean {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, state.width, state.height);
    context.font = font;
    context.textBaseline = "middle";
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
    context.fillRect(0, layout.topOf(track) - state.scroll - 1, state.width, Math.max(2, rank.tracks.length * layout.lane + 2));
    context.globalAlpha = 1;
  }

  private drawPixels(context: CanvasRenderingContext2D, ratio: number, layout: RowLayout, view: TimeWindow, state: RowState, first: number, last: number): boolean {
    const count = Math.max(1, Math.round(view.width * ratio));
    const rows = last - first + 1;
    const image = new ImageData(count, Math.max(1, rows));
    const from = view.from - this.model.data.begin;
    const started = performance.now();
    let done = true;
    for (let i = 0; i < rows; ++i) {
      const track = layout.tracks[first + i]!;
      if (!this.painter.isReady(track) && performance.now() - started > budget) {
        done = false;
        continue;
      }
      this.painter.row(track, from, view.perPixel / ratio, count, image.data, 4 * count * i);
    }
    if (this.strip.width !== count || this.strip.height < rows) {
      this.strip.width = count;
      this.strip.height = rows;
    }
    this.strip.getContext("2d")!.putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    const inset = layout.lane >= 6 ? 1 : 0;
    for (let i = 0; i < rows; ++i) {
      const y = layout.tops[first + i]! - state.scroll;
      context.drawImage(this.strip, 0, i, count, 1, state.gutter, y, view.width, layout.lane - inset);
    }
    return done;
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
      if (palette.strength(type, spanClass) < 1) return;
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
      const isFirst = rank.tracks[0] === track;
      const text = layout.lane < 10 ? (isFirst ? rank.label : "") : isFirst ? rank.label : track.depth === 0 ? track.name : "";
      if (!text || y < free) continue;
      free = y + 12;
      context.fillStyle = isFirst ? palette.ink : palette.soft;
      const room = Math.floor((state.gutter - 8) / characterWidth);
      context.fillText(text.length > room ? `${text.slice(0, room - 1)}…` : text, state.gutter - 6, Math.max(7, y));
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
