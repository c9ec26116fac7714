// What a table of parameters can say about one property of a schema, and how it is changed. No page here.
// Only what is changed is touched: every other keyword of the property stays as it was written.

import { Digits, digits, from } from "./json_text.js";

const SIMPLE = ["string", "integer", "number", "boolean", "object", "array"];
const LISTED = ["string", "integer", "number"];
export const TYPES = ["string", "integer", "number", "boolean", "array:string", "array:integer", "array:number", "array", "object"];
export const FORMATS = ["date", "date-time", "time", "email", "uri", "hostname", "ipv4", "ipv6", "uuid"];
const BOUNDS = {
  string: ["minLength", "maxLength"],
  integer: ["minimum", "maximum"],
  number: ["minimum", "maximum"],
  array: ["minItems", "maxItems"],
};
const base = (type) => type.split(":")[0];

// "string", "array:integer", ...; "" for what only JSON can say.
export function typeOf(part) {
  if (!(part instanceof Map)) return "";
  const type = part.get("type");
  if (!SIMPLE.includes(type) || ["$ref", "anyOf", "oneOf", "allOf"].some((name) => part.has(name))) return "";
  if (type !== "array") return type;
  const items = part.get("items");
  if (items === undefined) return "array";
  if (!(items instanceof Map) || !LISTED.includes(items.get("type"))) return "";
  return `array:${items.get("type")}`;
}

export const bounds = (type) => BOUNDS[base(type)] || [];

// The Map that holds the choices: of a list, what describes its items.
const chooser = (part, type) => (type.startsWith("array:") ? part.get("items") : part);
const chosenType = (type) => (type.startsWith("array:") ? type.slice(6) : type);

export const mayChoose = (type) => LISTED.includes(chosenType(type));

// One line for each choice; null when lines cannot say them.
export function choices(part, type) {
  if (!mayChoose(type)) return null;
  const values = chooser(part, type).get("enum");
  if (values === undefined) return "";
  if (!Array.isArray(values) || !values.length) return null;
  const lines = values.map((value) => line(value, chosenType(type)));
  return lines.includes(null) ? null : lines.join("\n");
}

function line(value, type) {
  if (type === "string") return typeof value === "string" && value !== "" && !/[\r\n]/.test(value) && value.trim() === value ? value : null;
  return value instanceof Digits ? value.text : null;
}

// The problem as a sentence, or null. Empty text takes the choices away.
export function setChoices(part, type, text) {
  const lines = text.split("\n").map((one) => one.trim()).filter(Boolean);
  const holder = chooser(part, type);
  if (!lines.length) { holder.delete("enum"); return null; }
  if (new Set(lines).size < lines.length) return gettext("Each choice must be unique. Remove the duplicates.");
  const values = chosenType(type) === "string" ? lines : lines.map(digits);
  if (values.includes(null)) return gettext("This must be a number.");
  holder.set("enum", values);
  return null;
}

// The default as text for its field: "" when there is none; null when the field cannot say it.
export function defaultText(part, type) {
  if (!part.has("default")) return "";
  const value = part.get("default");
  if (type === "string") return typeof value === "string" && !/[\r\n]/.test(value) && value !== '""' ? value || '""' : null;
  if (type === "integer" || type === "number") return value instanceof Digits ? value.text : null;
  if (type === "boolean") return typeof value === "boolean" ? String(value) : null;
  return null;
}

export const mayDefault = (type) => ["string", "integer", "number", "boolean"].includes(type);

export function setDefault(part, type, text) {
  if (text === "") { part.delete("default"); return null; }
  if (type === "string") part.set("default", text === '""' ? "" : text);
  else if (type === "boolean") part.set("default", text === "true");
  else {
    const found = digits(text);
    if (!found) return gettext("This must be a number.");
    part.set("default", found);
  }
  return null;
}

export function boundText(part, keyword) {
  if (!part.has(keyword)) return "";
  const value = part.get(keyword);
  return value instanceof Digits ? value.text : null;
}

export function setBound(part, keyword, text) {
  if (text === "") { part.delete(keyword); return null; }
  const found = digits(text);
  if (!found) return gettext("This must be a number.");
  if (!["minimum", "maximum"].includes(keyword) && !/^[0-9]+$/.test(text)) return gettext("This must be a whole number, 0 or more.");
  part.set(keyword, found);
  return null;
}

// What fits the old type only goes with it; choices and a default come along where they mean something.
export function setType(part, type) {
  const before = typeOf(part);
  const chosen = before ? choices(part, before) : "";
  const given = before ? defaultText(part, before) : "";
  if (before && before.startsWith("array:") && !type.startsWith("array")) part.delete("items");
  else if (before && mayChoose(before)) chooser(part, before).delete("enum");
  for (const keyword of before ? bounds(before) : []) if (!bounds(type).includes(keyword)) part.delete(keyword);
  if (before === "string") part.delete("format");
  part.delete("default");
  const entries = [...part];
  if (!part.has("type")) {
    part.clear();
    part.set("type", base(type));
    for (const [name, value] of entries) part.set(name, value);
  } else part.set("type", base(type));
  if (type.startsWith("array:")) {
    const items = part.get("items");
    if (items instanceof Map) items.set("type", type.slice(6));
    else part.set("items", from({ type: type.slice(6) }));
  } else if (type === "array") part.delete("items");
  if (chosen && mayChoose(type)) setChoices(part, type, chosen);
  if (given && mayDefault(type) && (type !== "boolean" || ["true", "false"].includes(given))) setDefault(part, type, given);
}

// Keywords that no field of the table shows.
export function others(part, type) {
  const known = new Set(["type", "description", ...bounds(type)]);
  if (type === "string") known.add("format");
  if (mayDefault(type) && defaultText(part, type) !== null) known.add("default");
  if (mayChoose(type) && choices(part, type) !== null && !type.startsWith("array:")) known.add("enum");
  if (type.startsWith("array:")) {
    const items = [...part.get("items").keys()].filter((name) => name !== "type" && !(name === "enum" && choices(part, type) !== null));
    if (!items.length) known.add("items");
  }
  return [...part.keys()].filter((name) => !known.has(name));
}

export const ROOT = ["type", "properties", "required", "$schema"];

// Keywords of the root that the table has no place for.
export function rootOthers(root) {
  return [...root.keys()].filter((name) => !ROOT.includes(name) && !(name === "additionalProperties" && typeof root.get(name) === "boolean"));
}

export function isRequired(root, name) {
  const required = root.get("required");
  return Array.isArray(required) && required.includes(name);
}

// `keep`: an empty list stays, as it was written.
export function setRequired(root, name, wanted, keep) {
  const required = root.get("required");
  const names = Array.isArray(required) ? required.filter((one) => one !== name) : [];
  if (wanted) names.push(name);
  if (names.length || keep) root.set("required", names);
  else root.delete("required");
}

// A schema that the table can show: an object with properties, or without any.
export function fits(root) {
  if (!(root instanceof Map)) return false;
  const properties = root.get("properties");
  const required = root.get("required");
  return root.get("type") === "object" && (properties === undefined || properties instanceof Map)
    && (required === undefined || Array.isArray(required));
}
