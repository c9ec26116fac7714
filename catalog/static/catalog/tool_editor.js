// The page of a tool: sections as tabs, a form for the runner's settings, tables for the schemas, and a look at what a
// client will see while somebody types. Without this script the page is one long form with JSON in text areas.
// The page loads admin/jsi18n/ before: gettext and interpolate, with the texts of djangojs.po.

import { suggestArguments } from "./cost_argument.js";
import { button, make } from "./page_parts.js";
import { SchemaTable } from "./schema_table.js";
import { SettingsForm } from "./settings_form.js";

const PAUSE = 400; // milliseconds without typing before the server is asked
const root = document.getElementById("tool-editor");
const form = root.closest("form");
const data = JSON.parse(root.dataset.editor);
const field = (name) => form.elements.namedItem(name);

// --- sections ------------------------------------------------------------------------------------------------------

const sections = [...root.querySelectorAll(".tool-section")];
const TAB = /^#tab-([1-9])$/;
const tabs = sections.map((section, index) => {
  section.id = `tool-section-${index + 1}`;
  section.setAttribute("role", "tabpanel");
  section.setAttribute("aria-labelledby", `tool-tab-${index + 1}`);
  const count = make("span", { class: "tool-count", hidden: true });
  const tab = make("button", { type: "button", role: "tab", id: `tool-tab-${index + 1}`, "aria-controls": section.id }, section.dataset.title, count);
  tab.addEventListener("click", () => open(index));
  tab.count = count;
  if (index + 1 < sections.length) {
    const next = interpolate(gettext("Next: %(name)s"), { name: sections[index + 1].dataset.title }, true);
    section.append(make("div", {}, button(next, "arrow_forward", () => { open(index + 1); tabs[index + 1].focus(); })));
  }
  return tab;
});
const list = make("div", { class: "tool-tabs", role: "tablist", "aria-label": gettext("Tool sections") }, ...tabs);
list.addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = (tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length;
  open(next);
  tabs[next].focus();
});

function open(index, named = true) {
  for (const [number, section] of sections.entries()) {
    section.hidden = number !== index;
    tabs[number].setAttribute("aria-selected", String(number === index));
    tabs[number].tabIndex = number === index ? 0 : -1;
  }
  if (!named) return;
  // The address names the tab: it stays after saving and reloading, and another tool begins with its first one.
  const address = location.pathname + location.search;
  history.replaceState(history.state, "", index ? `${address}#tab-${index + 1}` : address);
}

root.classList.add("tool-editor-on");
root.prepend(list);
const refused = sections.findIndex((section) => section.querySelector(".errorlist, .text-red-600 li"));
const named = Number(TAB.exec(location.hash)?.[1] ?? 1) - 1;
open(refused >= 0 ? refused : named < sections.length ? named : 0, false);

// --- what stands on top of the text areas --------------------------------------------------------------------------

const tables = {};
for (const name of ["input_schema", "output_schema"]) tables[name] = new SchemaTable(field(name));
suggestArguments(field("cost_argument"), field("input_schema"));
const settings = new SettingsForm(field("settings"), data);
const runner = field("runner");
settings.use(runner.value);

const fill = button(gettext("Fill in name, description and schemas from the function"), "auto_fix_high", () => fillFrom(chosenFunction(), true));
const filled = make("span", { class: "tool-note", role: "status" });
const fillBar = make("div", { class: "tool-fill" }, fill, filled);
settings.root.append(fillBar);
runner.addEventListener("change", () => { settings.use(runner.value); showFill(); });
settings.onChange = () => {
  showFill();
  if (data.isNew && chosenFunction()) fillFrom(chosenFunction(), false);
};
showFill();

function chosenFunction() {
  const { fill: setting, names } = data.kinds[runner.value] ?? {};
  const name = setting && settings.value?.get(setting);
  return name && names[setting]?.includes(name) ? name : "";
}

function showFill() {
  fillBar.hidden = !chosenFunction();
  filled.textContent = "";
}

// Fields of a new tool as they were at first, or as they were filled in last: these may be filled in again.
const untouched = new Map();
const FILLED = ["name", "title", "description", "input_schema", "output_schema", "read_only", "destructive", "idempotent", "open_world", "timeout",
  "max_argument_bytes", "max_result_bytes", "task_support", "requires_capabilities"];
for (const name of FILLED) untouched.set(name, field(name)?.value);

async function fillFrom(name, always) {
  let row;
  try {
    const answer = await fetch(`${data.function}?${new URLSearchParams({ runner: runner.value, name })}`, { headers: { Accept: "application/json" } });
    if (window.toolhub.isSignedOut(answer) || !answer.ok) return;
    row = await answer.json();
  } catch { return; }
  for (const column of FILLED) {
    const control = field(column);
    if (!control || !(column in row)) continue;
    if (always ? column === "name" && control.value : control.value !== untouched.get(column)) continue;
    const value = row[column];
    if (control.tagName === "SELECT" && (value === null || typeof value === "boolean")) control.value = value === null ? "unknown" : String(value);
    else control.value = value === null ? "" : typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
    untouched.set(column, control.value);
    touched.add(column);
    control.dispatchEvent(new Event("input", { bubbles: true }));
  }
  filled.textContent = gettext("Filled in from the function.");
}

// --- looking -------------------------------------------------------------------------------------------------------

const panel = document.getElementById("tool-look");
const touched = new Set();
// What is still empty on the page of a new tool is no mistake yet.
let everything = !data.isNew || refused >= 0;
let asked = null;
let timer = 0;

function later() {
  clearTimeout(timer);
  timer = setTimeout(look, PAUSE);
}

async function look() {
  asked?.abort();
  asked = new AbortController();
  panel.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(data.look, { method: "POST", body: new FormData(form), signal: asked.signal, headers: { Accept: "application/json" } });
    if (window.toolhub.isSignedOut(answer) || !answer.ok) throw new Error(String(answer.status));
    const found = await answer.json();
    show(found.html);
    place(found.problems);
  } catch (error) {
    if (error.name === "AbortError") return;
    panel.replaceChildren(make("p", { class: "tool-bad", role: "status" }, gettext("The preview could not be updated. Your input is still here.")));
    panel.hidden = false;
  }
  panel.removeAttribute("aria-busy");
}

let shown = "";
function show(html) {
  if (html === shown) return;
  shown = html;
  const opened = [...panel.querySelectorAll("details")].map((one) => one.open);
  // The server escapes every text; scripts in what is parsed here would not run either.
  const parsed = new DOMParser().parseFromString(html, "text/html");
  panel.replaceChildren(...parsed.body.childNodes);
  for (const [index, one] of [...panel.querySelectorAll("details")].entries()) if (index in opened) one.open = opened[index];
  panel.hidden = false;
}

function place(problems) {
  const seen = problems.filter(({ field: name }) => everything || touched.has(name));
  for (const [name, table] of Object.entries(tables)) table.place(seen.filter((one) => one.field === name));
  settings.place(seen.filter((one) => one.field === "settings"));
  for (const box of form.querySelectorAll("[data-live]")) box.remove();
  for (const { field: name, text } of seen) {
    const control = field(name);
    if (!control?.closest || name === "settings" || name in tables) continue;
    const holder = control.closest(".grow.relative") ?? control.parentElement;
    if (!holder.textContent.includes(text)) holder.append(make("div", { class: "tool-problem", "data-live": true }, text));
  }
  for (const [index, section] of sections.entries()) {
    const own = seen.filter(({ field: name }) => { const control = field(name); return control?.closest && section.contains(control); }).length;
    tabs[index].count.textContent = own ? String(own) : "";
    tabs[index].count.hidden = !own;
  }
}

// --- what was typed ------------------------------------------------------------------------------------------------

let unsaved = Boolean(data.unsaved);
form.addEventListener("input", (event) => {
  unsaved = true;
  const name = event.target.name;
  if (name) {
    touched.add(name);
    const holder = event.target.closest(".grow.relative");
    for (const old of holder ? holder.querySelectorAll(".errorlist") : []) old.remove();
  }
  later();
});
form.addEventListener("change", later);
form.addEventListener("submit", () => { unsaved = false; });
window.addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });
look();
