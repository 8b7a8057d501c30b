// SPDX-License-Identifier: Apache-2.0
// Figures of unequal height without holes between them: as many columns as leave least of the page empty.
import { element } from "./elements";

const narrowest = 390; // CSS pixels of a figure
const gap = 16;

interface Packing {
  columns: HTMLElement[][];
  filled: number; // share of the columns' area
}

/** The tallest first, each to the column that is shortest so far; within a column, and of columns, as the page has them. */
function pack(figures: HTMLElement[], heights: number[], count: number): Packing {
  const columns: number[][] = Array.from({ length: count }, () => []);
  const ends = columns.map(() => 0);
  const tallestFirst = figures.map((_, i) => i).sort((a, b) => heights[b]! - heights[a]! || a - b);
  for (const i of tallestFirst) {
    const shortest = ends.indexOf(Math.min(...ends));
    columns[shortest]!.push(i);
    ends[shortest] = ends[shortest]! + heights[i]! + gap;
  }
  for (const column of columns) column.sort((a, b) => a - b);
  columns.sort((a, b) => a[0]! - b[0]!);
  const all = ends.reduce((sum, end) => sum + end, 0);
  return { columns: columns.map((column) => column.map((i) => figures[i]!)), filled: all / (count * Math.max(1, ...ends)) };
}

/** What a figure needs so that its drawing does not scroll. */
function needOf(figure: HTMLElement): number {
  const drawings = [...figure.querySelectorAll<SVGElement>(".drawing > svg")];
  return Math.max(narrowest, ...drawings.map((svg) => (parseFloat(svg.style.minWidth) || 0) + 32));
}

/** More columns are worth a little emptiness; a whole empty column never is. */
function best(figures: HTMLElement[], width: number): HTMLElement[][] {
  const heights = figures.map(({ offsetHeight }) => offsetHeight);
  const need = Math.max(...figures.map(needOf));
  const most = Math.max(1, Math.min(figures.length, Math.floor((width + gap) / (need + gap))));
  let chosen = pack(figures, heights, most);
  for (let count = most - 1; count > 1; --count) {
    const next = pack(figures, heights, count);
    if (next.filled > chosen.filled + 0.08) chosen = next;
  }
  return chosen.columns;
}

/** Runs of figures between those as wide as the page become columns. */
function arrange(box: HTMLElement, cards: HTMLElement[]): void {
  box.replaceChildren(...cards); // as without this script, to be measured
  const { width } = box.getBoundingClientRect();
  const parts: HTMLElement[] = [];
  for (let from = 0; from < cards.length;) {
    let to = from;
    while (to < cards.length && !cards[to]!.classList.contains("wide")) ++to;
    if (to > from) {
      const columns = best(cards.slice(from, to), width).map((column) => element("div", { class: "column" }, ...column));
      parts.push(element("div", { class: "columns" }, ...columns));
    } else {
      parts.push(cards[to++]!);
    }
    from = to;
  }
  box.replaceChildren(...parts);
  box.classList.add("packed");
}

/** Again whenever a group becomes visible or the window changes its width. */
export function addColumns(): void {
  for (const box of document.querySelectorAll<HTMLElement>(".figures:not(.choices)")) {
    const cards = [...box.children] as HTMLElement[];
    if (cards.length < 2) continue;
    let last = 0;
    new ResizeObserver(() => {
      const width = Math.round(box.clientWidth);
      if (width === 0 || width === last) return;
      last = width;
      box.classList.remove("packed");
      arrange(box, cards);
    }).observe(box);
  }
}
