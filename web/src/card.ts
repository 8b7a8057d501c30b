// SPDX-License-Identifier: Apache-2.0
// A card beside a mark, with what belongs to the mark: a job, a GPU.
import { button, element } from "./elements";

export type Mark = HTMLElement | SVGElement;

export class Card {
  private readonly box = element("div", { class: "card", role: "dialog", "aria-labelledby": "card-title", hidden: true });
  private opener: Mark | null = null;

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

  open(title: string, opener: Mark, ...content: Node[]): void {
    this.opener = opener;
    const close = button("×", () => this.close(), { class: "close", "aria-label": "Close" });
    this.box.replaceChildren(element("h2", { id: "card-title" }, title), close, ...content);
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

  hide(): void {
    this.box.hidden = true;
  }

  close(): void {
    this.hide();
    this.opener?.focus({ preventScroll: true });
  }

  /** A GPU's curves, as the core has drawn them. */
  openGpu(mark: Mark, svg: string): void {
    const drawing = element("div", { class: "drawing" });
    drawing.innerHTML = svg;
    this.open(`GPU ${mark.dataset.gpu ?? ""}`, mark, drawing);
  }
}

/** What is known of what is under the pointer: a title, and facts by name. */
export class Tip {
  private readonly box = element("div", { class: "tooltip", hidden: true });

  constructor() {
    document.body.append(this.box);
  }

  show(title: string, facts: [string, string][], { clientX, clientY }: PointerEvent): void {
    this.box.hidden = false;
    const lines = facts.map(([name, text]) => element("div", {}, element("span", {}, name), element("span", {}, text)));
    this.box.replaceChildren(element("b", {}, title), ...lines);
    const { offsetWidth: width, offsetHeight: height } = this.box;
    this.box.style.left = `${clientX + 16 + width < innerWidth ? clientX + 16 : Math.max(4, clientX - width - 12)}px`;
    this.box.style.top = `${Math.max(4, Math.min(clientY + 16, innerHeight - height - 6))}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}

/** What is drawn can be focused and pressed; its drawing is no longer one picture to a screen reader. */
export function asButton(mark: SVGElement): void {
  mark.closest("svg")?.setAttribute("role", "group");
  mark.setAttribute("role", "button");
  mark.setAttribute("tabindex", "-1");
  mark.setAttribute("aria-haspopup", "dialog");
  if (!mark.hasAttribute("aria-label")) mark.setAttribute("aria-label", labelOf(mark));
}

/** Every text of it in a row: what one sees has to be part of what one hears. */
function labelOf(mark: SVGElement): string {
  const texts = [...mark.querySelectorAll("title, text")];
  for (const text of texts) text.after(" "); // or two words would be read as one
  return texts.map((text) => (text.textContent ?? "").trim()).join(" ") || (mark.dataset.job ?? "");
}

/** A click on such a mark, or Enter or a blank on it. */
export function onPress(selector: string, act: (mark: Mark, event: Event) => void): void {
  const press = (event: Event): void => {
    const mark = (event.target as Element).closest<Mark>(selector);
    if (mark) act(mark, event);
  };
  document.addEventListener("click", press);
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target instanceof SVGElement) press(event);
  });
}
