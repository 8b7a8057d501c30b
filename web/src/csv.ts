// SPDX-License-Identifier: Apache-2.0
import { tableBelow } from "./compact_tables";
import { button, element } from "./elements";

function quoted(cell: string): string {
  return /[",\n]/.test(cell) ? `"${cell.replace(/"/g, '""')}"` : cell;
}

/** Numbers without the commas that make them readable, an empty cell for a dash. */
function machineText(cell: HTMLTableCellElement): string {
  const text = (cell.textContent ?? "").trim();
  if (text === "–") return "";
  return /^-?\d{1,3}(,\d{3})+(\.\d+)?$/.test(text) ? text.replace(/,/g, "") : text;
}

export function csvOf(table: HTMLTableElement): string {
  return [...table.rows].map((row) => [...row.cells].map((cell) => quoted(machineText(cell))).join(",")).join("\n") + "\n";
}

/** A button above every chart's table that saves it. */
export function addCsvButtons(): void {
  for (const details of document.querySelectorAll<HTMLElement>("figure details.data")) {
    const figure = details.closest("figure");
    if (!figure || !(details.querySelector("table") || details.dataset.table)) continue;
    const save = (): void => {
      const table = tableBelow(details);
      if (!table) return;
      const href = URL.createObjectURL(new Blob([csvOf(table)], { type: "text/csv" }));
      element("a", { href, download: `${figure.id}.csv` }).click();
      URL.revokeObjectURL(href);
    };
    details.querySelector("summary")?.after(button("Save as CSV", save, { class: "csv" }));
  }
}
