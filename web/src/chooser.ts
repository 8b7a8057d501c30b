// SPDX-License-Identifier: Apache-2.0
import { element, menu } from "./elements";
import { moveTo, place, placeOf } from "./place";

export interface Chooser {
  /** Greys out groups of which no job is left, and leaves the shown one if it is among them. */
  keepOnly(jobs: ReadonlySet<string> | null): void;
}

function jobsIn(group: HTMLElement): Set<string> {
  return new Set([...group.querySelectorAll<Element>("[data-job]")].map((mark) => mark.getAttribute("data-job") ?? ""));
}

/** Shows one group of charts at a time; without this script, all stand below each other. */
export function addChooser(): Chooser {
  const chooser = document.querySelector<HTMLElement>(".chooser");
  const groups = [...document.querySelectorAll<HTMLElement>("section.group")];
  if (!chooser || groups.length === 0) return { keepOnly: () => undefined };
  const links = [...chooser.querySelectorAll<HTMLAnchorElement>("a")];
  const linkOf = (group: HTMLElement): HTMLAnchorElement | undefined => links.find((link) => placeOf(link.hash).anchor === group.id);
  const jobs = new Map(groups.map((group) => [group, jobsIn(group)]));
  // The links as a menu, which takes no more room than a word; its summary names the group that is shown.
  const summary = element("summary");
  chooser.append(menu("group-menu", summary, element("div", { class: "facet-choices" }, ...chooser.children)));

  const choose = (id: string): void => {
    for (const group of groups) group.hidden = group.id !== id;
    for (const link of links) link.setAttribute("aria-current", String(placeOf(link.hash).anchor === id));
    summary.textContent = linkOf(groups.find((group) => !group.hidden)!)?.textContent ?? id;
    summary.parentElement!.removeAttribute("open");
  };

  /** The group in which an anchor lies is opened, so that links from findings work. */
  const follow = (): void => {
    const { anchor } = place();
    const target = anchor ? document.getElementById(anchor) : null;
    const group = target?.closest<HTMLElement>("section.group");
    if (group) choose(group.id);
    target?.closest<HTMLDetailsElement>("details.part")?.setAttribute("open", "");
    if (target && group) target.scrollIntoView();
  };

  choose(groups[0]!.id);
  for (const link of links) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const id = placeOf(link.hash).anchor;
      choose(id);
      moveTo({ anchor: id });
    });
  }
  window.addEventListener("hashchange", follow);
  follow();

  const keepOnly = (left: ReadonlySet<string> | null): void => {
    const isEmpty = (group: HTMLElement): boolean => {
      const own = jobs.get(group)!;
      return left !== null && own.size > 0 && ![...own].some((job) => left.has(job));
    };
    for (const group of groups) {
      const link = linkOf(group);
      link?.classList.toggle("empty", isEmpty(group));
      if (link) link.title = isEmpty(group) ? "no job of this group passes the filters" : "";
    }
    const shown = groups.find((group) => !group.hidden);
    const other = groups.find((group) => !isEmpty(group));
    if (shown && other && isEmpty(shown)) choose(other.id);
  };
  return { keepOnly };
}
