// Small comforts; every page works without them.
"use strict";

// Copy buttons: data-copy names the element whose text is copied, data-done is said afterwards.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const source = document.getElementById(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
  } catch {
    // No clipboard without TLS: select the text, so that Ctrl+C copies it.
    const range = document.createRange();
    range.selectNodeContents(source);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    if (!document.execCommand("copy")) return;
  }
  const before = button.dataset.label || (button.dataset.label = button.textContent);
  button.textContent = button.dataset.done;
  window.toolhub.say(button.dataset.done);
  setTimeout(() => { button.textContent = before; }, 2000);
});

// Filter what is on the page: every word must occur in the element, or in its summary where it has one.
const box = document.querySelector("[data-filter]");
if (box) {
  const items = [...document.querySelectorAll("[data-text]")];
  const none = document.querySelector("[data-none]");
  const kind = document.querySelector("[data-kind]");
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = kind ? kind.value : "";
    let shown = 0;
    for (const item of items) {
      const text = (item.querySelector("summary") || item).textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word)) && (!wanted || item.dataset.marks.split(" ").includes(wanted));
      item.hidden = !fits;
      if (fits) shown += 1;
    }
    if (none) none.hidden = shown > 0;
  };
  box.addEventListener("input", apply);
  if (kind) kind.addEventListener("change", apply);
  box.form?.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
  apply();
}

// Menus close when the click or the focus goes elsewhere, and with Escape.
const closeMenus = (except) => {
  for (const menu of document.querySelectorAll("details.menu[open], details.confirm[open]")) {
    if (!except || !menu.contains(except)) menu.open = false;
  }
};
document.addEventListener("click", (event) => closeMenus(event.target));
document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeMenus(null); });
