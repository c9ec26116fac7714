// A JSON Schema as a table of its parameters, on top of the text area that holds it and that is sent.

import { from, NotJson, parse, write } from "./json_text.js";
import { area, button, fresh, input, make, select } from "./page_parts.js";
import * as rows from "./schema_rows.js";

const LABELS = {
  string: gettext("text"), integer: gettext("whole number"), number: gettext("number"), boolean: gettext("yes or no"),
  object: gettext("object"), array: gettext("list"), "array:string": gettext("list of text"),
  "array:integer": gettext("list of whole numbers"), "array:number": gettext("list of numbers"),
};
const BOUNDS = {
  minimum: gettext("Minimum"), maximum: gettext("Maximum"),
  minLength: gettext("Minimum length (characters)"), maxLength: gettext("Maximum length (characters)"),
  minItems: gettext("Minimum items"), maxItems: gettext("Maximum items"),
};

export class SchemaTable {
  constructor(textarea) {
    this.textarea = textarea;
    this.rows = [];
    this.writing = false;
    this.message = make("p", { class: "tool-problem", role: "alert", hidden: true });
    this.problems = make("ul", { class: "tool-problems" });
    this.body = make("div", { class: "tool-table-body" });
    this.views = {
      table: button(gettext("Table"), null, () => this.show("table"), { "aria-pressed": "true" }),
      json: button(gettext("As JSON"), null, () => this.show("json"), { "aria-pressed": "false" }),
    };
    const bar = make("div", { class: "tool-views", role: "group", "aria-label": gettext("View") }, this.views.table, this.views.json);
    this.root = make("div", { class: "tool-table-editor", "data-for": textarea.name }, bar, this.message, this.body, this.problems);
    textarea.before(this.root);
    textarea.addEventListener("input", () => { if (!this.writing) this.read(); });
    this.read();
    this.show(this.schema === null ? "json" : "table");
  }

  show(view) {
    if (view === "table" && this.schema === null) view = "json";
    this.view = view;
    this.body.hidden = view !== "table";
    this.textarea.hidden = view === "table";
    for (const [name, one] of Object.entries(this.views)) one.setAttribute("aria-pressed", String(name === view));
  }

  // From the text. `schema` is null where a table cannot say it, undefined where there is none.
  read() {
    const text = this.textarea.value;
    this.say("");
    this.schema = null;
    if (!text.trim()) this.schema = undefined;
    else {
      try {
        const found = parse(text);
        if (rows.fits(found)) this.schema = found;
        else this.say(gettext("This is not an object with properties. Edit it as JSON."));
      } catch (error) {
        if (!(error instanceof NotJson)) throw error;
        this.say(interpolate(gettext("This is not valid JSON (line %(line)s, column %(column)s). Fix it to return to the table."), error, true));
      }
    }
    this.keep = this.schema?.get("required")?.length === 0;
    const properties = this.schema?.get("properties");
    this.rows = [...(properties || [])].map(([name, part]) => ({ id: fresh("row"), written: name, part, open: false }));
    this.draw();
    if (this.schema === null && this.view === "table") this.show("json");
  }

  say(text) {
    this.message.textContent = text;
    this.message.hidden = !text;
  }

  // Into the text: the properties in the order of the rows, and whatever else was changed in `schema`.
  write() {
    const found = this.rows.filter((row) => row.written !== null).map((row) => [row.written, row.part]);
    if (found.length || this.schema.has("properties")) this.schema.set("properties", new Map(found));
    this.put(write(this.schema));
    for (const row of this.rows) row.sync?.();
  }

  put(text) {
    this.writing = true;
    this.textarea.value = text;
    this.textarea.dispatchEvent(new Event("input", { bubbles: true }));
    this.writing = false;
  }

  draw(focus) {
    this.body.replaceChildren();
    if (this.schema === null) return;
    if (this.schema === undefined) {
      this.body.append(
        make("p", { class: "tool-note" }, gettext("No output schema. The result can be free text or any JSON.")),
        button(gettext("Add a result schema"), "add", () => { this.put(write(from({ type: "object", properties: {} }))); this.read(); }),
      );
      return;
    }
    const heads = [gettext("Name"), gettext("Type"), gettext("Required"), gettext("Description")].map((text) => make("th", { scope: "col" }, text));
    const table = make("table", { class: "tool-table", "aria-label": gettext("Parameters") },
      make("thead", {}, make("tr", {}, ...heads, make("th", { scope: "col" }, make("span", { class: "tool-unseen" }, gettext("More"))))));
    for (const row of this.rows) table.append(this.drawRow(row));
    if (this.rows.length) this.body.append(table);
    else this.body.append(make("p", { class: "tool-note" }, gettext("No parameters yet. Clients call this tool without arguments.")));
    this.body.append(this.foot());
    if (focus) this.body.querySelector(focus)?.focus();
  }

  foot() {
    const { schema } = this;
    const strict = make("input", { type: "checkbox", id: fresh("strict"), checked: schema.get("additionalProperties") === false });
    strict.addEventListener("change", () => {
      if (strict.checked) schema.set("additionalProperties", false);
      else schema.delete("additionalProperties");
      this.write();
    });
    const loose = schema.get("additionalProperties");
    const other = rows.rootOthers(schema);
    const kept = gettext("The schema also contains: %(names)s. These are kept. Edit them as JSON.");
    return make("div", { class: "tool-table-foot" },
      button(gettext("Add a parameter"), "add", () => this.add(), { "data-add": true }),
      typeof loose === "object" ? null : make("label", { class: "tool-check" }, strict, gettext("Reject arguments that are not listed here")),
      this.textarea.dataset.optional ? button(gettext("Remove schema"), "delete", () => { this.put(""); this.read(); }) : null,
      other.length ? make("p", { class: "tool-note" }, interpolate(kept, { names: other.join(", ") }, true)) : null);
  }

  add() {
    const row = { id: fresh("row"), written: null, part: from({ type: "string" }), open: false, wanted: false };
    this.rows.push(row);
    this.draw(`[data-row="${row.id}"] [data-column="name"]`);
  }

  remove(row) {
    const index = this.rows.indexOf(row);
    this.rows.splice(index, 1);
    if (row.written !== null) rows.setRequired(this.schema, row.written, false, this.keep);
    this.write();
    const next = this.rows[Math.min(index, this.rows.length - 1)];
    this.draw(next ? `[data-row="${next.id}"] [data-column="name"]` : "[data-add]");
  }

  move(row, by, focus) {
    const index = this.rows.indexOf(row);
    const other = index + by;
    if (other < 0 || other >= this.rows.length) return;
    this.rows.splice(index, 1);
    this.rows.splice(other, 0, row);
    this.write();
    this.draw(`[data-row="${row.id}"] [data-column="${focus}"]`);
  }

  rename(row, name) {
    const taken = this.rows.some((other) => other !== row && other.written === name);
    row.problem = "";
    if (!name) row.problem = gettext("Enter a parameter name. The schema does not change until then.");
    else if (taken) row.problem = gettext("Another parameter has this name. Choose a different one. The schema does not change until then.");
    if (row.problem || name === row.written) return;
    const required = this.schema.get("required");
    if (row.written === null) {
      if (row.wanted) rows.setRequired(this.schema, name, true, this.keep);
    } else if (Array.isArray(required)) {
      this.schema.set("required", required.map((one) => (one === row.written ? name : one)));
    }
    row.written = name;
    this.write();
  }

  drawRow(row) {
    const type = rows.typeOf(row.part);
    const label = (text) => ({ "aria-label": row.written ? `${text}: ${row.written}` : text });
    const problem = make("div", { class: "tool-problem", "data-row-problem": true, role: "alert" }, row.problem || "");

    const name = input({ value: row.written ?? "", "data-column": "name", maxlength: 200, spellcheck: "false", ...label(gettext("Name")) });
    name.addEventListener("input", () => {
      this.rename(row, name.value);
      problem.textContent = row.problem;
      name.setAttribute("aria-invalid", String(Boolean(row.problem)));
    });
    const options = rows.TYPES.map((one) => [one, LABELS[one]]);
    const kind = select(type ? options : [["", gettext("as JSON")], ...options], type, { "data-column": "type", ...label(gettext("Type")) });
    kind.addEventListener("change", () => {
      if (!(row.part instanceof Map)) row.part = new Map();
      if (!type) for (const keyword of ["$ref", "anyOf", "oneOf", "allOf", "items"]) row.part.delete(keyword);
      rows.setType(row.part, kind.value);
      this.write();
      this.redraw(row, "type");
    });
    const required = make("input", { type: "checkbox", "data-column": "required", ...label(gettext("Required")) });
    required.checked = row.written === null ? row.wanted : rows.isRequired(this.schema, row.written);
    required.addEventListener("change", () => {
      row.wanted = required.checked;
      if (row.written === null) return;
      rows.setRequired(this.schema, row.written, required.checked, this.keep);
      this.write();
    });
    const description = area({ rows: 1, "data-column": "description", ...label(gettext("Description")) });
    description.addEventListener("input", () => {
      if (description.value) row.part.set("description", description.value);
      else row.part.delete("description");
      this.write();
    });
    const summary = make("div", { class: "tool-note", "data-summary": true });
    const details = make("tr", { class: "tool-details", hidden: !row.open });
    const more = button(gettext("More"), "tune", () => {
      row.open = !row.open;
      this.redraw(row, "more");
    }, { iconOnly: true, "data-column": "more", "aria-expanded": String(row.open) });
    const act = (text, icon, action, column) => button(row.written ? `${text}: ${row.written}` : text, icon, action, { iconOnly: true, "data-column": column });
    const actions = make("div", { class: "tool-actions" }, more,
      act(gettext("Move up"), "arrow_upward", () => this.move(row, -1, "up"), "up"),
      act(gettext("Move down"), "arrow_downward", () => this.move(row, 1, "down"), "down"),
      act(gettext("Remove"), "delete", () => this.remove(row), "remove"));
    const cell = (text, ...content) => make("td", { "data-label": text }, ...content);
    const main = make("tr", {}, cell(gettext("Name"), name, problem), cell(gettext("Type"), kind), cell(gettext("Required"), required),
      cell(gettext("Description"), description, summary), make("td", {}, actions));
    const body = make("tbody", { "data-row": row.id }, main, details);
    body.addEventListener("keydown", (event) => {
      if (!event.altKey || !["ArrowUp", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      this.move(row, event.key === "ArrowUp" ? -1 : 1, document.activeElement.dataset.column || "name");
    });
    const syncs = [() => {
      summary.textContent = this.summary(row);
      const said = row.part instanceof Map ? row.part.get("description") : undefined;
      description.disabled = !(row.part instanceof Map) || (said !== undefined && typeof said !== "string");
      if (document.activeElement !== description) description.value = typeof said === "string" ? said : "";
    }];
    if (row.open) details.append(make("td", { colspan: 5 }, this.details(row, type, syncs)));
    row.sync = () => { for (const sync of syncs) sync(); };
    row.sync();
    return body;
  }

  redraw(row, focus) {
    this.body.querySelector(`[data-row="${row.id}"]`).replaceWith(this.drawRow(row));
    if (focus) this.body.querySelector(`[data-row="${row.id}"] [data-column="${focus}"]`)?.focus();
  }

  // What a closed row says besides its columns.
  summary(row) {
    const type = rows.typeOf(row.part);
    if (!type) return gettext("This cannot be shown here. Edit it as JSON.");
    const said = [];
    const choices = rows.choices(row.part, type);
    if (choices) said.push(choices.split("\n").join(" | "));
    const given = rows.defaultText(row.part, type);
    if (given) said.push(`${gettext("Default")}: ${given}`);
    const [low, high] = rows.bounds(type).map((keyword) => rows.boundText(row.part, keyword));
    if (low || high) said.push([low, "…", high].filter(Boolean).join(" "));
    if (type === "string" && typeof row.part.get("format") === "string") said.push(row.part.get("format"));
    const others = rows.others(row.part, type);
    if (others.length) said.push(interpolate(gettext("Also contains: %(names)s. Edit these as JSON."), { names: others.join(", ") }, true));
    return said.join(" · ");
  }

  details(row, type, syncs) {
    const box = make("div", { class: "tool-detail-grid" });
    const field = (text, control, get, set, event = "input") => {
      const id = fresh("detail");
      control.id = id;
      const problem = make("div", { class: "tool-problem", role: "alert" });
      const fill = () => {
        const found = get();
        control.disabled = found === null;
        control.title = found === null ? gettext("This cannot be shown here. Edit it as JSON.") : "";
        if (document.activeElement !== control) control.value = found ?? "";
      };
      control.addEventListener(event, () => {
        const wrong = set(control.value);
        problem.textContent = wrong ?? "";
        if (!wrong) this.write();
      });
      syncs.push(fill);
      box.append(make("div", { class: "tool-field" }, make("label", { for: id }, text), control, problem));
    };
    if (type && rows.mayChoose(type)) {
      field(gettext("Choices, one per line"), area({ rows: 3, "data-detail": "choices" }), () => rows.choices(row.part, type), (text) => rows.setChoices(row.part, type, text));
    }
    if (type === "boolean") {
      const options = [["", gettext("not set")], ["true", gettext("yes")], ["false", gettext("no")]];
      field(gettext("Default"), select(options, "", { "data-detail": "default" }), () => rows.defaultText(row.part, type), (text) => rows.setDefault(row.part, type, text), "change");
    } else if (type && rows.mayDefault(type)) {
      field(gettext("Default"), input({ "data-detail": "default" }), () => rows.defaultText(row.part, type), (text) => rows.setDefault(row.part, type, text));
    }
    for (const keyword of type ? rows.bounds(type) : []) {
      const control = input({ inputmode: "decimal", "data-detail": keyword });
      field(BOUNDS[keyword], control, () => rows.boundText(row.part, keyword), (text) => rows.setBound(row.part, keyword, text.trim()));
    }
    if (type === "string") {
      const written = row.part.get("format");
      const formats = typeof written === "string" && !rows.FORMATS.includes(written) ? [...rows.FORMATS, written] : rows.FORMATS;
      const control = select([["", gettext("not set")], ...formats.map((one) => [one, one])], "", { "data-detail": "format" });
      field(gettext("Format"), control, () => (row.part.has("format") && typeof row.part.get("format") !== "string" ? null : row.part.get("format") ?? ""), (text) => {
        if (text) row.part.set("format", text);
        else row.part.delete("format");
      }, "change");
    }
    box.append(this.jsonOf(row, syncs));
    return box;
  }

  jsonOf(row, syncs) {
    const id = fresh("detail");
    const problem = make("div", { class: "tool-problem", role: "alert" });
    const text = area({ id, rows: 5, class: "tool-input tool-code", spellcheck: "false", "data-detail": "json", "data-column": "json" });
    const apply = () => {
      let found;
      try {
        found = parse(text.value);
      } catch (error) {
        if (!(error instanceof NotJson)) throw error;
        problem.textContent = gettext("This is not valid JSON.");
        return;
      }
      problem.textContent = found instanceof Map || typeof found === "boolean" ? "" : gettext("This must be a JSON object.");
      if (problem.textContent) return;
      const before = rows.typeOf(row.part);
      row.part = found;
      this.write();
      if (rows.typeOf(found) === before) return;
      // Other fields now: draw them, and go on typing where the cursor was.
      const { value, selectionStart } = text;
      this.redraw(row, "json");
      const again = document.activeElement;
      again.value = value;
      again.setSelectionRange(selectionStart, selectionStart);
    };
    text.addEventListener("input", apply);
    syncs.push(() => { if (document.activeElement !== text) text.value = write(row.part); });
    return make("div", { class: "tool-field tool-wide" }, make("label", { for: id }, gettext("This parameter as JSON")), text, problem);
  }

  // problems: [{place, text}] from the server.
  place(problems) {
    for (const row of this.rows) {
      const box = this.body.querySelector(`[data-row="${row.id}"] [data-row-problem]`);
      const own = problems.filter(({ place }) => place[0] === "properties" && place[1] === row.written);
      if (box) box.textContent = row.problem || own.map(({ text }) => text).join(" ");
    }
    const names = new Set(this.rows.map((row) => row.written));
    const rest = problems.filter(({ place }) => this.view !== "table" || place[0] !== "properties" || !names.has(place[1]));
    this.problems.replaceChildren(...rest.map(({ text }) => make("li", {}, text)));
  }
}

