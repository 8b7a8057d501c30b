// SPDX-License-Identifier: Apache-2.0
// What must hold in every page, whatever it shows. Runs inside the page; returns sentences.
export function inspect() {
  const problems = [];
  const expect = (good, what) => good || problems.push(what);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const root = document.documentElement;
  const isShown = (element) => element.closest("[hidden]") === null && !element.closest("details:not([open]) > :not(summary)");
  expect(root.dataset.ready === "yes", "the script did not come to its end");
  expect(root.scrollWidth <= innerWidth, `the page is ${root.scrollWidth} wide in a window of ${innerWidth}`);
  expect(all("h1").length === 1, "not one h1");
  expect(document.title.length > 3, "no title");
  const ids = all("[id]").map((element) => element.id);
  ids.forEach((id, i) => expect(ids.indexOf(id) === i, `two elements are called ${id}`));
  for (const link of all("a[href^='#']")) {
    const anchor = decodeURIComponent(link.hash.slice(1).split("?")[0]);
    expect(document.getElementById(anchor), `a link leads to ${link.hash}, which is nowhere`);
  }
  for (const svg of all("svg[role=img], svg[role=group]")) {
    expect((svg.getAttribute("aria-label") ?? "").length > 3, "a chart has no name");
    expect(!/\bNaN\b|\binf\b|Infinity|undefined/.test(svg.outerHTML), `a chart has a number that is none: ${svg.getAttribute("aria-label")}`);
    expect(!isShown(svg) || svg.getBoundingClientRect().height > 20, `a chart is not drawn: ${svg.getAttribute("aria-label")}`);
  }
  for (const table of all("table")) expect(table.caption && table.tHead, "a table has no caption or no heading");
  for (const figure of all("figure")) expect(figure.querySelector("figcaption")?.textContent, "a figure has no title");
  for (const control of all("button, a, summary")) {
    expect((control.getAttribute("aria-label") ?? control.textContent ?? "").trim().length > 0, "a control has no name");
  }
  for (const timeline of all(".timeline")) {
    for (const canvas of all("canvas", timeline)) {
      if (canvas.height <= 1 || !isShown(canvas)) continue; // no curves, no ranks
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      expect(data.some((value) => value !== 0), "a canvas of the timeline is empty");
    }
  }
  return problems;
}

/** Every group of charts and every finding's chart can be shown. */
export function followLinks() {
  const problems = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  for (const link of all(".chooser a")) {
    link.click();
    const shown = all("section.group").filter((group) => !group.hidden);
    if (shown.length !== 1 || `#${shown[0].id}` !== link.hash.split("?")[0]) problems.push(`choosing ${link.hash} shows something else`);
    for (const svg of shown[0]?.querySelectorAll("svg[role]") ?? []) {
      if (svg.getBoundingClientRect().height < 20) problems.push(`not drawn in ${link.hash}: ${svg.getAttribute("aria-label")}`);
    }
  }
  for (const link of all(".findings a[href^='#']")) {
    location.hash = link.hash;
    dispatchEvent(new HashChangeEvent("hashchange"));
    if (!(document.getElementById(link.hash.slice(1))?.getBoundingClientRect().height > 0)) problems.push(`a finding leads to ${link.hash}, which stays hidden`);
  }
  for (const details of all("details.data")) details.open = true;
  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) problems.push(`with tables open the page is ${scrollWidth} wide in a window of ${innerWidth}`);
  for (const details of all("details.data")) details.open = false;
  history.replaceState(null, "", location.pathname);
  return problems;
}
