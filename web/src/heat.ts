// SPDX-License-Identifier: Apache-2.0
import { Tip } from "./card";
import { tableBelow } from "./compact_tables";

/** Says the value of the cell under the pointer; the numbers are those of the table below the map. */
export function addHeatTips(): void {
  const tip = new Tip();
  for (const svg of document.querySelectorAll<SVGSVGElement>("svg.heat")) {
    const numbers = svg.closest("figure")?.querySelector<HTMLElement>("details.data");
    if (!numbers) continue;
    svg.addEventListener("pointermove", (event) => {
      const [row, node, column] = cellAt(svg, event);
      const [headings, cells] = [tableBelow(numbers)?.tHead?.rows[0]?.cells, tableBelow(numbers)?.tBodies[0]?.rows[row]?.cells];
      const value = column < 0 ? "" : cells?.[column + 1]?.textContent;
      if (!value || value === "–") return tip.hide();
      return tip.show(`${cells![0]!.textContent}, node ${node}`, [[headings?.[column + 1]?.textContent ?? "", value]], event);
    });
    svg.addEventListener("pointerleave", () => tip.hide());
  }
}

/** Row, node and column under the pointer; a column of -1 is beside the cells. */
function cellAt(svg: SVGSVGElement, event: PointerEvent): [row: number, node: number, column: number] {
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM()!.inverse());
  const number = (key: string): number => Number(svg.dataset[key]);
  const inside = point.x - number("left");
  const node = Math.floor(inside / (number("cell") * number("perNode") + number("gap")));
  const local = Math.floor((inside - node * (number("cell") * number("perNode") + number("gap"))) / number("cell"));
  const isBeside = inside < 0 || local >= number("perNode");
  return [Math.floor((point.y - number("top")) / number("row")), node, isBeside ? -1 : node * number("perNode") + local];
}
