// SPDX-License-Identifier: Apache-2.0

/** What scrolls sideways can be reached by keyboard, and says what it is. */
export function addScrollRegions(): void {
  const update = (): void => {
    for (const box of document.querySelectorAll<HTMLElement>(".drawing")) {
      const scrolls = box.scrollWidth > box.clientWidth + 1;
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
  };
  update();
  window.addEventListener("resize", update);
  document.addEventListener("click", () => requestAnimationFrame(update)); // a group that was hidden has a width now
}
