// SPDX-License-Identifier: Apache-2.0
// Filters of a study's page: what they leave out is gone from tables and faint in charts.
import type { Chooser } from "./chooser";
import { button, element, menu } from "./elements";
import { type Job, pageData, rowsAsJobs } from "./page_data";
import { moveTo, place } from "./place";
import { marksChanged } from "./roving";

type Facet = "model" | "machine" | "layout" | "variant" | "microbatch" | "verdict";
const facets: Record<Facet, string> = {
  model: "Model", machine: "Machine", layout: "Layout", variant: "Optimization", microbatch: "Microbatch", verdict: "Verdict",
  ...pageData().facets,
};
const facetNames = Object.keys(facets) as Facet[];

function valueOf(job: Job, facet: Facet): string {
  return String(job[facet] || "");
}

function valuesOf(jobs: Job[], facet: Facet): string[] {
  const values = [...new Set(jobs.map((job) => valueOf(job, facet)))].filter((value) => value !== "");
  return values.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}

/** A line is as faint as its points: it is drawn before them. */
function dimLines(): void {
  for (const line of document.querySelectorAll("svg path.line")) {
    const points: Element[] = [];
    for (let next = line.nextElementSibling; next?.matches("circle[data-job]"); next = next.nextElementSibling) points.push(next);
    line.classList.toggle("off", points.length > 0 && points.every((point) => point.classList.contains("off")));
  }
}

class Filters {
  private readonly chosen = new Map(facetNames.map((facet) => [facet, new Set<string>()]));
  private readonly boxes: { facet: Facet; value: string; box: HTMLInputElement }[] = [];
  private readonly summaries = new Map<Facet, HTMLElement>();
  private readonly chips = element("span", { class: "chips" });
  private readonly clearButton = button("Clear", () => this.clear(), { class: "clear" });
  private readonly texts: Map<string, string>; // of each job: its name and facets, and its row of the table

  constructor(private readonly jobs: Job[], private readonly chooser: Chooser, private readonly field: HTMLInputElement | null,
              private readonly count: HTMLElement) {
    this.texts = new Map(jobs.map((job) => [job.name, [job.name, ...facetNames.map((facet) => valueOf(job, facet))].join(" ").toLowerCase()]));
    for (const row of document.querySelectorAll<HTMLTableRowElement>(".jobs tr[data-job]")) {
      const name = row.dataset.job ?? "";
      this.texts.set(name, `${this.texts.get(name) ?? ""} ${(row.textContent ?? "").replace(/\u00a0/g, " ").toLowerCase()}`);
    }
  }

  bar(): HTMLElement {
    const bar = element("div", { class: "filters", role: "group", "aria-label": "Filters of jobs" });
    for (const facet of facetNames) {
      const values = valuesOf(this.jobs, facet);
      if (values.length > 1) bar.append(this.facetMenu(facet, values));
    }
    bar.append(this.count, this.clearButton, this.chips);
    return bar;
  }

  private facetMenu(facet: Facet, values: string[]): HTMLElement {
    const summary = element("summary", {}, facets[facet]);
    this.summaries.set(facet, summary);
    const list = element("div", { class: "facet-choices", role: "group", "aria-label": facets[facet] });
    for (const value of values) list.append(this.choice(facet, value));
    return menu("facet", summary, list);
  }

  private choice(facet: Facet, value: string): HTMLElement {
    const box = element("input", { type: "checkbox" });
    this.boxes.push({ facet, value, box });
    box.addEventListener("change", () => this.set(facet, value, box.checked));
    const many = this.jobs.filter((job) => valueOf(job, facet) === value).length;
    return element("label", {}, box, element("span", {}, value), element("small", {}, String(many)));
  }

  set(facet: Facet, value: string, on: boolean): void {
    const values = this.chosen.get(facet)!;
    if (on) values.add(value);
    else values.delete(value);
    this.changed();
  }

  private clear(): void {
    for (const values of this.chosen.values()) values.clear();
    if (this.field) this.field.value = "";
    this.changed();
  }

  changed(): void {
    this.remember();
    this.apply();
  }

  /** From the address, so that a view can be shared. */
  restore(): void {
    const { query } = place();
    for (const facet of facetNames) {
      const known = valuesOf(this.jobs, facet);
      this.chosen.set(facet, new Set(query.getAll(facet).filter((value) => known.includes(value))));
    }
    if (this.field) this.field.value = query.get("find") ?? "";
    this.apply();
  }

  remember(): void {
    const query = new URLSearchParams();
    for (const [facet, values] of this.chosen) for (const value of values) query.append(facet, value);
    if (this.field?.value) query.set("find", this.field.value);
    moveTo({ query });
  }

  isActive(): boolean {
    return Boolean(this.field?.value) || [...this.chosen.values()].some((values) => values.size > 0);
  }

  private passes(job: Job, words: string[]): boolean {
    for (const [facet, values] of this.chosen) {
      if (values.size > 0 && !values.has(valueOf(job, facet))) return false;
    }
    const text = this.texts.get(job.name) ?? "";
    return words.every((word) => text.includes(word));
  }

  private apply(): void {
    const words = (this.field?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    const left = new Set(this.jobs.filter((job) => this.passes(job, words)).map((job) => job.name));
    const known = new Set(this.jobs.map((job) => job.name)); // what is no job of the list is not filtered
    for (const mark of document.querySelectorAll<HTMLElement | SVGElement>("[data-job]")) {
      const name = mark.dataset.job ?? "";
      const off = known.has(name) && !left.has(name);
      if (mark instanceof HTMLTableRowElement) mark.hidden = off;
      else mark.classList.toggle("off", off);
    }
    dimLines();
    document.dispatchEvent(new Event(marksChanged));
    this.chooser.keepOnly(this.isActive() ? left : null);
    this.show(left.size);
  }

  private show(left: number): void {
    this.count.textContent = `${left} of ${this.jobs.length}${this.jobs[0]?.model ? ` ${pageData().noun ?? "jobs"}` : ""}`;
    this.clearButton.hidden = !this.isActive();
    for (const [facet, summary] of this.summaries) {
      const size = this.chosen.get(facet)!.size;
      summary.textContent = size === 0 ? facets[facet] : `${facets[facet]}: ${size}`;
      summary.classList.toggle("on", size > 0);
    }
    for (const { facet, value, box } of this.boxes) box.checked = this.chosen.get(facet)!.has(value);
    this.chips.replaceChildren(...[...this.chosen].flatMap(([facet, values]) => [...values].map((value) => this.chip(facet, value))));
  }

  private chip(facet: Facet, value: string): HTMLElement {
    return button(`${value} ×`, () => {
      this.set(facet, value, false);
      (this.chips.querySelector<HTMLElement>("button") ?? this.summaries.get(facet))?.focus();
    }, { class: "chip", "aria-label": `Remove filter ${facets[facet]} ${value}` });
  }
}

function putBar(bar: HTMLElement): void {
  const nav = document.querySelector<HTMLElement>(".chooser");
  const sticky = element("div", { class: "sticky" });
  (nav ?? document.querySelector<HTMLElement>(".filtered") ?? document.querySelector<HTMLElement>(".jobs"))?.before(sticky);
  if (nav) sticky.append(nav);
  sticky.append(bar);
}

/** The bar stands above the charts and stays in sight; the search field stands above the table, where the page has it. */
export function addFilters(chooser: Chooser): void {
  const known = pageData().jobs ?? [];
  const jobs = known.length > 0 ? known : rowsAsJobs();
  if (jobs.length === 0) return;
  const field = document.querySelector<HTMLInputElement>("#filter");
  const count = document.querySelector<HTMLElement>("#filter-count") ?? element("span", { id: "filter-count" });
  count.setAttribute("role", "status");
  const filters = new Filters(jobs, chooser, field, count);
  if (known.length > 0) putBar(filters.bar());
  if (field) field.closest<HTMLElement>(".filter")!.hidden = false;
  field?.addEventListener("input", () => filters.changed());
  window.addEventListener("hashchange", () => {
    if (place().query.toString() !== "") filters.restore();
    else if (filters.isActive()) filters.remember(); // a link to a chart keeps the filters
  });
  filters.restore();
}
