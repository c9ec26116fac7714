// The search of the admin: Ctrl+K or Cmd+K, or any link with data-search, opens the dialog. A combobox: the focus stays
// in the field, the arrows move through the results, Enter opens one, Escape closes. The dialog gives the focus back.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const dialog = document.getElementById("th-search");
  if (!dialog) return;
  const form = dialog.querySelector("form");
  const field = form.elements.q;
  const list = dialog.querySelector("[role=listbox]");
  const said = dialog.querySelector("[role=status]");
  let waiting = 0;
  let asked = "";
  let answered = Promise.resolve();
  let current = -1;

  const point = (number) => {
    const options = list.children;
    if (options[current]) options[current].setAttribute("aria-selected", "false");
    current = options.length ? (number + options.length) % options.length : -1;
    const chosen = options[current];
    if (chosen) {
      chosen.setAttribute("aria-selected", "true");
      chosen.scrollIntoView({ block: "nearest" });
      field.setAttribute("aria-activedescendant", chosen.id);
    } else {
      field.removeAttribute("aria-activedescendant");
    }
  };

  const part = (name, text) => {
    const made = document.createElement("span");
    made.className = `th-search-${name}`;
    made.textContent = text;
    return made;
  };

  const option = ({ title, kind, detail, url }, number) => {
    const made = document.createElement("a");
    made.id = `th-search-${number}`;
    made.className = "th-search-result";
    made.href = url;
    made.tabIndex = -1;
    made.setAttribute("role", "option");
    made.setAttribute("aria-selected", "false");
    made.append(part("title", title));
    if (detail) made.append(part("detail", detail));
    made.append(part("kind", kind));
    made.addEventListener("mousemove", () => { if (current !== number) point(number); });
    return made;
  };

  const show = (results, text) => {
    list.replaceChildren(...results.map(option));
    list.hidden = !results.length;
    field.setAttribute("aria-expanded", String(results.length > 0));
    current = -1;
    point(results.length ? 0 : -1);
    said.textContent = text;
    list.setAttribute("aria-busy", "false");
  };

  const count = (number) => {
    const { none, one, many } = dialog.dataset;
    return number === 0 ? none : number === 1 ? one : many.replace("%s", String(number));
  };

  const load = async (query) => {
    if (!query) return show([], "");
    const address = new URL(form.action);
    address.searchParams.set("q", query);
    try {
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (asked !== query) return;
      if (window.toolhub.isSignedOut(answer)) return show([], "");
      if (!answer.ok) throw new Error(String(answer.status));
      const { results } = await answer.json();
      if (asked === query) show(results, count(results.length));
    } catch {
      if (asked !== query) return;
      asked = "";
      show([], dialog.dataset.failed);
    }
  };

  // Resolves once the results of what is in the field are shown, whoever asked for them.
  const ask = async () => {
    clearTimeout(waiting);
    const query = field.value.trim();
    if (query !== asked) {
      asked = query;
      answered = load(query);
    }
    await answered;
    if (asked === field.value.trim()) list.setAttribute("aria-busy", "false");
  };

  const open = () => {
    if (!dialog.open) dialog.showModal();
    field.select();
    field.focus();
  };

  document.addEventListener("keydown", (event) => {
    const wanted = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!wanted || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-search]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-close]")) dialog.close();
  });
  field.addEventListener("input", () => {
    list.setAttribute("aria-busy", "true");
    clearTimeout(waiting);
    waiting = setTimeout(ask, 120);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      point(current + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Escape") {
      // A search field would only empty itself.
      event.preventDefault();
      dialog.close();
    }
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    await ask();
    const chosen = list.children[current];
    if (chosen && asked === field.value.trim()) chosen.click();
  });
});
