// SPDX-License-Identifier: Apache-2.0
import { button } from "./elements";

function sortKey(cell: HTMLTableCellElement | undefined): number | string {
  const text = (cell?.textContent ?? "").trim();
  const number = Number(text.replace(/,/g, ""));
  return text !== "" && Number.isFinite(number) ? number : text.toLowerCase();
}

function compare(a: number | string, b: number | string): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1; // numbers before words and blanks
  if (typeof b === "number") return 1;
  return a.localeCompare(b);
}

/** Headings of the big table become buttons that sort by their column. */
export function addSorting(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>(".jobs table")) {
    const headings = [...(table.tHead?.rows[0]?.cells ?? [])];
    headings.forEach((heading, column) => {
      heading.replaceChildren(button(heading.textContent ?? "", () => {
        const ascending = heading.getAttribute("aria-sort") !== "ascending";
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const body = table.tBodies[0];
        if (!body) return;
        const rows = [...body.rows];
        rows.sort((a, b) => (ascending ? 1 : -1) * compare(sortKey(a.cells[column]), sortKey(b.cells[column])));
        body.append(...rows);
      }));
    });
  }
}

/** On a phone the rows of the answers become cards, in which each cell says what it is. */
export function addCellHeadings(): void {
  for (const table of document.querySelectorAll<HTMLTableElement>(":is(.answers, .parts) table")) {
    const headings = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
    for (const row of table.tBodies[0]?.rows ?? []) {
      [...row.cells].forEach((cell, i) => (cell.dataset.heading = headings[i] ?? ""));
    }
  }
}
