// SPDX-License-Identifier: Apache-2.0

/** Which stretch of time is shown: ns since the run's epoch, and how many of them a CSS pixel is. */
export class TimeWindow {
  from: number;
  perPixel = 1;
  width = 100; // CSS pixels

  constructor(readonly begin: number, readonly end: number, private readonly homeBegin: number, private readonly homeEnd: number) {
    this.from = homeBegin;
    this.perPixel = (homeEnd - homeBegin) / this.width;
  }

  get to(): number {
    return this.from + this.perPixel * this.width;
  }
  get span(): number {
    return this.perPixel * this.width;
  }
  x(time: number): number {
    return (time - this.from) / this.perPixel;
  }
  time(x: number): number {
    return this.from + x * this.perPixel;
  }

  /** Keeps what is shown when the box changes its width. */
  resize(width: number): void {
    const span = this.span;
    this.width = Math.max(20, width);
    this.show(this.from, this.from + span);
  }

  show(from: number, to: number): void {
    const all = this.end - this.begin;
    const span = Math.min(Math.max(to - from, 500), all * 1.02); // half a microsecond, at the least
    this.perPixel = span / this.width;
    const slack = 0.01 * all;
    this.from = Math.max(this.begin - slack, Math.min(from, this.end + slack - span));
  }

  home(): void {
    const margin = 0.005 * (this.homeEnd - this.homeBegin);
    this.show(this.homeBegin - margin, this.homeEnd + margin);
  }
  everything(): void {
    this.show(this.begin, this.end);
  }

  /** factor < 1: closer. The time under `x` stays where it is. */
  zoom(factor: number, x: number): void {
    const at = this.time(x);
    const span = Math.min(Math.max(this.span * factor, 500), (this.end - this.begin) * 1.02);
    const from = at - (x / this.width) * span;
    this.show(from, from + span);
  }
  pan(pixels: number): void {
    const from = this.from + pixels * this.perPixel;
    this.show(from, from + this.span);
  }
}
