// Pickers: results while one types, and whatever was chosen stays chosen. Without this the search buttons do the same.
"use strict";

const pickers = document.querySelector("form[data-pick]");
for (const picker of pickers ? pickers.querySelectorAll("[data-picker]") : []) {
  const kind = picker.dataset.picker;
  const chosen = picker.querySelector("[data-chosen]");
  const found = picker.querySelector("[data-found]");
  const search = picker.querySelector("[data-search]");
  let asked = search.value.trim();
  let waiting = 0;

  const entry = (id, name, checked) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    box.type = "checkbox";
    box.name = kind;
    box.value = id;
    box.checked = checked;
    const text = document.createElement("bdi");
    text.textContent = name;
    label.append(box, " ", text);
    return label;
  };

  const ask = async () => {
    const query = search.value.trim();
    if (query === asked) return;
    asked = query;
    const address = new URL(pickers.dataset.pick, location.href);
    address.searchParams.set("kind", kind);
    address.searchParams.set("q", query);
    const answer = await fetch(address, { headers: { Accept: "application/json" } });
    if (window.toolhub.isSignedOut(answer) || !answer.ok || asked !== query) return;
    const taken = new Set([...chosen.querySelectorAll("input")].map((box) => box.value));
    const { results } = await answer.json();
    found.replaceChildren(...results.filter(({ id }) => !taken.has(String(id))).map(({ id, name }) => entry(id, name, false)));
  };

  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 150); });
  search.addEventListener("keydown", (event) => { if (event.key === "Enter") { event.preventDefault(); ask(); } });
  // Choosing moves an entry up, taking it away moves it back: with the focus, so that the keyboard keeps its place.
  picker.addEventListener("change", ({ target }) => {
    if (target.name !== kind) return;
    const label = target.closest("label");
    const focus = label.nextElementSibling || label.previousElementSibling;
    if (target.checked && found.contains(label)) chosen.append(label);
    else if (!target.checked && chosen.contains(label)) found.prepend(label);
    else return;
    (focus ? focus.querySelector("input") : search).focus();
  });
}
