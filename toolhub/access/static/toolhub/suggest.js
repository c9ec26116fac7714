// Names to choose from while one types: data-suggest is the address that knows them, the input's list shows them.
"use strict";

for (const input of document.querySelectorAll("input[data-suggest]")) {
  let asked = "";
  let waiting = 0;
  const ask = async () => {
    const query = input.value.trim();
    if (query === asked) return;
    asked = query;
    const address = new URL(input.dataset.suggest, location.href);
    address.searchParams.set("q", query);
    try {
      const answer = await fetch(address, { headers: { Accept: "application/json" } });
      if (window.toolhub.isSignedOut(answer) || !answer.ok || asked !== query) return;
      const { results } = await answer.json();
      input.list.replaceChildren(...results.map(({ value, label }) => {
        const option = document.createElement("option");
        option.value = value;
        if (label) option.label = label;
        return option;
      }));
    } catch {
      // The name can be typed without help.
    }
  };
  input.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 150); });
  // What was typed before this script was here counts as well.
  if (input.value !== input.defaultValue) ask();
  input.addEventListener("focus", () => { input.select(); });
}
