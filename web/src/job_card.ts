// SPDX-License-Identifier: Apache-2.0
// One click on what belongs to a job shows the job: its numbers, and the way to its run.
import { button, element } from "./elements";
import { type Job, pageData } from "./page_data";
import { addRoving } from "./roving";

function tableRow(name: string): HTMLTableRowElement | null {
  return document.querySelector<HTMLTableRowElement>(`.jobs tr[data-job="${CSS.escape(name)}"]`);
}

/** The headings of the table of jobs, each with the job's cell; empty cells are left out. */
function numbersOf(name: string): [string, string][] {
  const row = tableRow(name);
  const headings = [...(row?.closest("table")?.tHead?.rows[0]?.cells ?? [])].map((cell) => cell.textContent ?? "");
  return headings.slice(1).map((heading, i): [string, string] => [heading, row?.cells[i + 1]?.textContent ?? ""])
    .filter(([, text]) => text !== "");
}

function describe(job: Job): HTMLElement {
  const list = element("dl");
  const numbers = numbersOf(job.name);
  const facts: [string, string][] = numbers.length > 0 ? numbers : [
    ["model", job.model], ["machine", job.machine], ["layout", job.layout], ["optimization", job.variant],
    ["microbatch", String(job.microbatch)], ["verdict", job.verdict]];
  for (const [name, text] of facts) list.append(element("div", {}, element("dt", {}, name), element("dd", {}, text)));
  return list;
}

class JobCard {
  private readonly box = element("div", { class: "card", role: "dialog", "aria-labelledby": "card-title", hidden: true });
  private opener: HTMLElement | SVGElement | null = null;

  constructor() {
    document.body.append(this.box);
    this.box.addEventListener("keydown", (event) => event.key === "Escape" && this.close());
    for (const leaving of ["wheel", "touchmove"]) {
      document.addEventListener(leaving, (event) => {
        if (!this.box.hidden && !this.box.contains(event.target as Node)) this.close();
      }, { passive: true });
    }
    document.addEventListener("pointerdown", (event) => {
      if (!this.box.hidden && !this.box.contains(event.target as Node)) this.box.hidden = true;
    });
  }

  open(job: Job, opener: HTMLElement | SVGElement): void {
    this.opener = opener;
    const actions = element("p", { class: "actions" });
    if (job.page) actions.append(element("a", { href: job.page }, "Open its run"));
    const row = tableRow(job.name);
    if (row && !row.contains(opener)) actions.append(button("Show in the table", () => this.showRow(row)));
    const close = button("×", () => this.close(), { class: "close", "aria-label": "Close" });
    this.box.replaceChildren(element("h2", { id: "card-title" }, job.name), close, describe(job), actions);
    this.box.hidden = false;
    this.put(opener.getBoundingClientRect());
    close.focus({ preventScroll: true });
  }

  private put(mark: DOMRect): void {
    const { offsetWidth: width, offsetHeight: height } = this.box;
    const left = Math.min(mark.left + Math.min(mark.width, 160), innerWidth - width - 12);
    const below = mark.bottom + 6;
    const top = below + height < innerHeight ? below : mark.top - height - 6;
    this.box.style.left = `${Math.max(8, left)}px`;
    this.box.style.top = `${Math.max(8, Math.min(top, innerHeight - height - 8))}px`;
  }

  private showRow(row: HTMLTableRowElement): void {
    this.box.hidden = true;
    row.hidden = false;
    row.scrollIntoView({ block: "center" });
    row.querySelector<HTMLElement>("button, a")?.focus();
  }

  close(): void {
    this.box.hidden = true;
    this.opener?.focus({ preventScroll: true });
  }
}

/** Names of jobs in the table become buttons. */
function addRowButtons(): void {
  for (const body of document.querySelectorAll<HTMLTableSectionElement>(".jobs tbody, .misses tbody")) {
    for (const cell of body.querySelectorAll<HTMLTableCellElement>("tr[data-job] > th:first-child")) {
      if (cell.querySelector("a, button")) continue;
      cell.replaceChildren(element("button", { type: "button", class: "job", "aria-haspopup": "dialog" }, cell.textContent ?? ""));
    }
    addRoving(body, () => [...body.querySelectorAll<HTMLElement>("tr:not([hidden]) > th .job")]);
  }
}

/** What is drawn for a job can be focused; a drawing with such marks is no longer one picture to a screen reader. */
function addMarkButtons(): void {
  for (const svg of document.querySelectorAll<SVGSVGElement>("svg")) {
    const marks = [...svg.querySelectorAll<SVGElement>("[data-job]")];
    if (marks.length === 0) continue;
    svg.setAttribute("role", "group");
    for (const mark of marks) {
      mark.setAttribute("role", "button");
      mark.setAttribute("aria-haspopup", "dialog");
      if (!mark.hasAttribute("aria-label")) mark.setAttribute("aria-label", labelOf(mark));
    }
    addRoving(svg.parentElement!, () => marks.filter((mark) => !mark.classList.contains("off")));
  }
}

/** Every text of it in a row: what one sees has to be part of what one hears. */
function labelOf(mark: SVGElement): string {
  const texts = [...mark.querySelectorAll("title, text")];
  for (const text of texts) text.after(" "); // or two words would be read as one
  return texts.map((text) => (text.textContent ?? "").trim()).join(" ") || (mark.dataset.job ?? "");
}

export function addJobCards(): void {
  const jobs = new Map((pageData().jobs ?? []).map((job) => [job.name, job]));
  if (jobs.size === 0) return;
  const card = new JobCard();
  addRowButtons();
  addMarkButtons();
  const open = (event: Event): void => {
    const target = event.target as Element;
    const mark = target.closest<HTMLElement | SVGElement>("svg [data-job]") ?? target.closest<HTMLElement>("tr[data-job] .job");
    const name = mark?.closest<HTMLElement>("[data-job]")?.dataset.job;
    const job = name === undefined ? undefined : jobs.get(name);
    if (!mark || !job || mark.classList.contains("off")) return;
    event.preventDefault();
    card.open(job, mark);
  };
  document.addEventListener("click", open);
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && (event.target as Element).closest("svg [data-job]")) open(event);
  });
}
