// SPDX-License-Identifier: Apache-2.0
// The timeline in numbers, rank by rank: what a screen reader reads, and the CSV button saves.
import { element } from "./elements";
import { classIndex } from "./timeline_classes";
import type { Piece, PieceLane, Rank, TimelineModel } from "./timeline_model";

/** Seconds of a rank; idle is what no span of a device covers. */
interface Sums {
  compute: number;
  communication: number;
  waiting: number;
  busy: number;
}

const none = (): Sums => ({ compute: 0, communication: 0, waiting: 0, busy: 0 });

const firstCommunication = classIndex("all_reduce");
const lastCommunication = classIndex("communication");
const isHostOrPass = (spanClass: number): boolean => spanClass === classIndex("host") || spanClass >= classIndex("forward");

function addTo(sums: Sums, spanClass: number, length: number, wait: number): void {
  if (isHostOrPass(spanClass)) return;
  if (spanClass >= firstCommunication && spanClass <= lastCommunication) {
    sums.communication += length - wait;
    sums.waiting += wait;
  } else {
    sums.compute += length;
  }
}

/** Covered length of intervals. */
function covered(intervals: [number, number][]): number {
  intervals.sort((a, b) => a[0] - b[0]);
  let sum = 0;
  let until = -Infinity;
  for (const [begin, end] of intervals) {
    if (end <= until) continue;
    sum += end - Math.max(begin, until);
    until = end;
  }
  return sum;
}

/** Of one repetition, all lanes. */
function sumsOfPiece(model: TimelineModel, piece: Piece): Sums {
  const sums = none();
  const busy: [number, number][] = [];
  for (const spans of piece.lanes.filter((lane): lane is PieceLane => lane !== undefined)) {
    spans.begin.forEach((begin, i) => {
      const spanClass = model.classOfType(spans.type[i]!);
      addTo(sums, spanClass, spans.length[i]!, spans.wait[i]!);
      if (!isHostOrPass(spanClass)) busy.push([begin, begin + spans.length[i]!]);
    });
  }
  sums.busy = covered(busy);
  return sums;
}

export function sumsOf(model: TimelineModel, rank: Rank, pieces: Map<Piece, Sums>): Sums {
  const total = none();
  const busy: [number, number][] = [];
  for (const track of rank.tracks) {
    if (track.lane < 0) continue;
    model.visitSingles(track, 0, model.length + 1, (begin, end, type, wait) => {
      const spanClass = model.classOfType(type);
      addTo(total, spanClass, end - begin, wait);
      if (!isHostOrPass(spanClass)) busy.push([begin, end]);
    });
  }
  total.busy = covered(busy);
  model.visitInstances(rank.index, 0, model.length + 1, (instance) => {
    for (const piece of model.patternOf(instance).pieces) {
      let sums = pieces.get(piece);
      if (!sums) pieces.set(piece, (sums = sumsOfPiece(model, piece)));
      for (const name of ["compute", "communication", "waiting", "busy"] as const) total[name] += piece.repeat * sums[name];
    }
  });
  return total;
}

/** Filled when it is first opened: a thousand ranks take a moment. */
export function summaryTable(model: TimelineModel): HTMLDetailsElement {
  const heading = ["rank", "stage", "computing (s)", "communicating (s)", "waiting (s)", "idle (s)"];
  const body = element("tbody");
  const table = element("table", {},
    element("caption", {}, "Where the time of every rank went, over the whole timeline"),
    element("thead", {}, element("tr", {}, ...heading.map((text, i) => element("th", { scope: "col", class: i > 1 && "num" }, text)))), body);
  const box = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Where the time of every rank went" }, table);
  const details = element("details", { class: "data" }, element("summary", {}, "Numbers, rank by rank"), box);
  details.addEventListener("toggle", () => {
    if (body.rows.length === 0) body.append(...rowsOf(model));
  });
  return details;
}

function rowsOf(model: TimelineModel): HTMLTableRowElement[] {
  const pieces = new Map<Piece, Sums>();
  return model.ranks.map((rank) => {
    const sums = sumsOf(model, rank, pieces);
    const seconds = [sums.compute, sums.communication, sums.waiting, Math.max(0, model.length - sums.busy)];
    const stands = rank.like.length > 0 ? ` (and ${rank.like.length} like it)` : "";
    return element("tr", {}, element("th", { scope: "row" }, `${rank.rank}${stands}`),
      element("td", {}, rank.stage < 0 ? "–" : String(rank.stage)),
      ...seconds.map((value) => element("td", { class: "num" }, (value / 1e9).toPrecision(4))));
  });
}
