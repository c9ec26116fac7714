// The conditions of a grant or an approval rule as rows: argument, operator and operand, as the arguments of the chosen item have them.

import { Digits, digits, NotJson, parse, write } from "./json_text.js";
import { area, fresh, input, make, select } from "./page_parts.js";
import { checkboxes, labelled, RuleRows } from "./rule_rows.js";

const OPERATORS = {
  equals: gettext("is"), one_of: gettext("is one of"), not_one_of: gettext("is none of"), range: gettext("is in the range"),
  prefix: gettext("begins with"), pattern: gettext("matches the pattern"), length: gettext("has the length"),
  belongs_to: gettext("is in the list"), fixed: gettext("is always"), only: gettext("are only"),
};
const OF_KINDS = {
  string: ["equals", "one_of", "not_one_of", "prefix", "pattern", "length", "belongs_to"],
  integer: ["equals", "one_of", "not_one_of", "range", "belongs_to"],
  number: ["equals", "one_of", "not_one_of", "range", "belongs_to"],
  boolean: ["equals"], null: ["equals"], array: ["equals", "length"], object: ["equals"],
};
const OPERANDS = {
  equals: ["value"], fixed: ["value"], one_of: ["values"], not_one_of: ["values"], pattern: ["pattern"], prefix: ["prefix"],
  belongs_to: ["list"], range: ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"], length: ["minimum", "maximum"],
  only: ["names"],
};
const ALL = "";  // the path of what is about all arguments together
const isText = (value) => typeof value === "string" && !/[\r\n]/.test(value);
const isPlain = (value) => isText(value) || typeof value === "boolean" || value === null || value instanceof Digits;

// Whether the controls of a row can show a condition without losing any of it.
function fits(condition) {
  if (!(condition instanceof Map) || !isText(condition.get("path")) || !Object.hasOwn(OPERATORS, condition.get("op"))) return false;
  const operator = condition.get("op");
  const known = ["path", "op", "optional", ...OPERANDS[operator]];
  if (![...condition.keys()].every((name) => known.includes(name))) return false;
  if (condition.has("optional") && typeof condition.get("optional") !== "boolean") return false;
  const bounded = operator === "range" || operator === "length";
  return OPERANDS[operator].every((name) => {
    if (!condition.has(name)) return true;
    const value = condition.get(name);
    if (bounded) return value instanceof Digits || typeof value === "string";
    if (name === "values") return Array.isArray(value) && value.every((one) => isPlain(one) && one !== "");
    if (name === "names") return Array.isArray(value) && value.every((one) => isText(one) && one !== "");
    return name === "value" || isText(value);
  });
}

// What somebody wrote, as a value of one of these types; of any type when there are none.
function read(text, kinds) {
  if (kinds.length === 1 && kinds[0] === "string") return text;
  const trimmed = text.trim();
  let value = text;
  try { value = parse(trimmed); } catch (error) { if (!(error instanceof NotJson)) throw error; }
  return !kinds.length || kinds.some((kind) => isOf(value, kind)) ? value : text;
}

function isOf(value, kind) {
  switch (kind) {
    case "integer": case "number": return value instanceof Digits;
    case "array": return Array.isArray(value);
    case "object": return value instanceof Map;
    case "null": return value === null;
    default: return typeof value === kind;
  }
}

// A text that would be read as something else is written in quotes.
const shown = (value, kinds) => (typeof value === "string" && read(value, kinds) === value ? value : write(value));

// "lines[].amount" as /lines/*/amount, which is also accepted.
function pointer(text) {
  if (!text || text.startsWith("/")) return text;
  const steps = text.replaceAll("[]", ".*").split(".");
  return steps.map((step) => `/${step.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

export class ConditionRows extends RuleRows {
  // none: what to say where there are none.
  constructor(textarea, lists, none) {
    super(textarea, {
      rows: gettext("Conditions"), row: gettext("Condition %(number)s"), add: gettext("Add a condition"),
      none,
      unfit: gettext("The form cannot show these conditions. Edit them as JSON."),
    });
    this.lists = lists;
    this.note = make("p", { class: "tool-note", role: "status" });
    this.root.prepend(this.note);
    this.offer(null, false);
  }

  // The arguments at this address, for `offer`; null without an address, and where they could not be loaded, which the
  // note says. Raises AbortError. The rows are busy until `offer`.
  async load(address, signal) {
    this.note.textContent = "";
    this.root.setAttribute("aria-busy", "true");
    if (!address) return null;
    let found = null;
    try {
      const answer = await fetch(address, { signal, headers: { Accept: "application/json" } });
      if (window.toolhub.isSignedOut(answer) || !answer.ok) throw new Error(String(answer.status));
      found = parse(await answer.text());
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.note.textContent = gettext("The arguments could not be loaded. Enter their paths, such as /region.");
    }
    if (found && !found.get("arguments").length) this.note.textContent = gettext("No condition is possible here: there are no arguments.");
    return found;
  }

  fits(condition) { return fits(condition); }

  // The arguments of the chosen item; not all are known of a long schema. Only a grant that allows fixes a value.
  offer(found, fixesNothing) {
    this.known = new Map((found?.get("arguments") ?? []).map((one) => [one.get("path"), one]));
    this.isComplete = this.known.size > 0 && found.get("is_complete");
    this.fixesNothing = fixesNothing;
  }

  empty() {
    const path = this.isComplete ? this.known.keys().next().value : "";
    return new Map([["path", path], ["op", this.operators(path)[0]]]);
  }

  kinds(path) { return this.known.get(path)?.get("kinds") ?? []; }

  operators(path) {
    if (path === ALL && this.isComplete) return ["only"];
    const kinds = this.kinds(path);
    const fitting = kinds.length ? new Set([...kinds.flatMap((kind) => OF_KINDS[kind] ?? []), "fixed"]) : new Set(Object.keys(OPERATORS));
    if (path !== ALL || this.fixesNothing) fitting.delete("only");
    if (this.fixesNothing) fitting.delete("fixed");
    return Object.keys(OPERATORS).filter((name) => fitting.has(name));
  }

  drawRow(row) {
    row.rest = make("div", { class: "rule-rest" });
    this.drawRest(row);
    row.field = this.argument(row);
    return [labelled(gettext("Argument"), row.field), row.rest];
  }

  // The names of the arguments that are in no other one.
  names() {
    const found = [...this.known.keys()].filter((path) => path.lastIndexOf("/") === 0);
    return found.map((path) => path.slice(1).replaceAll("~1", "/").replaceAll("~0", "~"));
  }

  // What depends on the argument. Its own control stays: somebody may be typing the name of the next one.
  drawRest(row) {
    const { data } = row;
    const operators = this.operators(data.get("path"));
    if (!operators.includes(data.get("op"))) operators.push(data.get("op"));
    const operator = select(operators.map((name) => [name, OPERATORS[name]]), data.get("op"), {});
    operator.addEventListener("change", () => {
      const path = operator.value === "only" ? ALL : row.data.get("path");
      if (path !== row.data.get("path")) row.field.value = path;
      this.change(row, path, operator.value);
      this.drawOperand(row);
    });
    row.operand = make("div", { class: "rule-rest" });
    this.drawOperand(row);
    row.rest.replaceChildren(labelled(gettext("Operator"), operator), row.operand);
  }

  drawOperand(row) {
    const found = this.operand(row, this.kinds(row.data.get("path")));
    if (!["fixed", "only"].includes(row.data.get("op"))) {
      const optional = make("input", { type: "checkbox", checked: row.data.get("optional") === true });
      optional.addEventListener("change", () => this.set(row, "optional", optional.checked || undefined));
      found.push(make("label", { class: "tool-check rule-optional" }, optional, gettext("or is left out")));
    }
    row.operand.replaceChildren(...found);
  }

  argument(row) {
    const path = row.data.get("path");
    if (this.isComplete) {
      const options = [...this.known].map(([value, one]) => [value, one.get("title") ? `${one.get("name")} (${one.get("title")})` : one.get("name")]);
      if (!this.fixesNothing || path === ALL) options.push([ALL, gettext("All arguments")]);
      if (path !== ALL && !this.known.has(path)) options.unshift([path, path]);
      const element = select(options, path, {});
      element.addEventListener("change", () => { this.change(row, element.value, row.data.get("op")); this.drawRest(row); });
      return element;
    }
    const list = make("datalist", { id: fresh("arguments") }, ...[...this.known.keys()].map((value) => make("option", { value })));
    this.root.append(list);
    const element = input({ value: path, list: list.id, spellcheck: "false", placeholder: "/region" });
    element.addEventListener("input", () => {
      const written = pointer(element.value.trim());
      if (row.data.get("op") !== "only" || written === ALL) this.set(row, "path", written);
      else { this.change(row, written, "only"); this.drawRest(row); }
    });
    return element;
  }

  // Another argument or operator: what still fits is kept.
  change(row, path, operator) {
    const before = row.data;
    const fitting = this.operators(path);
    const next = path !== before.get("path") && !fitting.includes(operator) ? fitting[0] : operator;
    row.data = new Map([["path", path], ["op", next]]);
    const carried = path === before.get("path") || !this.known.get(path)?.has("choices");
    for (const name of OPERANDS[next]) if (carried && before.has(name)) row.data.set(name, before.get(name));
    if (next === "only" && !before.has("names")) row.data.set("names", this.names());
    if (carried && next.endsWith("one_of") && isPlain(before.get("value"))) row.data.set("values", [before.get("value")]);
    if (before.get("optional") && !["fixed", "only"].includes(next)) row.data.set("optional", true);
    this.write();
  }

  set(row, name, value) {
    const optional = row.data.get("optional");
    if (value === undefined) row.data.delete(name);
    else row.data.set(name, value);
    if (optional && name !== "optional") { row.data.delete("optional"); row.data.set("optional", optional); }
    this.write();
  }

  operand(row, kinds) {
    const operator = row.data.get("op");
    switch (operator) {
      case "equals": case "fixed": return [this.value(row, kinds)];
      case "one_of": case "not_one_of": return [this.values(row, kinds)];
      case "belongs_to": return [this.list(row)];
      case "only": return [this.onlyNames(row)];
      case "range": return [
        this.bound(row, gettext("Lower bound"), [["minimum", gettext("at least")], ["exclusiveMinimum", gettext("more than")]]),
        this.bound(row, gettext("Upper bound"), [["maximum", gettext("at most")], ["exclusiveMaximum", gettext("less than")]]),
      ];
      case "length": return [
        labelled(gettext("at least"), this.number(row, "minimum", "numeric")), labelled(gettext("at most"), this.number(row, "maximum", "numeric")),
      ];
    }
    const element = input({ value: row.data.get(operator) ?? "", spellcheck: "false" });
    element.addEventListener("input", () => this.set(row, operator, element.value || undefined));
    return [labelled(operator === "pattern" ? gettext("Pattern") : gettext("Beginning"), element)];
  }

  value(row, kinds) {
    const current = row.data.get("value");
    const offered = this.known.get(row.data.get("path"))?.get("choices") ?? (kinds.length === 1 && kinds[0] === "boolean" ? [true, false] : null);
    if (offered) return labelled(gettext("Value"), this.choice(offered, current, (value) => this.set(row, "value", value)));
    const long = kinds.includes("array") || kinds.includes("object") || !isPlain(current ?? "");
    const attributes = { spellcheck: "false", value: current === undefined ? "" : shown(current, kinds) };
    const element = long ? area({ ...attributes, class: "tool-input tool-code" }) : input(attributes);
    if (kinds.length && kinds.every((kind) => kind === "integer" || kind === "number")) element.inputMode = "decimal";
    element.addEventListener("input", () => this.set(row, "value", element.value ? read(element.value, kinds) : undefined));
    return labelled(gettext("Value"), element, { class: "rule-field rule-wide" });
  }

  choice(offered, current, change) {
    const texts = offered.map((one) => write(one));
    const options = offered.map((one, index) => [texts[index], typeof one === "string" ? one : texts[index]]);
    const now = current === undefined ? "" : write(current);
    if (!texts.includes(now)) options.unshift([now, now || gettext("Choose…")]);
    const element = select(options, now, {});
    element.addEventListener("change", () => change(element.value ? parse(element.value) : undefined));
    return element;
  }

  values(row, kinds) {
    const current = row.data.get("values") ?? [];
    const change = (values) => this.set(row, "values", values.length ? values : undefined);
    const offered = this.known.get(row.data.get("path"))?.get("choices");
    if (offered) {
      const chosen = current.map((one) => write(one));
      const texts = [...new Set([...offered.map((one) => write(one)), ...chosen])];
      const options = texts.map((text) => { const one = parse(text); return [text, typeof one === "string" ? one : text]; });
      return checkboxes(gettext("Values"), options, chosen, (found) => change(found.map((text) => parse(text))));
    }
    const element = area({ spellcheck: "false" });
    element.value = current.map((one) => shown(one, kinds)).join("\n");
    element.addEventListener("input", () => change(element.value.split("\n").filter((line) => line.trim()).map((line) => read(line, kinds))));
    return labelled(gettext("Values, one on each line"), element, { class: "rule-field rule-wide" });
  }

  onlyNames(row) {
    const element = area({ spellcheck: "false", placeholder: gettext("No arguments"), value: (row.data.get("names") ?? []).join("\n") });
    element.addEventListener("input", () => this.set(row, "names", element.value.split("\n").filter((line) => line)));
    return labelled(gettext("Names, one on each line"), element, { class: "rule-field rule-wide" });
  }

  list(row) {
    const current = row.data.get("list") ?? "";
    const options = this.lists.map((name) => [name, name]);
    if (!this.lists.includes(current)) options.unshift([current, current || (this.lists.length ? gettext("Choose…") : gettext("There are no value lists yet."))]);
    const element = select(options, current, {});
    element.addEventListener("change", () => this.set(row, "list", element.value || undefined));
    return labelled(gettext("Value list"), element);
  }

  // A number with its kind of bound. names: [member, label] pairs, of which a condition has at most one.
  bound(row, label, names) {
    const kind = select(names, names.find(([name]) => row.data.has(name))?.[0] ?? names[0][0], { "aria-label": label });
    const number = this.number(row, () => kind.value, "decimal");
    number.setAttribute("aria-label", `${label}: ${gettext("number")}`);
    kind.addEventListener("change", () => {
      const value = names.map(([name]) => row.data.get(name)).find((one) => one !== undefined);
      for (const [name] of names) row.data.delete(name);
      this.set(row, kind.value, value);
    });
    return make("div", { class: "rule-field" }, make("span", { class: "rule-label", "aria-hidden": "true" }, label), make("div", { class: "rule-pair" }, kind, number));
  }

  number(row, name, mode) {
    const member = () => (typeof name === "string" ? name : name());
    const value = row.data.get(member());
    const element = input({ value: value === undefined ? "" : value.text ?? value, inputmode: mode, class: "tool-input rule-number" });
    element.addEventListener("input", () => {
      const text = element.value.trim();
      this.set(row, member(), text ? digits(text) ?? text : undefined);
    });
    return element;
  }

  draw(focus) {
    for (const list of this.root.querySelectorAll("datalist")) list.remove();
    super.draw(focus);
  }
}
