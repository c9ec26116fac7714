// The theme's select boxes (select2) come without names and with a list that holds more than items: both are mended as
// the boxes appear, from the label that stands beside the field. And the theme folds tabs away for want of room while its
// icons are still words: they come back once the font is there.
(function () {
  "use strict";

  function nameOf(select) {
    const label = select.labels && select.labels[0];
    return (select.getAttribute("aria-label") || (label && label.textContent) || "").trim().replace(/\s+/g, " ");
  }

  function set(element, name, value) {
    if (element && element.getAttribute(name) !== value) element.setAttribute(name, value);
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
    set(box.querySelector(".select2-search__field"), "aria-label", name);
    const list = box.querySelector("ul.select2-selection__rendered");
    if (list) {
      set(list, "role", "presentation");
      for (const item of list.querySelectorAll("li")) set(item, "role", "presentation");
    }
  }

  function all() {
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

  document.addEventListener("DOMContentLoaded", function () {
    for (const cell of document.querySelectorAll("#result_list tbody :is(td, th)")) cut(cell);
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

  window.addEventListener("load", function () {
    document.fonts.ready.then(function () {
      const folded = document.getElementById("tabs-dropdown");
      // The theme brings back one for each time that the window changes its size.
      for (let left = folded ? folded.childElementCount : 0; left > 0; left--) window.dispatchEvent(new Event("resize"));
    });
  });
})();
