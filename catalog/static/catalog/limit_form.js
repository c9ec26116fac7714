// The fields of a limit, on its own page and among others on the page of a tool, a toolset, a user or a group: only those
// that fit the chosen measure are shown, with words and examples for it. Without this script all of them are.
// The page loads admin/jsi18n/ before: gettext, with the texts of djangojs.po.

import { fresh, make } from "./page_parts.js";

const MEASURES = {
  calls: {
    examples: ["30/m", "100/h", "1000/day", "20000/month"],
    help: gettext("30/m means 30 calls a minute, and 100/2h means 100 calls in 2 hours. Units are s, m, h and d. A quota such as 1000/hour, 1000/day, 1000/week or 1000/month begins anew with the calendar and outlasts restarts."),
  },
  cost: {
    examples: ["5000/month", "500/day", "1000/week"],
    help: gettext("Cost units for each hour, day, week or month, such as 5000/month. Each tool says how many units a call costs."),
  },
  running: {
    examples: ["3", "1", "10"],
    help: gettext("How many calls may run at the same time, such as 3."),
  },
  repeats: {
    examples: ["5/10m", "20/m"],
    help: gettext("5/10m: after 5 calls of a tool with the same arguments within 10 minutes, a client waits until the 10 minutes are over. This stops loops."),
  },
  errors: {
    examples: ["3/10m", "5/h"],
    help: gettext("3/10m: after 3 calls of a tool with the same error one after the other within 10 minutes, a client waits until the 10 minutes are over. This stops loops."),
  },
};
const QUOTA = /^[0-9]{1,12}\/(hour|day|week|month)$/;
const LOOPS = ["repeats", "errors"];
const SHARED = ["everyone_together", "group_together"];
const MEMBERS = ["each_member", "group_together"];
const NAMES = ["measure", "rate", "zone", "method", "scope", "user", "group"];
// What a field had before it was hidden: it comes back with the field.
const kept = new WeakMap();

function put(control, value) {
  control.value = value;
  // The search field of the theme listens to jQuery alone.
  if (control.matches(".admin-autocomplete")) django.jQuery(control).trigger("change.select2");
  else control.dispatchEvent(new Event("change", { bubbles: true }));
}

function show(control, fits) {
  const line = control?.closest(".field-line");
  if (!line) return;
  const shown = fits || line.classList.contains("errors");
  if (line.hidden === !shown) return;
  line.hidden = !shown;
  if (!shown && control.value) {
    kept.set(control, control.value);
    put(control, "");
  } else if (shown && !control.value && kept.has(control)) {
    put(control, kept.get(control));
    kept.delete(control);
  }
}

function suggest(control, list, values) {
  const id = control.getAttribute("list") || fresh("limit-list");
  let found = document.getElementById(id);
  if (!found) {
    found = make("datalist", { id });
    control.after(found);
    control.setAttribute("list", id);
  }
  if (found.dataset.of === list) return;
  found.dataset.of = list;
  found.replaceChildren(...values.map((value) => make("option", { value })));
}

function explain(control, text) {
  const place = control.closest(".field-line");
  let help = place.querySelector("[data-limit-help]") ?? place.querySelector(".leading-relaxed");
  if (!help) return;
  help.dataset.limitHelp = "yes";
  if (help.textContent.trim() !== text) help.textContent = text;
}

function chooseScope(scope, isLoop) {
  for (const option of scope.options) option.disabled = isLoop && SHARED.includes(option.value);
  if (scope.selectedOptions[0]?.disabled) {
    kept.set(scope, scope.value);
    scope.value = scope.value === "group_together" ? "each_member" : "each_user";
  } else if (!isLoop && kept.has(scope)) {
    scope.value = kept.get(scope);
    kept.delete(scope);
  }
}

function fit(measure) {
  const form = measure.form;
  const prefix = measure.name.slice(0, -"measure".length);
  const [, rate, zone, method, scope, user, group] = NAMES.map((name) => form.elements.namedItem(prefix + name));
  const chosen = MEASURES[measure.value];
  if (!chosen || !rate) return;
  rate.placeholder = chosen.examples[0];
  suggest(rate, measure.value, chosen.examples);
  explain(rate, chosen.help);
  const isQuota = QUOTA.test(rate.value.trim());
  show(zone, measure.value === "cost" || (measure.value === "calls" && isQuota));
  show(method, measure.value === "calls" && !isQuota);
  if (zone) suggest(zone, "zones", Intl.supportedValuesOf?.("timeZone") ?? []);
  if (!scope) return;
  chooseScope(scope, LOOPS.includes(measure.value));
  show(user, scope.value === "user");
  show(group, MEMBERS.includes(scope.value));
}

function fitAll(root) {
  for (const measure of root.querySelectorAll("select[data-limit-measure]")) if (!measure.name.includes("__prefix__")) fit(measure);
}

function follow(event) {
  const { name, form } = event.target;
  const own = NAMES.find((one) => name === one || name?.endsWith(`-${one}`));
  const measure = own && form?.elements.namedItem(`${name.slice(0, -own.length)}measure`);
  if (measure?.matches?.("[data-limit-measure]")) fit(measure);
}

for (const kind of ["input", "change"]) document.addEventListener(kind, follow);
document.addEventListener("formset:added", (event) => fitAll(event.target));
fitAll(document);
