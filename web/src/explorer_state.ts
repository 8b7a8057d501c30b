// SPDX-License-Identifier: Apache-2.0
// The job in hand as flags of `triplepoint simulate`; the address holds it.
import { moveTo, place } from "./place";

/** "--tp" to "8"; a switch to ""; what may be repeated to a list. */
export type Flags = Record<string, string | string[]>;

export interface JobState {
  flags: Flags;
  beginning?: string; // a dropped job, as job.toml
}

export interface Flag {
  names: string[];
  value: string; // placeholder; "": a switch
  help: string;
  group: string;
  choices: string[];
  repeats: boolean;
  words: string;
}

export function requestOf(job: JobState, more: object = {}): object {
  return { flags: job.flags, beginning: job.beginning ?? "", ...more };
}

const beginningKey = "job.toml";

export function queryOf(job: JobState): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(job.flags)) {
    for (const each of Array.isArray(value) ? value : [value]) query.append(name.replace(/^--/, ""), each);
  }
  if (job.beginning) query.set(beginningKey, job.beginning);
  return query;
}

export function jobOf(query: URLSearchParams): JobState {
  const job: JobState = { flags: {} };
  for (const name of new Set(query.keys())) {
    const values = query.getAll(name);
    if (name === beginningKey) job.beginning = values[0]!;
    else if (name !== "pin") job.flags[`--${name}`] = values.length > 1 ? values : values[0]!;
  }
  return job;
}

/** Of the address: the job in hand, and the pins. */
export function readAddress(): { job: JobState; pins: JobState[] } {
  const { query } = place();
  return { job: jobOf(query), pins: query.getAll("pin").map((pin) => jobOf(new URLSearchParams(pin))) };
}

export function writeAddress(job: JobState, pins: JobState[]): void {
  const query = queryOf(job);
  for (const pin of pins) query.append("pin", queryOf(pin).toString());
  moveTo({ anchor: "", query });
}

function quoted(text: string): string {
  return /^[\w./:,=+@%-]+$/.test(text) ? text : `'${text.replace(/'/g, `'\\''`)}'`;
}

/** The command that gives the same answer in a shell. */
export function commandOf(job: JobState): string {
  const words = Object.entries(job.flags).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).map((each) => (each === "" ? name : `${name} ${quoted(each)}`)));
  return ["triplepoint simulate", ...(job.beginning ? ["job.toml"] : []), ...words].join(" ");
}

/** The same in Python. */
export function pythonOf(job: JobState): string {
  const words = Object.entries(job.flags).map(([name, value]) =>
    `${name.replace(/^--/, "").replace(/-/g, "_")}=${value === "" ? "True" : JSON.stringify(value)}`);
  const file = job.beginning ? ['"job.toml"'] : [];
  return `import triplepoint\n\nrun = triplepoint.simulate(${[...file, ...words].join(", ")})\nprint(run)\n`;
}
