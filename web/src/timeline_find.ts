// SPDX-License-Identifier: Apache-2.0
// One span: under the pointer, or the next of a kind.
import type { TimelineModel, Track, Visit } from "./timeline_model";
import { bytesText, durationText, secondsText } from "./timeline_text";

export interface Found {
  track: Track;
  begin: number;
  end: number;
  type: number;
  wait: number;
  microbatch: number;
  layer: number;
  bytes: number;
}

/** The shortest span at `time`, else the nearest within `tolerance`. */
export function spanAt(model: TimelineModel, track: Track, time: number, tolerance: number): Found | null {
  let best: Found | null = null;
  let bestDistance = Infinity;
  model.visit(track, time - tolerance, time + tolerance + 1, (begin, end, type, wait, microbatch, layer, bytes) => {
    const distance = time < begin ? begin - time : time >= end ? time - end + 1 : 0;
    const isBetter = distance < bestDistance || (distance === bestDistance && best !== null && end - begin < best.end - best.begin);
    if (distance > tolerance || !isBetter) return;
    best = { track, begin, end, type, wait, microbatch, layer, bytes };
    bestDistance = distance;
  });
  return best;
}

/** The next (or previous) span of the tracks whose begin lies after (before) `time`; of wanted types only, if there are any. */
export function spanBeside(model: TimelineModel, tracks: readonly Track[], time: number, forward: boolean, wanted: ReadonlySet<number> | null): Found | null {
  let best: Found | null = null;
  const consider = (track: Track): Visit => (begin, end, type, wait, microbatch, layer, bytes) => {
    if (wanted && !wanted.has(type)) return;
    if (forward ? begin <= time : begin >= time) return;
    if (best && (forward ? begin >= best.begin : begin <= best.begin)) return;
    best = { track, begin, end, type, wait, microbatch, layer, bytes };
  };
  // In growing stretches: the neighbour is mostly near.
  for (let reach = model.length / 4096; best === null && reach < 16 * model.length; reach *= 8) {
    for (const track of tracks) {
      if (forward) model.visit(track, time, time + reach, consider(track));
      else model.visit(track, time - reach, time + 1, consider(track));
    }
  }
  return best;
}

/** Names with all the words in them, as types; passes too. */
export function typesNamed(model: TimelineModel, text: string): Set<number> | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const fits = (name: string): boolean => words.every((word) => name.toLowerCase().includes(word));
  const found = new Set<number>();
  model.typeNames.forEach((name, type) => fits(name) && found.add(type));
  model.patterns.forEach(({ name }, pattern) => fits(name) && found.add(-1 - pattern));
  return found;
}

/** What is known of a span, name by name. */
export function factsOf(model: TimelineModel, found: Found): [string, string][] {
  const rank = model.ranks[found.track.rank]!;
  const facts: [string, string][] = [["rank", String(rank.rank)]];
  if (rank.like.length > 0) facts.push(["stands for", `${rank.like.length} more ranks`]);
  if (rank.stage >= 0) facts.push(["stage", String(rank.stage)]);
  facts.push(["stream", found.track.name]);
  if (found.microbatch >= 0) facts.push(["microbatch", String(found.microbatch)]);
  if (found.layer >= 0) facts.push(["layer", String(found.layer)]);
  const group = found.type >= 0 ? model.groups[found.type] : undefined;
  if (group) facts.push(["group", group]);
  facts.push(["begin", secondsText(found.begin + model.data.begin)], ["duration", durationText(found.end - found.begin)]);
  if (found.wait > 0) facts.push(["of that waiting", durationText(found.wait)]);
  if (found.bytes > 0) facts.push(["bytes", bytesText(found.bytes)]);
  return facts;
}
