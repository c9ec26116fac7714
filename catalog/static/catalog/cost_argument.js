// Suggestions for the argument by which the cost of a call is multiplied: the numbers and lists of the input schema.

import { make } from "./page_parts.js";

const MAX_DEPTH = 3;
const MAX_PLACES = 100;

function isOf(schema, ...types) {
  return [schema?.type].flat().some((type) => types.includes(type));
}

function* places(schema, before = "", depth = 0) {
  if (depth >= MAX_DEPTH || !schema?.properties) return;
  for (const [name, one] of Object.entries(schema.properties)) {
    const place = `${before}/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    if (isOf(one, "integer", "number", "array")) yield place;
    yield* places(one, place, depth + 1);
  }
}

export function suggestArguments(control, schema) {
  const list = make("datalist", { id: "cost-arguments" });
  control.after(list);
  control.setAttribute("list", list.id);
  control.addEventListener("focus", () => {
    let found = [];
    try {
      found = [...places(JSON.parse(schema.value))].slice(0, MAX_PLACES);
    } catch {
      // The schema is being edited: its own field says what is wrong.
    }
    list.replaceChildren(...found.map((value) => make("option", { value })));
  });
}
