// The time windows of a grant or an approval rule as rows: weekdays, start, end and time zone.

import { input, select } from "./page_parts.js";
import { checkboxes, labelled, RuleRows } from "./rule_rows.js";

const WORKDAYS = ["mon", "tue", "wed", "thu", "fri"];
const MEMBERS = ["days", "from", "to", "zone"];

export class WindowRows extends RuleRows {
  // days: [key, name] pairs; zones: all names; zone: that of the person who fills in the form.
  // none: what to say where there are none.
  constructor(textarea, { days, zones, zone }, none) {
    super(textarea, {
      rows: gettext("Time windows"), row: gettext("Time window %(number)s"), add: gettext("Add a time window"),
      none,
      unfit: gettext("The form cannot show these time windows. Edit them as JSON."),
    });
    Object.assign(this, { days, zones, zone });
  }

  fits(one) {
    if (!(one instanceof Map) || ![...one.keys()].every((name) => MEMBERS.includes(name))) return false;
    const days = one.get("days") ?? [];
    const known = Array.isArray(days) && new Set(days).size === days.length && days.every((day) => this.days.some(([key]) => key === day));
    return known && MEMBERS.slice(1).every((name) => typeof (one.get(name) ?? "") === "string");
  }

  empty() { return new Map([["days", WORKDAYS], ["from", "09:00"], ["to", "17:00"], ["zone", this.zone]]); }

  drawRow(row) {
    const set = (name, value) => { row.data.set(name, value); this.write(); };
    const time = (name) => {
      const element = input({ value: row.data.get(name) ?? "", class: "tool-input rule-time", maxlength: 5, placeholder: "09:00" });
      element.addEventListener("input", () => set(name, element.value.trim().replace(/^(\d):/, "0$1:")));
      return element;
    };
    const zone = row.data.get("zone") ?? "";
    const names = this.zones.includes(zone) ? this.zones : [zone, ...this.zones];
    const zones = select(names.map((name) => [name, name]), zone, {});
    zones.addEventListener("change", () => set("zone", zones.value));
    return [
      checkboxes(gettext("Days"), this.days, row.data.get("days") ?? [], (days) => set("days", days)),
      labelled(gettext("From"), time("from")), labelled(gettext("Until"), time("to")), labelled(gettext("Time zone"), zones),
    ];
  }
}
