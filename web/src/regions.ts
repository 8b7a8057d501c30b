// SPDX-License-Identifier: Apache-2.0

/** What scrolls sideways now can be reached by keyboard, and says what it is. */
export function markScrollRegions(): void {
  const boxes = [...document.querySelectorAll<HTMLElement>(".drawing, .scroll")];
  const wide = boxes.map((box) => box.scrollWidth > box.clientWidth + 1); // all are measured before any is changed: one layout
  for (const [i, box] of boxes.entries()) {
    const scrolls = wide[i]!;
    box.classList.toggle("scrolls", scrolls); // it shows where there is more
    if (box.classList.contains("scroll")) continue; // has its name from the start
    if (scrolls === box.hasAttribute("tabindex")) continue;
    if (!scrolls) {
      for (const name of ["tabindex", "role", "aria-label"]) box.removeAttribute(name);
      continue;
    }
    const title = box.closest("figure")?.querySelector("figcaption")?.textContent ?? "Chart";
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", `${title} (scrolls)`);
  }
}

/** The same whenever widths change. */
export function addScrollRegions(): void {
  markScrollRegions();
  window.addEventListener("resize", markScrollRegions);
  document.addEventListener("toggle", markScrollRegions, true); // a table was unfolded
  document.addEventListener("click", () => requestAnimationFrame(markScrollRegions)); // a group that was hidden has a width now
}
