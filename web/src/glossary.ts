// SPDX-License-Identifier: Apache-2.0
// The words of docs/glossary.md that the page uses, explained at its end.
import { element } from "./elements";

declare const GLOSSARY: [string, string][]; // term, meaning; put in by build.py

/** "mfu, hfu" and "tensor_parallel_size (TP)" as they may stand on a page. */
function namesOf(term: string): string[] {
  return term.split(/[,()]/).map((name) => name.replace(/_/g, " ").trim().toLowerCase()).filter((name) => name.length > 1);
}

function uses(text: string, name: string): boolean {
  return new RegExp(`(^|[^a-z])${name.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")}s?($|[^a-z])`).test(text);
}

export function addGlossary(): void {
  const main = document.querySelector("main")!;
  const text = (main.textContent ?? "").toLowerCase();
  const found = GLOSSARY.filter(([term]) => namesOf(term).some((name) => uses(text, name)));
  if (found.length === 0) return;
  const list = element("dl");
  for (const [term, meaning] of found) list.append(element("dt", {}, term), element("dd", {}, meaning));
  const words = element("details", { class: "glossary", id: "glossary" }, element("summary", {}, "Words of this page"), list);
  main.append(words);
  document.querySelector("header .facts")?.append(" ", element("a", { href: "#glossary" }, "Words explained"));
  document.querySelector("header .facts a[href='#glossary']")?.addEventListener("click", () => (words.open = true));
}
