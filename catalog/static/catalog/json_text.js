// JSON as it is written: changing one member leaves the order of all others and the digits of every number as they are.
// Objects are Maps (a plain object would move names like "2" to the front), numbers are Digits, the rest is as usual.

const DEPTH = 200;

export class Digits {
  constructor(text) { this.text = text; }
}

export class NotJson extends Error {
  constructor(line, column) {
    super(`line ${line}, column ${column}`);
    this.line = line;
    this.column = column;
  }
}

const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const BLANK = /[ \t\n\r]*/y;

export function parse(text) {
  let at = 0;
  const fail = (where = at) => {
    const before = text.slice(0, where).split("\n");
    throw new NotJson(before.length, before[before.length - 1].length + 1);
  };
  const skip = () => { BLANK.lastIndex = at; BLANK.exec(text); at = BLANK.lastIndex; };
  const token = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) fail();
    at = pattern.lastIndex;
    return found[0];
  };
  const expect = (character) => { skip(); if (text[at] !== character) fail(); at += 1; };
  const value = (depth) => {
    if (depth > DEPTH) fail();
    skip();
    const first = text[at];
    if (first === "{") return object(depth);
    if (first === "[") return array(depth);
    if (first === '"') return JSON.parse(token(STRING));
    for (const [word, meant] of [["true", true], ["false", false], ["null", null]]) {
      if (text.startsWith(word, at)) { at += word.length; return meant; }
    }
    return new Digits(token(NUMBER));
  };
  const object = (depth) => {
    const found = new Map();
    at += 1;
    skip();
    if (text[at] === "}") { at += 1; return found; }
    for (;;) {
      skip();
      const start = at;
      const name = JSON.parse(token(STRING));
      if (found.has(name)) fail(start);
      expect(":");
      found.set(name, value(depth + 1));
      skip();
      if (text[at] === "}") { at += 1; return found; }
      expect(",");
    }
  };
  const array = (depth) => {
    const found = [];
    at += 1;
    skip();
    if (text[at] === "]") { at += 1; return found; }
    for (;;) {
      found.push(value(depth + 1));
      skip();
      if (text[at] === "]") { at += 1; return found; }
      expect(",");
    }
  };
  const found = value(0);
  skip();
  if (at < text.length) fail();
  return found;
}

// Indented by two, as the server writes it.
export function write(value, indent = "") {
  const inner = `${indent}  `;
  if (value instanceof Digits) return value.text;
  if (value instanceof Map) {
    if (!value.size) return "{}";
    const members = [...value].map(([name, member]) => `${inner}${JSON.stringify(name)}: ${write(member, inner)}`);
    return `{\n${members.join(",\n")}\n${indent}}`;
  }
  if (Array.isArray(value)) {
    if (!value.length) return "[]";
    return `[\n${value.map((item) => inner + write(item, inner)).join(",\n")}\n${indent}]`;
  }
  return JSON.stringify(value);
}

// From what JSON.parse gives.
export function from(plain) {
  if (typeof plain === "number") return new Digits(String(plain));
  if (Array.isArray(plain)) return plain.map(from);
  if (plain && typeof plain === "object") return new Map(Object.entries(plain).map(([name, member]) => [name, from(member)]));
  return plain;
}

export function equal(one, other) {
  if (one instanceof Digits && other instanceof Digits) return Number(one.text) === Number(other.text);
  if (one instanceof Map && other instanceof Map) {
    return one.size === other.size && [...one].every(([name, member]) => other.has(name) && equal(member, other.get(name)));
  }
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((item, index) => equal(item, other[index]));
  }
  return one === other;
}

export function digits(text) {
  NUMBER.lastIndex = 0;
  const found = NUMBER.exec(text);
  return found && found[0] === text ? new Digits(text) : null;
}

// A Map with one name changed and everything in its place; null when the new name is taken.
export function renamed(map, before, after) {
  if (before === after) return map;
  if (map.has(after)) return null;
  return new Map([...map].map(([name, member]) => [name === before ? after : name, member]));
}
