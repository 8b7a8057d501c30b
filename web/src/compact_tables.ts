// SPDX-License-Identifier: Apache-2.0
// Large tables are in the page's data and become markup when somebody asks for them.
import { element } from "./elements";
import { type CompactTable, pageData } from "./page_data";

function rowOf(data: CompactTable, index: number, figure: Element | null): HTMLTableRowElement {
  const job = data.jobs[index] ?? "";
  const row = element("tr", job ? { "data-job": job } : {}, element("th", { scope: "row" }, data.labels[index] ?? ""));
  for (const value of data.values[index] ?? []) row.append(element("td", { class: "num" }, value === null ? "–" : String(value)));
  const mark = job ? figure?.querySelector(`svg g[data-job="${CSS.escape(job)}"]`) : null;
  row.hidden = mark?.classList.contains("off") ?? false; // filtered away while there was no table
  return row;
}

/** The table below a chart, made if it is not there yet; null if the chart has no numbers. */
export function tableBelow(details: HTMLElement): HTMLTableElement | null {
  const present = details.querySelector("table");
  const figure = details.closest("figure");
  const data = figure ? pageData().tables?.[figure.id] : undefined;
  if (present || !data) return present;
  const caption = figure?.querySelector("figcaption")?.textContent ?? "Numbers";
  const head = element("tr");
  data.columns.forEach((name, i) => head.append(element("th", i > 0 ? { scope: "col", class: "num" } : { scope: "col" }, name)));
  const body = element("tbody", {}, ...data.labels.map((_, i) => rowOf(data, i, figure)));
  const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head), body);
  details.append(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table));
  return table;
}

export function addCompactTables(): void {
  for (const details of document.querySelectorAll<HTMLDetailsElement>("details[data-table]")) {
    details.addEventListener("toggle", () => details.open && tableBelow(details));
  }
}
