// SPDX-License-Identifier: Apache-2.0

const steps: Record<string, number> = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 };

/** Said to the document when marks have come or gone. */
export const marksChanged = "marks-changed";

/**
 * One stop of the tabulator key for many marks; arrow keys go from mark to mark, Home and End to the ends. `container` is
 * no SVG element: browsers let the tabulator stop at those which listen for the focus.
 */
export function addRoving(container: HTMLElement, marksOf: () => (HTMLElement | SVGElement)[]): void {
  let stop: HTMLElement | SVGElement | undefined;
  const stopAt = (mark: HTMLElement | SVGElement | undefined): void => {
    stop?.setAttribute("tabindex", "-1");
    stop = mark;
    stop?.setAttribute("tabindex", "0");
  };
  for (const mark of marksOf()) mark.setAttribute("tabindex", "-1");
  stopAt(marksOf()[0]);
  document.addEventListener(marksChanged, () => {
    const marks = marksOf();
    if (!stop || !marks.includes(stop)) stopAt(marks[0]);
  });
  container.addEventListener("focusin", (event) => {
    const mark = marksOf().find((candidate) => candidate.contains(event.target as Node));
    if (mark) stopAt(mark);
  });
  container.addEventListener("keydown", (event) => {
    const { key } = event as KeyboardEvent;
    const marks = marksOf();
    const at = marks.indexOf(document.activeElement as HTMLElement);
    if (at < 0) return;
    const next = key === "Home" ? 0 : key === "End" ? marks.length - 1 : at + (steps[key] ?? 0);
    const target = marks[Math.max(0, Math.min(marks.length - 1, next))];
    if (!target || next === at) return;
    event.preventDefault();
    stopAt(target);
    target.focus();
  });
}
