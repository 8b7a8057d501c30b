// SPDX-License-Identifier: Apache-2.0
// What a report page does besides being read: choose, filter, sort, save, point at, zoom.
import { addChooser } from "./chooser";
import { addCompactTables } from "./compact_tables";
import { addCsvButtons } from "./csv";
import { element } from "./elements";
import { addFilters } from "./filters";
import { addGlossary } from "./glossary";
import { addHeatTips } from "./heat";
import { addCards } from "./job_card";
import { addScrollRegions } from "./regions";
import { addCellHeadings, addSorting } from "./tables";
import { addTicks } from "./ticks";
import { addTimeline } from "./timeline";

/** Three phases that meet, for the tab of the browser; drawn here, for a page asks for no file. */
function addIcon(): void {
  const phases = `<path fill='#0072b2' d='M8 8 1 1h14z'/><path fill='#d55e00' d='M8 8 1 1v14z'/><path fill='#009e73' d='m8 8 7-7v14H1z'/>`;
  const href = `data:image/svg+xml,${encodeURIComponent(`<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'>${phases}</svg>`)}`;
  document.head.append(element("link", { rel: "icon", href }));
}

addIcon();
const chooser = addChooser();
addTimeline();
addCompactTables();
addCsvButtons();
addSorting();
addCellHeadings();
addCards();
addFilters(chooser);
addTicks();
addHeatTips();
addScrollRegions();
addGlossary();
document.documentElement.dataset.ready = "yes"; // tests wait for this
