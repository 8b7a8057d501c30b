// SPDX-License-Identifier: Apache-2.0

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
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => {
        const ascending = heading.getAttribute("aria-sort") !== "ascending";
        for (const other of headings) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const body = table.tBodies[0];
        if (!body) return;
        const rows = [...body.rows];
        rows.sort((a, b) => (ascending ? 1 : -1) * compare(sortKey(a.cells[column]), sortKey(b.cells[column])));
        body.append(...rows);
      });
    });
  }
}

/** The search field above the table of jobs; all words must occur in a row. */
export function addFilter(): void {
  const field = document.querySelector<HTMLInputElement>("#filter");
  const body = document.querySelector<HTMLTableElement>(".jobs table")?.tBodies[0];
  const count = document.querySelector<HTMLElement>("#filter-count");
  if (!field || !body || !count) return;
  field.closest<HTMLElement>(".filter")!.hidden = false;
  const apply = (): void => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = (row.textContent ?? "").toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) ++shown;
    }
    count.textContent = `${shown} of ${body.rows.length} jobs`;
  };
  field.addEventListener("input", apply);
  apply();
}
