// SPDX-License-Identifier: Apache-2.0
// A timeline's axis of time, and the curves on it: power, temperature, clock, throttling.
import { type Curve, type Plot, styleValue } from "./page_data";
import { firstOf, type TimelineData } from "./timeline_data";
import type { Palette } from "./timeline_classes";
import { ticksOf } from "./timeline_text";
import type { TimeWindow } from "./timeline_window";

export const stripHeight = 78;
const head = 16; // its name stands above the curves
const singles = ["--blue", "--orange", "--green", "--vermilion", "--sky", "--purple", "--yellow", "--grey"];

interface Strip {
  plot: Plot;
  low: number; // of its axis, with room above and below the curves
  high: number;
  least: number; // of its curves, and what the axis says
  most: number;
}

function extremesOf(plot: Plot): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  for (const { values } of plot.curves) {
    for (const value of values) {
      if (value === null) continue;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low > high ? [0, 1] : [low, high];
}

function stripOf(plot: Plot): Strip {
  const [least, most] = extremesOf(plot);
  const room = Math.max(0.06 * (most - least), 0.005 * Math.abs(most), 1e-6);
  return { plot, low: least === 0 ? 0 : least - room, high: most + room, least, most };
}

function colourOf(curve: Curve, index: number): string {
  const name = { mean: "--blue", high: "--vermilion", low: "--sky", single: singles[index % singles.length] ?? "--blue" }[curve.style];
  return styleValue(name);
}

/** First entry that is not before `value`. */
const lowerBound = (sorted: number[], value: number): number => firstOf(sorted.length, (i) => sorted[i]! >= value);

export class Strips {
  private readonly strips: Strip[];

  constructor(plots: Plot[]) {
    this.strips = plots.filter(({ times }) => times.length > 0).map(stripOf);
  }

  get height(): number {
    return this.strips.length * stripHeight;
  }

  /** First and last stamp, ns since the epoch. */
  extent(): [number, number] | null {
    if (this.strips.length === 0) return null;
    const times = this.strips.map(({ plot }) => [plot.times[0]!, plot.times[plot.times.length - 1]!] as const);
    return [Math.min(...times.map(([first]) => first)) * 1e9, Math.max(...times.map(([, last]) => last)) * 1e9];
  }

  draw(context: CanvasRenderingContext2D, ratio: number, view: TimeWindow, gutter: number, width: number): void {
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, this.height);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    this.strips.forEach((strip, index) => this.drawStrip(context, strip, index * stripHeight, view, gutter));
  }

  private drawStrip(context: CanvasRenderingContext2D, strip: Strip, top: number, view: TimeWindow, gutter: number): void {
    const inner = stripHeight - head - 6;
    const y = (value: number): number => top + head + inner * (1 - (value - strip.low) / (strip.high - strip.low));
    context.fillStyle = styleValue("--soft");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const said = (value: number): string => String(Number(value.toPrecision(3)));
    if (said(strip.most) !== said(strip.least)) context.fillText(said(strip.most), gutter - 6, Math.max(y(strip.most), top + head + 5));
    context.fillText(said(strip.least), gutter - 6, Math.min(y(strip.least), top + stripHeight - 11));
    context.strokeStyle = styleValue("--rule");
    context.lineWidth = 1;
    context.strokeRect(gutter + 0.5, top + head - 0.5, view.width - 1, inner + 1);
    context.save();
    context.beginPath();
    context.rect(gutter, top + head - 1, view.width, inner + 2);
    context.clip();
    const { times, curves } = strip.plot;
    const first = Math.max(0, lowerBound(times, view.from / 1e9) - 1);
    const last = Math.min(times.length - 1, lowerBound(times, view.to / 1e9) + 1);
    const x = (i: number): number => gutter + view.x(times[i]! * 1e9);
    this.drawBand(context, curves, first, last, x, y);
    curves.forEach((curve, index) => {
      context.strokeStyle = colourOf(curve, index);
      context.lineWidth = curve.style === "mean" ? 1.8 : 1.1;
      context.beginPath();
      let open = false;
      for (let i = first; i <= last; ++i) {
        const value = curve.values[i];
        if (value == null) open = false;
        else if (open) context.lineTo(x(i), y(value));
        else context.moveTo(x(i), y(value));
        open = value != null;
      }
      context.stroke();
    });
    context.restore();
    context.textAlign = "left";
    context.fillStyle = styleValue("--ink");
    context.fillText(strip.plot.unit, gutter, top + 8);
  }

  private drawBand(context: CanvasRenderingContext2D, curves: Curve[], first: number, last: number, x: (i: number) => number, y: (value: number) => number): void {
    const low = curves.find(({ style }) => style === "low")?.values;
    const high = curves.find(({ style }) => style === "high")?.values;
    if (!low || !high) return;
    context.fillStyle = `${styleValue("--sky")}33`;
    context.beginPath();
    for (let i = first; i <= last; ++i) if (high[i] != null) context.lineTo(x(i), y(high[i]!));
    for (let i = last; i >= first; --i) if (low[i] != null) context.lineTo(x(i), y(low[i]!));
    context.fill();
  }

  /** What the curves say at a moment, one line a strip: "power (W): lowest GPU 402, mean 511, highest GPU 702". */
  valuesAt(time: number): string[] {
    return this.strips.map(({ plot }) => {
      const after = Math.min(plot.times.length - 1, lowerBound(plot.times, time / 1e9));
      const isNearer = after > 0 && time / 1e9 - plot.times[after - 1]! < plot.times[after]! - time / 1e9;
      const at = isNearer ? after - 1 : after;
      const inside = time >= plot.times[0]! * 1e9 - 1 && time <= plot.times[plot.times.length - 1]! * 1e9 + 1;
      const texts = inside ? plot.curves.map((curve) => `${curve.name} ${curve.values[at]?.toPrecision(4) ?? "–"}`) : ["–"];
      return `${plot.unit}: ${texts.join(", ")}`;
    });
  }

  get count(): number {
    return this.strips.length;
  }
}

/** A timeline without ranks, as long as the curves are. */
export function curvesOnly(plots: Plot[]): TimelineData {
  const [first, last] = new Strips(plots).extent() ?? [0, 1e9];
  const spans = { count: 0, rank: 0, lane: 0, begin: 0, length: 0, type: 0, microbatch: 0, layer: 0, wait: 0, bytes: 0 };
  return { version: 1, begin: Math.round(first), length: Math.round(last - first), types: [], ranks: [], spans };
}

export const axisHeight = 22;

export function drawAxis(canvas: HTMLCanvasElement, ratio: number, view: TimeWindow, palette: Palette, gutter: number): void {
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, axisHeight);
  context.font = '11px system-ui, "DejaVu Sans", sans-serif';
  context.fillStyle = palette.soft;
  const { anchor, ticks } = ticksOf(view.from, view.to, view.width / 90);
  context.textAlign = "right";
  context.fillText(anchor || "time", gutter - 6, 12);
  context.textAlign = "center";
  for (const { at, text } of ticks) {
    const x = gutter + view.x(at);
    context.fillRect(x, axisHeight - 5, 1, 5);
    const half = context.measureText(text).width / 2;
    if (x - half > gutter + 1 && x + half < gutter + view.width) context.fillText(text, x, 12);
  }
  context.textAlign = "left";
}
