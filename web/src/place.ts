// SPDX-License-Identifier: Apache-2.0
// The part of the address after "#": an anchor, then "?" and the filters. A copied address shows the same view.

export interface Place {
  anchor: string;
  query: URLSearchParams;
}

export function placeOf(hash: string): Place {
  const [anchor = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  let plain = anchor;
  try {
    plain = decodeURIComponent(anchor);
  } catch {
    // not percent-encoded: taken as it stands
  }
  return { anchor: plain, query: new URLSearchParams(query) };
}

export function place(): Place {
  return placeOf(location.hash);
}

/** Changes the address without a step in the history; what is not named stays. */
export function moveTo(change: Partial<Place>): void {
  const next = { ...place(), ...change };
  const query = next.query.toString();
  const hash = next.anchor || query ? `#${next.anchor}${query ? `?${query}` : ""}` : " ";
  history.replaceState(null, "", hash === " " ? location.pathname + location.search : hash);
}
