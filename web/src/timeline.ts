// SPDX-License-Identifier: Apache-2.0
// The timeline of a run: every rank, zoomable from minutes to a microsecond, with the curves under it on the same axis.
import { Tip } from "./card";
import { button, element, oncePerFrame } from "./elements";
import { pageData, type Plot } from "./page_data";
import { classes, Palette } from "./timeline_classes";
import type { TimelineData } from "./timeline_data";
import { factsOf, type Found, spanAt, spanBeside, typesNamed } from "./timeline_find";
import { listen } from "./timeline_input";
import { TimelineModel, type Track } from "./timeline_model";
import { Painter } from "./timeline_paint";
import { RowArtist, RowLayout, type RowState } from "./timeline_rows";
import { axisHeight, curvesOnly, drawAxis, stripHeight, Strips } from "./timeline_strips";
import { TimeWindow } from "./timeline_window";

const laneHeights = [1, 2, 3, 4, 6, 9, 12, 15, 20]; // CSS pixels

const help =
  "Click into it, then: the wheel zooms, dragging moves, dragging with Shift chooses a stretch; two fingers zoom. Keys: + and − zoom, " +
  "← and → move, ↑ and ↓ choose a rank, comma and full stop step to the span before and after, Enter zooms to it, 0 shows the timeline, " +
  "9 the whole run, [ and ] change the rows' height, / searches.";

class TimelineView {
  private readonly model: TimelineModel;
  private readonly strips: Strips;
  private readonly view: TimeWindow;
  private palette: Palette;
  private readonly painter: Painter;
  private readonly artist: RowArtist;
  private layout: RowLayout;
  private readonly off = new Set<number>();
  private wanted: Set<number> | null = null;
  private rank = 0;
  private found: Found | null = null;
  private pointer: PointerEvent | null = null;
  private gutter = 116;

  private readonly axis = element("canvas", { "aria-hidden": "true" });
  private readonly rows = element("canvas", { "aria-hidden": "true" });
  private readonly curves = element("canvas", { "aria-hidden": "true" });
  private readonly spacer = element("div");
  private readonly scroller = element("div", { class: "timeline-rows" });
  private readonly body = element("div", { class: "timeline-body", tabindex: "0", role: "application", "aria-roledescription": "timeline" });
  private readonly cursor = element("div", { class: "timeline-cursor", hidden: true });
  private readonly range = element("div", { class: "timeline-range", hidden: true });
  private readonly tip = new Tip();
  private readonly said = element("p", { class: "timeline-said", role: "status" });
  private readonly readings: HTMLElement[];
  private readonly search = element("input", { type: "search", placeholder: "search spans", "aria-label": "Search spans by name" });
  private readonly hits = element("span", { class: "timeline-hits", role: "status" });

  readonly draw = oncePerFrame(() => this.drawNow());

  constructor(private readonly target: HTMLElement, data: TimelineData, plots: Plot[]) {
    this.model = new TimelineModel(data);
    this.strips = new Strips(plots);
    const end = data.begin + this.model.length;
    const [first, last] = this.strips.extent() ?? [data.begin, end];
    this.view = new TimeWindow(Math.min(first, data.begin), Math.max(last, end), data.begin, end);
    this.palette = new Palette(this.off, null);
    this.painter = new Painter(this.model, this.palette);
    this.artist = new RowArtist(this.model, this.painter);
    this.layout = this.fittingLayout();
    this.readings = Array.from({ length: this.strips.count }, (_, i) => {
      const reading = element("output", { class: "timeline-reading", hidden: true });
      reading.style.top = `${i * stripHeight}px`;
      return reading;
    });
    this.build();
    this.resize();
    // A step is a sliver of minutes of power and heat: those come first.
    if (this.view.end - this.view.begin > 1.5 * this.model.length) this.view.everything();
    else this.view.home();
  }

  /** All streams if they can be read at once, else the fullest stream of each rank. */
  private fittingLayout(): RowLayout {
    const { ranks } = this.model;
    const fitting = (lines: number, gap: number): number | undefined =>
      [...laneHeights].reverse().find((lane) => lane <= 15 && lane * lines + gap * ranks.length <= 516);
    const all = fitting(ranks.reduce((sum, { tracks }) => sum + tracks.length, 0), 7);
    if (all !== undefined && all >= 9) return new RowLayout(this.model, all, true);
    return new RowLayout(this.model, Math.max(3, fitting(ranks.length, 3) ?? 3), false);
  }

  // ---- what stands around the canvases

  private build(): void {
    const many = this.model.ranks.length;
    const id = `${this.target.id}-keys`;
    this.body.setAttribute("aria-label", many === 0 ? "Curves over time" : `Timeline of ${many} rank${many === 1 ? "" : "s"}`);
    this.body.setAttribute("aria-describedby", id);
    this.scroller.append(this.spacer);
    this.spacer.append(this.rows);
    const under = element("div", { class: "timeline-strips" }, this.curves, ...this.readings);
    this.body.append(this.axis, under, this.scroller, this.cursor, this.range); // power and heat first, above many ranks
    if (many === 0) this.scroller.hidden = true;
    this.target.replaceChildren(this.tools(), this.body, many > 0 ? this.legend() : "", this.said, element("p", { class: "note timeline-help", id }, help));
    if (this.model.data.note) this.target.append(element("p", { class: "note" }, this.model.data.note));
    this.scroller.addEventListener("scroll", this.draw);
    this.listen();
  }

  private tools(): HTMLElement {
    const zoom = (factor: number) => () => this.zoom(factor, null);
    const tools = element("div", { class: "timeline-tools", role: "group", "aria-label": "Timeline" },
      button("+", zoom(0.5), { "aria-label": "Zoom in", title: "Zoom in (+)" }),
      button("−", zoom(2), { "aria-label": "Zoom out", title: "Zoom out (-)" }),
      button("◀", () => this.pan(-0.25), { "aria-label": "Earlier", title: "Earlier (left arrow)" }),
      button("▶", () => this.pan(0.25), { "aria-label": "Later", title: "Later (right arrow)" }),
      button("Whole run", () => this.everything(), { title: "All that is known (9)" }));
    if (this.model.ranks.length > 0) tools.append(...this.rankTools());
    return tools;
  }

  private rankTools(): HTMLElement[] {
    const streams = button("All streams", () => this.showStreams(streams), {
      "aria-pressed": String(this.layout.allStreams), title: "Every stream, or the fullest of each rank",
    });
    this.search.addEventListener("input", () => this.searchFor(this.search.value));
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.findNext(!event.shiftKey);
    });
    return [
      button("Whole step", () => this.home(), { title: "The whole timeline (0)" }),
      button("Flatter", () => this.resizeRows(-1), { title: "Flatter rows ([)" }),
      button("Taller", () => this.resizeRows(1), { title: "Taller rows (])" }),
      streams, this.search, button("Next", () => this.findNext(true), { "aria-label": "Next span found" }), this.hits];
  }

  private legend(): HTMLElement {
    const used = new Set<number>(this.model.typeClass);
    if (this.model.instances.some(({ index }) => index.length > 0)) for (const { passClass } of this.model.patterns) used.add(passClass);
    const list = element("ul", { class: "legend timeline-legend", "aria-label": "Show or hide" });
    for (const spanClass of [...used].sort((a, b) => a - b)) {
      const { name, text } = classes[spanClass]!;
      const toggle = button("", () => {
        if (!this.off.delete(spanClass)) this.off.add(spanClass);
        toggle.setAttribute("aria-pressed", String(!this.off.has(spanClass)));
        this.repaint(false);
      }, { "aria-pressed": "true" });
      toggle.append(element("i", { class: `swatch c-${name}` }), text);
      list.append(element("li", {}, toggle));
    }
    list.append(element("li", { class: "timeline-wait" }, element("i", { class: "swatch waiting" }), "waiting for a peer (hatched, pale)"));
    return list;
  }

  private listen(): void {
    listen(this.body, {
      zoom: (factor, clientX) => this.zoom(factor, clientX),
      pan: (pixels) => this.move(() => this.view.pan(pixels)),
      scroll: (pixels) => (this.scroller.scrollTop += pixels),
      select: (fromX, toX) => this.zoomTo(fromX, toX),
      point: (event) => this.point(event),
      click: (event) => this.choose(this.under(event), false),
      key: (event) => this.key(event),
    });
    new ResizeObserver(() => this.resize()).observe(this.target);
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint(false));
    window.matchMedia("print").addEventListener("change", () => {
      this.repaint(false);
      this.drawNow(); // no frame comes before the sheet is made
    });
  }

  // ---- moving

  private move(act: () => void): void {
    act();
    if (this.pointer) this.point(this.pointer); // what is under it is another span now
    this.draw();
  }
  private plotX(clientX: number): number {
    return clientX - this.body.getBoundingClientRect().left - this.gutter;
  }
  private zoom(factor: number, clientX: number | null): void {
    const x = clientX === null ? this.view.width / 2 : Math.max(0, Math.min(this.view.width, this.plotX(clientX)));
    this.move(() => this.view.zoom(factor, x));
  }
  private pan(share: number): void {
    this.move(() => this.view.pan(share * this.view.width));
  }
  private home(): void {
    this.move(() => this.view.home());
  }
  private everything(): void {
    this.move(() => this.view.everything());
  }
  private zoomTo(fromX: number, toX: number): void {
    this.range.hidden = true;
    const [a, b] = [this.plotX(Math.min(fromX, toX)), this.plotX(Math.max(fromX, toX))];
    if (b - a > 2) this.move(() => this.view.show(this.view.time(a), this.view.time(b)));
  }
  private resizeRows(step: number): void {
    const at = laneHeights.indexOf(this.layout.lane) + step;
    const lane = laneHeights[Math.max(0, Math.min(laneHeights.length - 1, at))]!;
    this.layout = new RowLayout(this.model, lane, this.layout.allStreams);
    this.resize();
    this.showRank();
  }
  private showStreams(toggle: HTMLElement): void {
    this.layout = new RowLayout(this.model, this.layout.lane, !this.layout.allStreams);
    toggle.setAttribute("aria-pressed", String(this.layout.allStreams));
    this.resize();
    this.showRank();
  }

  private readonly keys: Record<string, () => void> = {
    "+": () => this.zoom(0.5, null), "=": () => this.zoom(0.5, null), "-": () => this.zoom(2, null), "_": () => this.zoom(2, null),
    ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
    ArrowUp: () => this.chooseRank(this.rank - 1), ArrowDown: () => this.chooseRank(this.rank + 1),
    PageUp: () => this.chooseRank(this.rank - 16), PageDown: () => this.chooseRank(this.rank + 16),
    Home: () => this.home(), "0": () => this.home(), "9": () => this.everything(),
    "[": () => this.resizeRows(-1), "]": () => this.resizeRows(1),
    ".": () => this.chooseBeside(true), ",": () => this.chooseBeside(false), n: () => this.findNext(true), p: () => this.findNext(false),
    Enter: () => this.zoomToFound(), "/": () => this.search.focus(), Escape: () => this.choose(null, false),
  };
  private key(event: KeyboardEvent): boolean {
    const act = this.keys[event.key];
    if (!act || (event.key === "Escape" && !this.found)) return false;
    act();
    return true;
  }

  // ---- choosing

  private trackUnder(clientY: number): Track | undefined {
    const box = this.scroller.getBoundingClientRect();
    if (clientY < box.top || clientY >= box.bottom) return undefined;
    return this.layout.tracks[this.layout.at(clientY - box.top + this.scroller.scrollTop)];
  }

  private under(event: PointerEvent): Found | null {
    const track = this.trackUnder(event.clientY);
    const x = this.plotX(event.clientX);
    if (!track || x < 0) return null;
    return spanAt(this.model, track, this.view.time(x) - this.model.data.begin, 3 * this.view.perPixel);
  }

  private choose(found: Found | null, show: boolean): void {
    this.found = found;
    if (found) {
      this.rank = found.track.rank;
      if (show) this.reveal(found);
      this.said.textContent = this.sentenceOf(found);
    } else {
      this.said.textContent = "";
    }
    this.draw();
  }

  private sentenceOf(found: Found): string {
    return `${this.model.nameOf(found.type)}: ${factsOf(this.model, found).map(([name, text]) => `${name} ${text}`).join(", ")}.`;
  }

  /** Brings a span into the window and its row into sight. */
  private reveal(found: Found): void {
    const begin = found.begin + this.model.data.begin;
    const end = found.end + this.model.data.begin;
    if (begin < this.view.from || end > this.view.to) {
      const span = Math.max(this.view.span, 1.2 * (end - begin));
      this.view.show((begin + end - span) / 2, (begin + end + span) / 2);
    }
    this.showTrack(found.track);
  }
  private showTrack(track: Track): void {
    const top = this.layout.topOf(track);
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + this.layout.lane > scrollTop + clientHeight) this.scroller.scrollTop = top - clientHeight / 3;
  }
  private showRank(): void {
    const track = this.model.ranks[this.rank]?.tracks[0];
    if (track) this.showTrack(track);
    this.draw();
  }
  private chooseRank(rank: number): void {
    this.rank = Math.max(0, Math.min(this.model.ranks.length - 1, rank));
    this.found = null;
    const chosen = this.model.ranks[this.rank];
    if (chosen) this.said.textContent = chosen.stage < 0 ? chosen.label : `${chosen.label}, stage ${chosen.stage}`;
    this.showRank();
  }

  private chooseBeside(forward: boolean): void {
    const track = this.found?.track ?? this.layout.tracks.find(({ rank, lane }) => rank === this.rank && lane >= 0);
    if (!track) return;
    const from = this.found?.begin ?? this.view.from - this.model.data.begin;
    const beside = spanBeside(this.model, [track], from, forward, null);
    if (beside) this.choose(beside, true);
  }

  private zoomToFound(): void {
    if (!this.found) return;
    const length = Math.max(400, this.found.end - this.found.begin);
    const begin = this.found.begin + this.model.data.begin;
    this.move(() => this.view.show(begin - length, begin + 2 * length));
  }

  // ---- searching

  private searchFor(text: string): void {
    this.wanted = typesNamed(this.model, text);
    this.hits.textContent = this.wanted === null ? "" : this.hitsText(this.wanted);
    this.tip.hide();
    this.repaint(true);
  }

  private hitsText(wanted: ReadonlySet<number>): string {
    let spans = 0;
    for (const { tracks } of this.model.ranks)
      for (const track of tracks) this.model.visit(track, 0, this.model.length + 1, (_begin, _end, type) => (spans += wanted.has(type) ? 1 : 0));
    return `${spans.toLocaleString("en")} span${spans === 1 ? "" : "s"}`;
  }

  /** In time order over all ranks, from the span that is chosen or from the left edge. */
  private findNext(forward: boolean): void {
    if (!this.wanted || this.wanted.size === 0) return;
    const from = this.found?.begin ?? this.view.from - this.model.data.begin;
    const best = spanBeside(this.model, this.model.ranks.flatMap(({ tracks }) => tracks), from, forward, this.wanted);
    if (best) this.choose(best, true);
    else this.hits.textContent = forward ? "none after this" : "none before this";
  }

  // ---- pointing

  private point(event: PointerEvent | null): void {
    this.pointer = event;
    const x = event ? this.plotX(event.clientX) : -1;
    this.cursor.hidden = x < 0 || x > this.view.width;
    if (!event || this.cursor.hidden) {
      this.tip.hide();
      this.range.hidden = true;
      for (const reading of this.readings) reading.hidden = true;
      return;
    }
    this.cursor.style.left = `${this.gutter + x}px`;
    const time = this.view.time(x);
    this.strips.valuesAt(time).forEach((text, i) => {
      this.readings[i]!.textContent = text;
      this.readings[i]!.hidden = false;
    });
    this.showRange(event, x);
    this.showTip(event);
  }

  private showRange(event: PointerEvent, x: number): void {
    const isSelecting = event.shiftKey && event.buttons === 1;
    if (!isSelecting) {
      this.range.hidden = true;
      return;
    }
    if (this.range.hidden) this.range.dataset.from = String(x);
    const from = Number(this.range.dataset.from);
    this.range.hidden = false;
    this.range.style.left = `${this.gutter + Math.min(from, x)}px`;
    this.range.style.width = `${Math.abs(x - from)}px`;
  }

  private showTip(event: PointerEvent): void {
    const found = event.pointerType === "touch" ? null : this.under(event);
    if (found) this.tip.show(this.model.nameOf(found.type), factsOf(this.model, found), event);
    else this.tip.hide();
  }

  // ---- drawing

  private resize(): void {
    const width = this.target.clientWidth;
    if (width === 0) return; // folded away
    this.gutter = width < 560 ? 64 : 116;
    const shown = Math.min(this.layout.height + 2, width < 560 ? 380 : 520);
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    this.spacer.style.height = `${this.layout.height + 2}px`;
    this.scroller.style.height = `${shown}px`;
    const inner = this.scroller.clientWidth || this.body.clientWidth;
    const sizes: [HTMLCanvasElement, number][] = [[this.axis, axisHeight], [this.rows, shown], [this.curves, this.strips.height]];
    for (const [canvas, height] of sizes) {
      canvas.width = Math.round(inner * ratio);
      canvas.height = Math.max(1, Math.round(height * ratio));
      canvas.style.width = `${inner}px`;
      canvas.style.height = `${height}px`;
    }
    for (const reading of this.readings) reading.style.left = `${this.gutter + 6}px`;
    this.view.resize(inner - this.gutter - 4);
    this.draw();
  }

  private repaint(counts: boolean): void {
    this.palette = new Palette(this.off, this.wanted);
    this.painter.setPalette(this.palette, counts);
    this.draw();
  }

  private drawNow(): void {
    const ratio = this.rows.width / Math.max(1, parseFloat(this.rows.style.width));
    if (!(ratio > 0)) return;
    const state: RowState = {
      gutter: this.gutter, scroll: this.scroller.scrollTop, width: this.rows.width / ratio, height: this.rows.height / ratio,
      rank: this.rank, found: this.found,
    };
    const done = this.artist.draw(this.rows.getContext("2d")!, ratio, this.layout, this.view, this.palette, state);
    drawAxis(this.axis, ratio, this.view, this.palette, this.gutter);
    this.strips.draw(this.curves.getContext("2d")!, ratio, this.view, this.gutter, state.width);
    this.target.dataset.from = String(this.view.from);
    this.target.dataset.to = String(this.view.to);
    if (!done) this.draw();
  }
}

/** The viewer stands in #timeline. True if it is there, and shows the page's curves as well. */
export function addTimeline(): boolean {
  const target = document.getElementById("timeline");
  const { timeline, plots = [] } = pageData();
  if (!target || (!timeline && plots.length === 0)) return false;
  const view = new TimelineView(target, timeline ?? curvesOnly(plots), plots);
  view.draw();
  return true;
}
