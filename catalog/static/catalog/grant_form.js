// The page of a grant or an approval rule: conditions and time windows as rows, flags as checkboxes, on top of the fields
// that are sent. Of a rule, a sentence says what it means.
// Without this script these are JSON in text areas, and names in a text field.
// The page loads admin/jsi18n/ before: gettext and interpolate, with the texts of djangojs.po.

import { ConditionRows } from "./condition_rows.js";
import { make } from "./page_parts.js";
import { checkboxes } from "./rule_rows.js";
import { WindowRows } from "./window_rows.js";

const WORDS = {
  grant: {
    conditions: gettext("No conditions. The grant applies whatever the arguments are."),
    windows: gettext("No time windows. The grant applies at any time."),
  },
  approvalrule: {
    conditions: gettext("No conditions. The rule asks whatever the arguments are."),
    windows: gettext("No time windows. The rule asks at any time."),
  },
};
const MEANING_MS = 300;
const holder = document.getElementById("grant-form");
const data = JSON.parse(holder.dataset.form);
const form = holder.closest("form");
const field = (name) => form.elements.namedItem(name);

const isRule = data.kind === "approvalrule";

const conditions = new ConditionRows(field("conditions"), data.lists, WORDS[data.kind].conditions);
new WindowRows(field("windows"), data, WORDS[data.kind].windows).start();
if (field("flags")) showFlags(field("flags"));

let asked = null;
let known = null;
// Another effect asks nobody: an answer that came while somebody edits the rows would draw them again.
function offer() {
  conditions.offer(known, isRule || field("effect").value === "deny");
  if (form.dataset.conditions) conditions.read();
  else conditions.start();
  form.dataset.conditions = "ready";
}
async function load() {
  asked?.abort();
  asked = new AbortController();
  const chosen = data.targets.find((name) => field(name)?.value);
  const address = chosen ? `${data.arguments}?${new URLSearchParams({ [chosen]: field(chosen).value })}` : "";
  try {
    known = await conditions.load(address, asked.signal);
  } catch (error) {
    if (error.name === "AbortError") return;
    throw error;
  }
  if (!chosen) conditions.note.textContent = gettext("Choose a tool above to choose from its arguments. Or enter a path, such as /lines/*/amount.");
  offer();
  conditions.root.setAttribute("aria-busy", "false");
}
for (const name of new Set([...data.targets, "toolset"])) {
  // The search field of the theme says so to jQuery alone.
  if (field(name)) django.jQuery(field(name)).on("change", load);
}
// Before the first answer, that answer brings the effect with it.
field("effect")?.addEventListener("change", () => { if (form.dataset.conditions) offer(); });
load();
if (isRule) showMeaning(document.getElementById("rule-meaning"));

// What the form would mean if it were saved now, while somebody fills it in.
function showMeaning(place) {
  let waiting = null;
  let sent = null;
  const tell = async () => {
    sent?.abort();
    sent = new AbortController();
    try {
      const answer = await fetch(data.meaning, { method: "POST", body: new FormData(form), signal: sent.signal, headers: { Accept: "application/json" } });
      if (window.toolhub.isSignedOut(answer) || !answer.ok) return;
      const found = await answer.json();
      place.querySelector("[data-sentence]").textContent = found.sentence || gettext("Fill in the form to read here what the rule means.");
      place.querySelector("[data-warning]").textContent = found.warning;
      place.dataset.told = String(Number(place.dataset.told || 0) + 1);
    } catch {
      // A newer one was sent, or the server is away: the last sentence stays.
    }
  };
  const later = () => { clearTimeout(waiting); waiting = setTimeout(tell, MEANING_MS); };
  for (const kind of ["input", "change"]) form.addEventListener(kind, later);
  for (const name of [...data.targets, "group"]) if (field(name)) django.jQuery(field(name)).on("change", later);
  tell();
}

function showFlags(text) {
  if (/^\s*[[{"]/.test(text.value)) return;
  const chosen = text.value.split(/[\s,]+/).filter(Boolean);
  const names = [...new Set([...data.flags, ...chosen])];
  const write = (found) => {
    text.value = found.join(", ");
    text.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const body = names.length
    ? checkboxes(gettext("Flags that must be on"), names.map((name) => [name, name]), chosen, write)
    : make("p", { class: "tool-note" }, gettext("There are no flags yet."));
  text.before(make("div", { class: "rule-editor", "data-for": "flags" }, body));
  text.hidden = true;
}
