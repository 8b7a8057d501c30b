// SPDX-License-Identifier: Apache-2.0
import { element } from "./elements";

/** What is known of the span under the pointer. */
export class Tip {
  private readonly box = element("div", { class: "tooltip timeline-tip", hidden: true });

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
