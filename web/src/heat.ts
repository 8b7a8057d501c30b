// SPDX-License-Identifier: Apache-2.0

/** Says the value of the cell under the pointer; the numbers come from the table below the map. */
export function addHeatTips(): void {
  const tip = document.createElement("div");
  tip.className = "tooltip";
  tip.hidden = true;
  document.body.append(tip);
  for (const svg of document.querySelectorAll<SVGSVGElement>("svg.heat")) {
    const table = svg.closest("figure")?.querySelector<HTMLTableElement>("details.data table");
    if (!table) continue;
    svg.addEventListener("pointermove", (event) => {
      const text = describe(svg, table, event);
      tip.hidden = text === null;
      if (text === null) return;
      tip.textContent = text;
      tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.clientY + 14}px`;
    });
    svg.addEventListener("pointerleave", () => (tip.hidden = true));
  }
}

function describe(svg: SVGSVGElement, table: HTMLTableElement, event: PointerEvent): string | null {
  const matrix = svg.getScreenCTM();
  if (!matrix) return null;
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
  const number = (key: string): number => Number(svg.dataset[key]);
  const row = Math.floor((point.y - number("top")) / number("row"));
  const nodeWidth = number("cell") * number("perNode") + number("gap");
  const inside = point.x - number("left");
  const node = Math.floor(inside / nodeWidth);
  const local = Math.floor((inside - node * nodeWidth) / number("cell"));
  if (row < 0 || inside < 0 || local >= number("perNode")) return null;
  const gpu = node * number("perNode") + local;
  const cells = table.tBodies[0]?.rows[row]?.cells;
  const value = cells?.[gpu + 1]?.textContent;
  if (!value) return null;
  return `${cells?.[0]?.textContent}: GPU ${gpu} (node ${node}, ${local}): ${value} (${svg.dataset.unit})`;
}
