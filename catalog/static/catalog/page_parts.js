// Elements of a page. Every text becomes text, never markup.

const INPUT = "tool-input";

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

let number = 0;
export const fresh = (prefix) => `${prefix}-${(number += 1)}`;

export function button(label, icon, action, attributes = {}) {
  const symbol = icon && make("span", { class: "material-symbols-outlined", "aria-hidden": "true" }, icon);
  const shown = attributes.iconOnly ? { "aria-label": label, title: label, class: "tool-button tool-icon" } : { class: "tool-button" };
  delete attributes.iconOnly;
  return make("button", { type: "button", onclick: action, ...shown, ...attributes }, symbol, shown["aria-label"] ? null : label);
}

export const input = (attributes) => make("input", { type: "text", class: INPUT, autocomplete: "off", ...attributes });
export const area = (attributes) => make("textarea", { class: INPUT, rows: 3, ...attributes });

// options: [value, label] pairs
export function select(options, chosen, attributes) {
  const found = make("select", { class: INPUT, ...attributes });
  for (const [value, label] of options) found.append(make("option", { value }, label));
  found.value = chosen;
  return found;
}
