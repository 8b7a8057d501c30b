// SPDX-License-Identifier: Apache-2.0
// Wheel, drag, pinch and keys of the timeline, as wishes to whoever draws it.

export interface Wishes {
  zoom(factor: number, clientX: number | null): void;
  pan(pixels: number): void;
  scroll(pixels: number): void;
  select(fromX: number, toX: number): void; // client coordinates
  point(event: PointerEvent | null): void;
  click(event: PointerEvent): void;
  key(event: KeyboardEvent): boolean; // true: understood
}

const dragBegins = 4; // pixels

/** `box` takes the events; the wheel zooms once it has the focus, and scrolls the page until then. */
export function listen(box: HTMLElement, wishes: Wishes): void {
  const down = new Map<number, PointerEvent>();
  let start: PointerEvent | null = null;
  let moved = false;
  let distance = 0;

  const distanceOf = (): number => {
    const [a, b] = [...down.values()];
    return a && b ? Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) : 0;
  };
  const middleOf = (): number => [...down.values()].reduce((sum, { clientX }) => sum + clientX, 0) / Math.max(1, down.size);

  box.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    down.set(event.pointerId, event);
    start = event;
    moved = false;
    distance = distanceOf();
  });
  box.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return wishes.point(event);
    if (!moved && Math.abs(event.clientX - start!.clientX) + Math.abs(event.clientY - start!.clientY) < dragBegins) return;
    if (!moved) box.setPointerCapture(event.pointerId);
    moved = true;
    down.set(event.pointerId, event);
    if (down.size === 2) {
      const now = distanceOf();
      if (distance > 0 && now > 0) wishes.zoom(distance / now, middleOf());
      distance = now;
    } else if (start!.shiftKey) {
      wishes.point(event);
    } else {
      wishes.pan(before.clientX - event.clientX);
      if (event.pointerType === "mouse") wishes.scroll(before.clientY - event.clientY);
    }
  });
  const up = (event: PointerEvent): void => {
    if (!down.delete(event.pointerId)) return;
    if (!moved && event.type === "pointerup") wishes.click(event);
    else if (moved && start?.shiftKey && event.type === "pointerup") wishes.select(start.clientX, event.clientX);
    distance = distanceOf();
  };
  box.addEventListener("pointerup", up);
  box.addEventListener("pointercancel", up);
  box.addEventListener("pointerleave", () => wishes.point(null));
  box.addEventListener("dblclick", (event) => wishes.zoom(0.25, event.clientX));
  box.addEventListener("wheel", (event) => {
    const isOurs = event.ctrlKey || event.metaKey || box.contains(document.activeElement);
    if (!isOurs) return;
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    if (event.shiftKey) wishes.pan(lines * (event.deltaX || event.deltaY));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) wishes.pan(lines * event.deltaX);
    else wishes.zoom(Math.exp(Math.max(-1, Math.min(1, (lines * event.deltaY) / 250))), event.clientX);
  }, { passive: false });
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (wishes.key(event)) event.preventDefault();
  });
}
