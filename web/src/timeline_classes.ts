// SPDX-License-Identifier: Apache-2.0
// What the colours of the timeline mean.
import { styleValue } from "./page_data";
import type { TypeData } from "./timeline_data";

export interface SpanClass {
  name: string;
  text: string;
  colour: string; // variable of the style sheet
}

export const classes: readonly SpanClass[] = [
  { name: "gemm", text: "matrix products", colour: "--blue" },
  { name: "attention", text: "attention", colour: "--navy" },
  { name: "memory", text: "norms, elementwise", colour: "--sky" },
  { name: "optimizer", text: "optimizer", colour: "--olive" },
  { name: "all_reduce", text: "all-reduce", colour: "--yellow" },
  { name: "all_gather", text: "all-gather", colour: "--orange" },
  { name: "reduce_scatter", text: "reduce-scatter", colour: "--vermilion" },
  { name: "all_to_all", text: "all-to-all", colour: "--purple" },
  { name: "send_recv", text: "send and receive", colour: "--green" },
  { name: "communication", text: "other communication", colour: "--brown" },
  { name: "copy", text: "copies", colour: "--plum" },
  { name: "host", text: "host", colour: "--grey" },
  { name: "other", text: "other kernels", colour: "--slate" },
  { name: "forward", text: "forward passes", colour: "--forward" },
  { name: "backward", text: "backward passes", colour: "--backward" },
  { name: "pass", text: "other passes, steps", colour: "--rule" },
];

const indices = new Map(classes.map(({ name }, index) => [name, index]));

function nameOfClass(type: TypeData): string {
  if (type.kind === "communication") return indices.has(type.collective ?? "") ? type.collective! : "communication";
  if (type.kind === "compute") return type.op_class === "attention" ? "attention" : "gemm";
  if (type.kind === "memory") return type.op_class === "optimizer" ? "optimizer" : "memory";
  if (type.kind === "pass" || type.kind === "step") return passClass(type.name);
  return type.kind;
}

/** Forward and backward, whatever else the name says. */
export function passClass(name: string): string {
  if (/backward|bwd|wgrad|dgrad|recompute/i.test(name)) return "backward";
  return /forward|fwd/i.test(name) ? "forward" : "pass";
}

export function classIndex(name: string): number {
  return indices.get(name) ?? indices.get("other")!;
}

export function classOf(type: TypeData): number {
  return classIndex(nameOfClass(type));
}

/** Red, green and blue from 0 to 255. */
export type Rgb = readonly [number, number, number];

export function parseColour(text: string): Rgb {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})/i.exec(text);
  if (!hex) return [128, 128, 128];
  return [parseInt(hex[1]!, 16), parseInt(hex[2]!, 16), parseInt(hex[3]!, 16)];
}

/** The colours of the theme of the moment; and what is switched off or not looked for. */
export class Palette {
  readonly ofClass: Rgb[] = classes.map(({ colour }) => parseColour(styleValue(colour)));
  readonly paper = styleValue("--card");
  readonly ink = styleValue("--ink");
  readonly soft = styleValue("--soft");
  readonly rule = styleValue("--rule");

  constructor(private readonly off: ReadonlySet<number>, private readonly wanted: ReadonlySet<number> | null) {}

  isOff(spanClass: number): boolean {
    return this.off.has(spanClass);
  }
  /** By its type, as the search says. */
  isWanted(type: number): boolean {
    return this.wanted === null || this.wanted.has(type);
  }
}
