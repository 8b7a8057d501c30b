// SPDX-License-Identifier: Apache-2.0
// What a report page does besides being read: choose, filter, sort, save, point at, zoom.
import { addChooser } from "./chooser";
import { addCompactTables } from "./compact_tables";
import { addCsvButtons } from "./csv";
import { addFilters } from "./filters";
import { addHeatTips } from "./heat";
import { addJobCards } from "./job_card";
import { addScrollRegions } from "./regions";
import { addCellHeadings, addSorting } from "./tables";
import { addTimeline } from "./timeline";

const chooser = addChooser();
addTimeline();
addCompactTables();
addCsvButtons();
addSorting();
addCellHeadings();
addJobCards();
addFilters(chooser);
addHeatTips();
addScrollRegions();
document.documentElement.dataset.ready = "yes"; // tests wait for this
