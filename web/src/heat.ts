// SPDX-License-Identifier: Apache-2.0
import { compactTableOf } from "./compact_tables";
import { element } from "./elements";

/** What the table below a map says of a cell: the row's name, the column's, the value. */
type Look = (row: number, column: number) => [string, string, string] | null;

function lookInto(svg: SVGSVGElement): Look | null {
  const figure = svg.closest("figure");
  const data = compactTableOf(figure);
  if (data) {
    return (row, column) => {
      const value = data.values[row]?.[column];
      return value == null ? null : [data.labels[row] ?? "", data.columns[column + 1] ?? "", String(value)];
    };
  }
  const table = figure?.querySelector<HTMLTableElement>("details.data table");
  if (!table) return null;
  return (row, column) => {
    const cells = table.tBodies[0]?.rows[row]?.cells;
    const value = cells?.[column + 1]?.textContent;
    if (!value) return null;
    return [cells?.[0]?.textContent ?? "", `GPU ${column} (${svg.dataset.unit})`, value];
  };
}

/** Says the value of the cell under the pointer; the numbers are those of the table below the map. */
export function addHeatTips(): void {
  const tip = element("div", { class: "tooltip", hidden: true });
  document.body.append(tip);
  for (const svg of document.querySelectorAll<SVGSVGElement>("svg.heat")) {
    const look = lookInto(svg);
    if (!look) continue;
    svg.addEventListener("pointermove", (event) => {
      const text = describe(svg, look, event);
      tip.hidden = text === null;
      if (text === null) return;
      tip.textContent = text;
      tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.clientY + 14}px`;
    });
    svg.addEventListener("pointerleave", () => (tip.hidden = true));
  }
}

function describe(svg: SVGSVGElement, look: Look, event: PointerEvent): string | null {
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
  const found = look(row, node * number("perNode") + local);
  if (!found) return null;
  const [label, column, value] = found;
  return `${label}, node ${node}, ${column}: ${value}`;
}
