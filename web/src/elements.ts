// SPDX-License-Identifier: Apache-2.0

type Attributes = Record<string, string | boolean>;

/** element("button", { type: "button", class: "csv" }, "Save"); true sets an attribute, false leaves it out. */
export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag, attributes: Attributes = {}, ...children: (Node | string)[]): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

export function button(text: string, act: () => void, attributes: Attributes = {}): HTMLButtonElement {
  const made = element("button", { type: "button", ...attributes }, text);
  made.addEventListener("click", act);
  return made;
}

/** A list folded away behind its summary; Escape and a press beside it close it. */
export function menu(name: string, summary: HTMLElement, list: HTMLElement): HTMLDetailsElement {
  const made = element("details", { class: name }, summary, list);
  made.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !made.open) return;
    made.open = false;
    summary.focus();
  });
  document.addEventListener("click", ({ target }) => {
    if (!made.contains(target as Node)) made.open = false;
  });
  return made;
}

/** At most once per frame, however often it is asked for. */
export function oncePerFrame(act: () => void): () => void {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      act();
    });
  };
}
