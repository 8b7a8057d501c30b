// SPDX-License-Identifier: Apache-2.0

/** Shows one group of charts at a time; without this script, all stand below each other. */
export function addChooser(): void {
  const chooser = document.querySelector<HTMLElement>(".chooser");
  if (!chooser) return;
  const groups = [...document.querySelectorAll<HTMLElement>("section.group")];
  const links = [...chooser.querySelectorAll<HTMLAnchorElement>("a")];

  const choose = (id: string): void => {
    for (const group of groups) group.hidden = group.id !== id;
    for (const link of links) {
      link.setAttribute("aria-current", String(link.hash === `#${id}`));
    }
  };

  /** The group in which an anchor lies, so that links from findings open it. */
  const groupOf = (hash: string): HTMLElement | null => {
    const target = hash.length > 1 ? document.getElementById(decodeURIComponent(hash.slice(1))) : null;
    return target?.closest<HTMLElement>("section.group") ?? null;
  };

  const follow = (): void => {
    const group = groupOf(location.hash);
    if (!group) return;
    choose(group.id);
    document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  };

  const first = groups[0];
  if (first) choose(first.id);
  for (const link of links) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      choose(link.hash.slice(1));
      history.replaceState(null, "", link.hash);
    });
  }
  window.addEventListener("hashchange", follow);
  follow();
}
