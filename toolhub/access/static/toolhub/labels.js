// The theme's select boxes (select2) come without names and with a list that holds more than items: both are mended as
// the boxes appear, from the label that stands beside the field.
(function () {
  "use strict";

  function nameOf(select) {
    const label = select.labels && select.labels[0];
    return (select.getAttribute("aria-label") || (label && label.textContent) || "").trim().replace(/\s+/g, " ");
  }

  function set(element, name, value) {
    if (element && element.getAttribute(name) !== value) element.setAttribute(name, value);
  }

  // What the field behind the box has of a form that came back: its error, and the focus.
  function takeOver(select, shown) {
    if (!shown) return;
    if (select.getAttribute("aria-invalid") === "true") {
      set(shown, "aria-invalid", "true");
      const texts = (select.getAttribute("aria-describedby") || "").split(" ");
      const own = (shown.getAttribute("aria-describedby") || "").split(" ");
      set(shown, "aria-describedby", Array.from(new Set(own.concat(texts))).join(" ").trim());
    }
    if (document.activeElement === select) shown.focus();
  }

  function mend(select) {
    const box = select.nextElementSibling;
    if (!box || !box.classList.contains("select2-container")) return;
    const name = nameOf(select);
    const shown = box.querySelector(".select2-selection");
    if (shown && name) {
      // The name, and what is chosen: the box itself says neither.
      const chosen = shown.classList.contains("select2-selection--single") ? shown.textContent.replace("×", "").trim() : "";
      shown.removeAttribute("aria-labelledby");
      set(shown, "aria-label", chosen ? name + ": " + chosen : name);
    }
    const text = box.querySelector("span.select2-selection__rendered");
    if (text && name) set(text, "aria-label", shown.getAttribute("aria-label"));
    const search = box.querySelector(".select2-search__field");
    set(search, "aria-label", name);
    takeOver(select, search || shown);
    const list = box.querySelector("ul.select2-selection__rendered");
    if (list) {
      set(list, "role", "presentation");
      for (const item of list.querySelectorAll("li")) set(item, "role", "presentation");
    }
  }

  // A time has two fields, for its date and for its time of day, and one label that belongs to neither.
  function nameTimes() {
    for (const box of document.querySelectorAll(".datetime")) {
      const fields = box.querySelectorAll(".vDateField, .vTimeField");
      if (!fields.length || fields[0].hasAttribute("aria-label")) continue;
      let row = box.parentElement;
      while (row && !row.querySelector("label, legend")) row = row.parentElement;
      const label = row && row.querySelector("label, legend");
      const name = label ? label.textContent.trim().replace(/\s+/g, " ") : "";
      for (const field of fields) set(field, "aria-label", [name, field.placeholder].filter(Boolean).join(": "));
      if (label && label.tagName === "LABEL" && !label.htmlFor) label.htmlFor = fields[0].id;
    }
  }

  function all() {
    nameTimes();
    for (const select of document.querySelectorAll("select.select2-hidden-accessible")) mend(select);
  }

  // Names in a list that would make their column wide or their row high: cut, with all of it as the title.
  function cut(cell) {
    const text = cell.textContent.trim();
    if (text.length <= 60 || cell.querySelector("input, button, select, img, svg, ul, p, .th-cut")) return;
    const holder = cell.querySelector("a") || cell;
    const box = document.createElement("span");
    box.className = "th-cut";
    box.title = text;
    box.append(...holder.childNodes);
    holder.append(box);
  }

  function tidyCells(part) {
    for (const cell of part.querySelectorAll("tbody :is(td, th)")) {
      cut(cell);
      // On a card the name of a column begins as in the head of the table.
      const name = cell.dataset.label;
      if (name) cell.dataset.label = name[0].toUpperCase() + name.slice(1);
    }
  }

  // Rows that come later look like those that were there.
  function tidyList() {
    const list = document.getElementById("result_list");
    if (list) tidyCells(list);
  }

  window.toolhub = Object.assign({}, window.toolhub, { tidyCells: tidyCells });
  document.addEventListener("toolhub:rows", tidyList);
  document.addEventListener("DOMContentLoaded", function () {
    tidyList();
    let waiting = false;
    new MutationObserver(function () {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(function () {
        waiting = false;
        all();
      });
    }).observe(document.body, { childList: true, subtree: true });
    all();
  });
})();
