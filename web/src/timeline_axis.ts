// SPDX-License-Identifier: Apache-2.0
import type { Palette } from "./timeline_classes";
import { ticksOf } from "./timeline_text";
import type { TimeWindow } from "./timeline_window";

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
