// SPDX-License-Identifier: Apache-2.0
// In the list of runs: two that are ticked are compared.
import { element } from "./elements";
import { moveTo, place } from "./place";

export function addTicks(): void {
  const rows = [...document.querySelectorAll<HTMLTableRowElement>("tr[data-run]")];
  if (rows.length < 2) return;
  const link = element("a", {}, "Compare the two ticked runs");
  const line = element("p", { role: "status", hidden: true }, link);
  const ticked = new Set(place().query.getAll("tick")); // the list is read anew every few seconds
  const show = (): void => {
    const [a, b, more] = [...ticked];
    line.hidden = b === undefined || more !== undefined;
    if (!line.hidden) link.href = `/compare?a=${encodeURIComponent(a!)}&b=${encodeURIComponent(b!)}`;
  };
  for (const row of rows) {
    const name = row.dataset.run!;
    const box = element("input", { type: "checkbox", "aria-label": `Tick ${name}` });
    box.checked = ticked.has(name);
    box.addEventListener("change", () => {
      if (box.checked) ticked.add(name);
      else ticked.delete(name);
      const { query } = place();
      query.delete("tick");
      for (const each of ticked) query.append("tick", each);
      moveTo({ query });
      show();
    });
    row.cells[0]!.prepend(box, " ");
  }
  document.querySelector(".jobs")?.before(line);
  show();
}
