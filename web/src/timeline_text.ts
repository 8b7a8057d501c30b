// SPDX-License-Identifier: Apache-2.0
// Times and amounts as one reads them.

const units: [number, string][] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

function unitFor(nanoseconds: number): [number, string] {
  return units.find(([size]) => Math.abs(nanoseconds) >= size) ?? [1, "ns"];
}

/** Three or four digits: "2.086 ms". */
export function durationText(nanoseconds: number): string {
  const [size, name] = unitFor(nanoseconds);
  const value = nanoseconds / size;
  return `${value >= 100 || size === 1 ? value.toFixed(size === 1 ? 0 : 1) : value.toPrecision(4)} ${name}`;
}

export function bytesText(bytes: number): string {
  const steps: [number, string][] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  const [size, name] = steps.find(([least]) => bytes >= least) ?? [1, "B"];
  return `${Number((bytes / size).toPrecision(4))} ${name}`;
}

export interface Ticks {
  anchor: string; // what the labels count from; empty: the run's epoch
  ticks: { at: number; text: string }[];
}

function roundStep(rough: number): number {
  const power = 10 ** Math.floor(Math.log10(rough));
  return ([1, 2, 5].find((factor) => factor * power >= rough * 0.999) ?? 10) * power;
}

/** Round times between `from` and `to` (ns since the epoch), counted from a rounder one when one looks closely. */
export function ticksOf(from: number, to: number, most: number): Ticks {
  const step = Math.max(1, roundStep((to - from) / Math.max(1, most)));
  const [size, name] = unitFor(10 * step); // "0.5 s", not "500 ms"
  const decimals = Math.max(0, Math.ceil(Math.log10(size / step) - 1e-9));
  const large = 1000 * size;
  const anchor = size < 1e9 && to >= large ? Math.floor(from / large) * large : 0;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const value = (at - anchor) / size;
    ticks.push({ at, text: `${anchor > 0 ? "+" : ""}${value.toFixed(decimals)} ${name}` });
  }
  return { anchor: anchor > 0 ? secondsText(anchor) : "", ticks };
}

/** A moment: all digits that matter, in seconds. */
export function secondsText(nanoseconds: number): string {
  return `${(nanoseconds / 1e9).toFixed(9).replace(/0{1,9}$/, "").replace(/\.$/, "")} s`;
}
