// SPDX-License-Identifier: Apache-2.0
// What the page's C++ hands to its script, in <script type="application/json" id="data">.
import type { TimelineData } from "./timeline_data";

/** One job of a study. Every mark of a chart and every table row that belongs to it carries data-job="<name>". */
export interface Job {
  name: string;
  model: string;
  machine: string;
  layout: string;
  variant: string;
  microbatch: number;
  verdict: string;
  page: string; // relative link to the page or file of its run; "": there is none
}

/**
 * The numbers of a large table, kept out of the markup: `<details class="data" data-table="<figure id>">` has only its
 * summary until the script fills it (when it is opened, and for CSV). One row per label; null is unknown.
 * Heat maps have such tables: the rows of `svg.heat` are the rows here, in the same order, the first `columns` entry names
 * the row. In the drawing, `g[data-job] > rect.row` lies over the cells of a job's row: invisible, to be clicked, and to be
 * covered with the card's colour when it is filtered away.
 */
export interface CompactTable {
  columns: string[];
  labels: string[];
  jobs: string[]; // of each row; "" for rows of no job (means)
  values: (number | null)[][];
}

/** One curve; the values belong to the plot's times. */
export interface Curve {
  name: string;
  style: "mean" | "low" | "high" | "single";
  values: (number | null)[];
}
/** Curves that share an axis, drawn under the timeline. */
export interface Plot {
  unit: string;
  times: number[]; // seconds since the run's epoch
  curves: Curve[];
}

export interface PageData {
  plots?: Plot[];
  jobs?: Job[];
  facets?: Partial<Record<"model" | "machine" | "layout" | "variant" | "microbatch" | "verdict", string>>; // what they are called, where they are something else
  noun?: string; // what `jobs` are: "rows"
  tables?: Record<string, CompactTable>;
  timeline?: TimelineData;
}

let read: PageData | undefined;

export function pageData(): PageData {
  read ??= JSON.parse(document.getElementById("data")?.textContent || "{}") as PageData;
  return read;
}

/** A colour or length of the style sheet, in the theme of the moment. */
export function styleValue(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A page without a list of jobs has at least the rows of its table; no facet is known of these. */
export function rowsAsJobs(): Job[] {
  return [...document.querySelectorAll<HTMLTableRowElement>(".jobs tbody tr")].map((row) => {
    row.dataset.job ??= row.cells[0]?.textContent ?? "";
    return { name: row.dataset.job, model: "", machine: "", layout: "", variant: "", microbatch: 0, verdict: "", page: "" };
  });
}
