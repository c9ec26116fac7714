// A list of JSON objects as rows, on top of the text area that holds it and that is sent. The server checks the text.

import { NotJson, parse, write } from "./json_text.js";
import { button, fresh, make } from "./page_parts.js";

export class RuleRows {
  // words: {rows, row, add, none, unfit} of this kind of rows; `row` has the place %(number)s.
  constructor(textarea, words) {
    this.textarea = textarea;
    this.words = words;
    this.rows = [];
    this.writing = false;
    this.message = make("p", { class: "tool-problem", role: "alert", hidden: true });
    this.body = make("div", { class: "rule-rows" });
    this.views = {
      rows: button(gettext("Form"), null, () => this.show("rows"), { "aria-pressed": "true" }),
      json: button(gettext("As JSON"), null, () => this.show("json"), { "aria-pressed": "false" }),
    };
    const view = interpolate(gettext("View of %(name)s"), { name: words.rows }, true);
    const bar = make("div", { class: "tool-views", role: "group", "aria-label": view }, this.views.rows, this.views.json);
    this.root = make("div", { class: "rule-editor", "data-for": textarea.name }, bar, this.message, this.body);
    textarea.before(this.root);
    textarea.addEventListener("input", () => { if (!this.writing) this.read(); });
  }

  start() {
    this.read();
    this.show(this.isFit ? "rows" : "json");
  }

  show(view) {
    if (view === "rows" && !this.isFit) view = "json";
    this.view = view;
    this.body.hidden = view !== "rows";
    this.textarea.hidden = view === "rows";
    for (const [name, one] of Object.entries(this.views)) one.setAttribute("aria-pressed", String(name === view));
  }

  read() {
    this.isFit = false;
    let text = "";
    try {
      const found = parse(this.textarea.value.trim() || "[]");
      this.isFit = Array.isArray(found) && found.every((one) => this.fits(one));
      if (this.isFit) this.rows = found.map((data) => ({ id: fresh("rule"), data }));
      else text = this.words.unfit;
    } catch (error) {
      if (!(error instanceof NotJson)) throw error;
      text = interpolate(gettext("This is not valid JSON (line %(line)s, column %(column)s). Fix it to return to the form."), error, true);
    }
    this.message.textContent = text;
    this.message.hidden = !text;
    if (this.isFit) this.draw();
    else if (this.view === "rows") this.show("json");
  }

  write() {
    this.writing = true;
    this.textarea.value = write(this.rows.map((row) => row.data));
    this.textarea.dispatchEvent(new Event("input", { bubbles: true }));
    this.writing = false;
  }

  // `focus`: what of the new elements gets the focus.
  draw(focus) {
    const add = button(this.words.add, "add", () => this.add(), { "data-add": true });
    const none = this.rows.length ? null : make("p", { class: "tool-note" }, this.words.none);
    this.body.replaceChildren(...this.rows.map((row, index) => this.frame(row, index)), ...(none ? [none] : []), add);
    if (focus) this.body.querySelector(focus)?.focus();
  }

  frame(row, index) {
    const name = interpolate(this.words.row, { number: index + 1 }, true);
    const remove = button(interpolate(gettext("Remove %(name)s"), { name }, true), "delete", () => this.remove(row), { iconOnly: true });
    const head = make("div", { class: "rule-head", "aria-hidden": "true" }, name);
    return make("div", { class: "rule-row", role: "group", "aria-label": name, "data-row": row.id }, head, ...this.drawRow(row), remove);
  }

  add() {
    const row = { id: fresh("rule"), data: this.empty() };
    this.rows.push(row);
    this.write();
    this.draw(`[data-row="${row.id}"] :is(input, select)`);
  }

  remove(row) {
    const index = this.rows.indexOf(row);
    this.rows.splice(index, 1);
    this.write();
    const next = this.rows[Math.min(index, this.rows.length - 1)];
    this.draw(next ? `[data-row="${next.id}"] :is(input, select)` : "[data-add]");
  }
}

// A control with its label above.
export function labelled(label, control, attributes = {}) {
  control.id ||= fresh("rule");
  return make("div", { class: "rule-field", ...attributes }, make("label", { for: control.id }, label), control);
}

// Checkboxes with a name for all of them. options: [value, label] pairs; `change` gets the chosen values in their order.
export function checkboxes(name, options, chosen, change) {
  const boxes = options.map(([value, label]) => {
    const box = make("input", { type: "checkbox", checked: chosen.includes(value) });
    box.addEventListener("change", () => change(options.map(([one]) => one).filter((_, index) => boxes[index].box.checked)));
    return { box, element: make("label", { class: "tool-check" }, box, label) };
  });
  return make("div", { class: "rule-field" }, make("span", { class: "rule-label", "aria-hidden": "true" }, name),
    make("div", { class: "rule-choices", role: "group", "aria-label": name }, ...boxes.map((one) => one.element)));
}
