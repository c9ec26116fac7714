// The settings of a runner as a form, on top of the text area that holds them as JSON and that is sent.
// The server says which fields there are (catalog/admin/editor/runner_forms.py) and what is wrong with what was entered.

import { Digits, digits, equal, from, NotJson, parse, write } from "./json_text.js";
import { area, button, fresh, input, make, select } from "./page_parts.js";
import { openPopup } from "./popup.js";

// Whether the control of a field can show a value without losing any of it.
function fits(field, value) {
  switch (field.kind) {
    case "text": return typeof value === "string" && (field.long || !/[\r\n]/.test(value));
    case "number": return value instanceof Digits;
    case "switch": return typeof value === "boolean";
    case "choice": return field.options.some((option) => equal(from(option), value));
    case "fixed": return equal(from(field.value), value);
    case "list": return Array.isArray(value);
    case "map": return value instanceof Map;
    case "group": return value instanceof Map && [...value.keys()].every((name) => field.fields.some((one) => one.name === name));
    case "secret": return value instanceof Map && value.has("secret") && [...value.keys()].every((name) => field.fields.some((one) => one.name === name));
    case "either": return field.variants.some((variant) => fits(variant, value));
    default: return true;
  }
}

function empty(field) {
  if (field.default !== undefined && field.default !== null) return from(field.default);
  switch (field.kind) {
    case "number": return new Digits(String(field.least ?? 0));
    case "switch": return false;
    case "choice": return from(field.options[0]);
    case "fixed": return from(field.value);
    case "list": return [];
    case "map": return new Map();
    case "group": return new Map(field.fields.filter((one) => one.required).map((one) => [one.name, empty(one)]));
    case "secret": return new Map([["secret", ""]]);
    case "either": return empty(field.variants[0]);
    default: return "";
  }
}

export class SettingsForm {
  // kinds: {kind: {name, about, fields, main, names, fill}}
  // newSecret: the address of the page that adds a secret, "" for those who may not.
  constructor(textarea, { kinds, secrets, newSecret }) {
    this.newSecret = newSecret;
    this.textarea = textarea;
    this.kinds = kinds;
    this.secrets = secrets;
    this.kept = {};
    this.writing = false;
    this.message = make("p", { class: "tool-problem", role: "alert", hidden: true });
    this.about = make("p", { class: "tool-note" });
    this.body = make("div", { class: "tool-settings" });
    this.problems = make("ul", { class: "tool-problems" });
    this.views = {
      form: button(gettext("Form"), null, () => this.show("form"), { "aria-pressed": "true" }),
      json: button(gettext("As JSON"), null, () => this.show("json"), { "aria-pressed": "false" }),
    };
    const bar = make("div", { class: "tool-views", role: "group", "aria-label": gettext("View") }, this.views.form, this.views.json);
    this.root = make("div", { class: "tool-settings-editor", "data-for": textarea.name }, bar, this.about, this.message, this.body, this.problems);
    textarea.before(this.root);
    textarea.addEventListener("input", () => { if (!this.writing) this.draw(); });
  }

  // Another kind of runner: what was entered for the one before comes back with it.
  use(kind) {
    if (this.kind !== undefined && this.kind !== kind) {
      this.kept[this.kind] = this.textarea.value;
      this.put(this.kept[kind] ?? "{}");
    }
    this.kind = kind;
    this.draw();
    this.show(this.value ? "form" : "json");
  }

  show(view) {
    if (view === "form" && !this.value) view = "json";
    this.view = view;
    this.body.hidden = view !== "form";
    this.textarea.hidden = view === "form";
    for (const [name, one] of Object.entries(this.views)) one.setAttribute("aria-pressed", String(name === view));
  }

  draw() {
    const described = this.kinds[this.kind];
    this.value = null;
    this.body.replaceChildren();
    this.about.textContent = described ? described.about : "";
    try {
      const found = parse(this.textarea.value.trim() || "{}");
      if (found instanceof Map && described) this.value = found;
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
    }
    this.message.textContent = this.value || !described ? "" : gettext("This is not a JSON object. Fix it to return to the form.");
    this.message.hidden = !this.message.textContent;
    if (!this.value) { if (this.view === "form") this.show("json"); return; }
    const changed = (value) => { this.value = value; this.put(write(value)); this.onChange?.(value); };
    const main = new Set(described.main);
    const first = (field) => main.has(field.name) || field.required || this.value.has(field.name);
    const group = this.group(described.fields, this.value, changed, described.names);
    const [shown, folded] = [described.fields.filter(first), described.fields.filter((field) => !first(field))];
    this.body.append(...shown.map((field) => group.get(field.name)));
    if (folded.length) {
      const summary = make("summary", {}, interpolate(gettext("More settings (%(count)s)"), { count: folded.length }, true));
      this.body.append(make("details", { class: "tool-more" }, summary, ...folded.map((field) => group.get(field.name))));
    }
  }

  put(text) {
    this.writing = true;
    this.textarea.value = text;
    this.textarea.dispatchEvent(new Event("input", { bubbles: true }));
    this.writing = false;
  }

  // name -> element of every field of a group; `changed` gets the whole new value.
  group(fields, value, changed, names = {}) {
    let current = value;
    const made = new Map();
    for (const field of fields) {
      const set = (part) => {
        current = new Map(current);
        if (part === undefined || (field.default !== undefined && equal(part, from(field.default)))) current.delete(field.name);
        else current.set(field.name, part);
        changed(current);
      };
      const given = current.has(field.name) ? current.get(field.name) : field.default === undefined ? undefined : from(field.default);
      made.set(field.name, this.labelled(field, field.name, this.control(field, given, set, names[field.name])));
    }
    return made;
  }

  labelled(field, step, { element, id, wide }) {
    const problem = make("div", { class: "tool-problem", role: "alert", "data-problem": true });
    const mark = field.required ? make("abbr", { title: gettext("Required") }, "*") : null;
    const label = id ? make("label", { for: id }, field.label, " ", mark) : make("span", { class: "tool-label" }, field.label, " ", mark);
    const help = field.help ? make("p", { class: "tool-note" }, field.help) : null;
    const content = wide ? make("div", { role: "group", "aria-label": field.label }, element) : element;
    return make("div", { class: "tool-field", "data-step": step }, label, content, help, problem);
  }

  // {element, id of what the label is for, wide}. `set` gets the value, undefined to take it away.
  control(field, value, set, names) {
    if (value !== undefined && !fits(field, value)) return this.json(value, set);
    switch (field.kind) {
      case "text": return names ? this.chosen(value, set, names) : this.text(field, value, set);
      case "number": return this.number(field, value, set);
      case "switch": return this.switch(value, set);
      case "choice": return this.choice(field, value, set);
      case "list": return this.list(field, value, set);
      case "map": return this.map(field, value, set);
      case "group": return this.inner(field.fields, value, set);
      case "secret": return this.inner(field.fields, value, set, { secret: this.secrets });
      case "either": return this.either(field, value, set);
      case "fixed": return { element: make("span", { class: "tool-note" }, field.value === null ? gettext("not set") : String(field.value)) };
      default: return this.json(value, set);
    }
  }

  text(field, value, set) {
    const id = fresh("setting");
    const element = field.long ? area({ id, rows: 5, class: "tool-input tool-code" }) : input({ id, spellcheck: "false" });
    element.value = value ?? "";
    element.addEventListener("input", () => set(element.value || field.default !== undefined || !field.required ? element.value : undefined));
    return { element, id };
  }

  chosen(value, set, names) {
    const id = fresh("setting");
    const options = [["", names.length ? gettext("Choose…") : gettext("No choices available yet.")], ...names.map((name) => [name, name])];
    if (value && !names.includes(value)) options.push([value, value]);
    const element = select(options, value ?? "", { id });
    element.addEventListener("change", () => set(element.value || undefined));
    if (names !== this.secrets || !this.newSecret) return { element, id };
    element.dataset.secrets = "";
    return { element: make("div", { class: "tool-secret" }, element, this.adder(element)), id };
  }

  // The button that adds a secret in a window of its own and chooses it here. The form stays as it is.
  adder(element) {
    const done = (name) => {
      if (!this.secrets.includes(name)) this.secrets.push(name);
      for (const one of this.body.querySelectorAll("[data-secrets]")) {
        if (![...one.options].some((option) => option.value === name)) one.append(make("option", { value: name }, name));
        one.options[0].textContent = gettext("Choose…");
      }
      if (!element.isConnected) return; // drawn again meanwhile: what it would set is out of date
      element.value = name;
      element.dispatchEvent(new Event("change", { bubbles: true }));
      element.focus();
    };
    return button(gettext("New secret"), "add", () => openPopup(this.newSecret, done), { "aria-haspopup": "dialog" });
  }

  number(field, value, set) {
    const id = fresh("setting");
    const element = input({ id, inputmode: field.whole ? "numeric" : "decimal", value: value ? value.text : "" });
    element.addEventListener("input", () => {
      const text = element.value.trim();
      set(text ? digits(text) ?? text : undefined);
    });
    return { element, id };
  }

  switch(value, set) {
    const id = fresh("setting");
    const element = make("input", { type: "checkbox", id, class: "tool-checkbox" });
    element.checked = value === true;
    element.addEventListener("change", () => set(element.checked));
    return { element, id };
  }

  choice(field, value, set) {
    const id = fresh("setting");
    const options = field.options.map((option, index) => [String(index), String(option)]);
    const index = field.options.findIndex((option) => value !== undefined && equal(from(option), value));
    if (index < 0) options.unshift(["", gettext("Choose…")]);
    const element = select(options, index < 0 ? "" : String(index), { id });
    element.addEventListener("change", () => set(element.value ? from(field.options[Number(element.value)]) : undefined));
    return { element, id };
  }

  json(value, set) {
    const id = fresh("setting");
    const problem = make("div", { class: "tool-problem", role: "alert" });
    const text = area({ id, rows: 4, class: "tool-input tool-code", spellcheck: "false" });
    text.value = value === undefined ? "" : write(value);
    text.addEventListener("input", () => {
      problem.textContent = "";
      try {
        set(text.value.trim() ? parse(text.value) : undefined);
      } catch (error) {
        if (!(error instanceof NotJson)) throw error;
        problem.textContent = gettext("This is not valid JSON.");
      }
    });
    return { element: make("div", {}, text, problem), id };
  }

  inner(fields, value, set, names) {
    const made = this.group(fields, value ?? new Map(), set, names);
    return { element: make("div", { class: "tool-group" }, ...made.values()), wide: true };
  }

  list(field, value, set) {
    const items = [...(value ?? [])];
    const element = make("div", { class: "tool-group" });
    const save = () => set([...items]);
    const act = (text, icon, action) => button(text, icon, () => { action(); save(); draw(); }, { iconOnly: true });
    const draw = (focus) => {
      element.replaceChildren(...items.map((item, index) => {
        const { element: one } = this.control(field.item, item, (next) => { items[index] = next ?? empty(field.item); save(); });
        const problem = make("div", { class: "tool-problem", role: "alert", "data-problem": true });
        const swap = (by) => { if (items[index + by] !== undefined) [items[index], items[index + by]] = [items[index + by], items[index]]; };
        return make("div", { class: "tool-item", "data-step": index }, make("div", { class: "tool-grow" }, one, problem), make("div", { class: "tool-actions" },
          act(gettext("Move up"), "arrow_upward", () => swap(-1)), act(gettext("Move down"), "arrow_downward", () => swap(1)),
          act(gettext("Remove"), "delete", () => items.splice(index, 1))));
      }), button(gettext("Add"), "add", () => { items.push(empty(field.item)); save(); draw(true); }));
      if (focus) element.querySelector(":scope > .tool-item:nth-last-child(2) :is(input, select, textarea)")?.focus();
    };
    draw();
    return { element, wide: true };
  }

  map(field, value, set) {
    const entries = [...(value ?? [])];
    const element = make("div", { class: "tool-group" });
    const save = () => set(new Map(entries.filter(([name], index) => name && entries.findIndex(([other]) => other === name) === index)));
    const draw = (focus) => {
      element.replaceChildren(...entries.map((entry, index) => {
        const problem = make("div", { class: "tool-problem", role: "alert", "data-problem": true });
        const name = input({ value: entry[0], spellcheck: "false", "aria-label": gettext("Name"), placeholder: gettext("Name") });
        const row = make("div", { class: "tool-item", "data-step": entry[0] });
        name.addEventListener("input", () => {
          entry[0] = name.value;
          row.dataset.step = name.value;
          const twice = entries.some((other) => other !== entry && other[0] === name.value);
          problem.textContent = twice ? gettext("This name is used twice. Change it to add this entry to the settings.") : "";
          save();
        });
        const { element: one } = this.control(field.item, entry[1], (next) => { entry[1] = next ?? empty(field.item); save(); });
        for (const part of one.matches("input, select, textarea") ? [one] : []) { part.setAttribute("aria-label", gettext("Value")); part.setAttribute("placeholder", gettext("Value")); }
        row.append(make("div", { class: "tool-pair" }, name, make("div", {}, one), problem), make("div", { class: "tool-actions" },
          button(gettext("Remove"), "delete", () => { entries.splice(index, 1); save(); draw(); }, { iconOnly: true })));
        return row;
      }), button(gettext("Add"), "add", () => { entries.push(["", empty(field.item)]); draw(true); }));
      if (focus) element.querySelector(":scope > .tool-item:nth-last-child(2) input")?.focus();
    };
    draw();
    return { element, wide: true };
  }

  either(field, value, set) {
    const { variants } = field;
    let index = value === undefined ? 0 : Math.max(0, variants.findIndex((variant) => fits(variant, value)));
    const names = {
      text: gettext("text"), number: gettext("number"), switch: gettext("yes or no"), secret: gettext("a secret"),
      map: gettext("names and values"), list: gettext("list"),
    };
    const label = (variant) => {
      if (variant.kind === "fixed") return variant.value === null ? gettext("not set") : String(variant.value);
      if (variant.kind === "group") return variant.fields.map((one) => one.label).join(", ");
      return names[variant.kind] ?? gettext("JSON");
    };
    const kind = select(variants.map((variant, number) => [String(number), label(variant)]), String(index), { "aria-label": gettext("Type") });
    const place = make("div", { class: "tool-grow" });
    const draw = (current) => {
      const variant = variants[index];
      const { element } = this.control(variant, current, set);
      if (element.matches("input, textarea")) element.setAttribute("aria-label", gettext("Value"));
      place.replaceChildren(...(variant.kind === "fixed" ? [] : [element]));
    };
    kind.addEventListener("change", () => {
      index = Number(kind.value);
      const next = empty(variants[index]);
      set(next);
      draw(next);
    });
    draw(value);
    return { element: make("div", { class: "tool-either" }, kind, place), wide: true };
  }

  // problems: [{place, text}] from the server; each goes to the innermost field that its place leads to.
  place(problems) {
    for (const box of this.body.querySelectorAll("[data-problem]")) box.textContent = "";
    const rest = [];
    const parent = (one) => one.parentElement.closest("[data-step]") ?? this.body;
    for (const { place, text } of problems) {
      let here = this.body;
      for (const step of place) {
        here = [...here.querySelectorAll("[data-step]")].find((one) => one.dataset.step === String(step) && parent(one) === here) ?? here;
      }
      const box = this.view === "form" && here !== this.body
        ? [...here.querySelectorAll("[data-problem]")].find((one) => one.closest("[data-step]") === here)
        : undefined;
      if (!box) { rest.push(place.length ? `${place.join(" › ")}: ${text}` : text); continue; }
      box.textContent = `${box.textContent} ${text}`.trim();
      box.closest("details")?.setAttribute("open", "");
    }
    this.problems.replaceChildren(...rest.map((text) => make("li", {}, text)));
  }
}
