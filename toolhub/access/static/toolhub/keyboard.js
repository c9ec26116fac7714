// Buttons of the theme that only a mouse reaches get a role, a name and a place in the order of the keyboard. And a tab
// that is open stays open when its form is sent: the address of the page names it.
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const names = document.getElementById("theme-names")?.dataset || {};
  const mouseOnly =
    ":is(a:not([href]), div, span, svg)[x-on\\:click]:not(#changelist-filter-close, [x-on\\:click*=dispatch])";

  const mend = (element) => {
    if (element.hasAttribute("tabindex") || element.querySelector("a[href], button, input, select, textarea")) return;
    element.setAttribute("role", "button");
    element.tabIndex = 0;
    const icon = element.classList.contains("material-symbols-outlined") ? element : element.querySelector(".material-symbols-outlined");
    const name = icon && icon.textContent.trim() === element.textContent.trim() && names[icon.textContent.trim()];
    if (name) element.setAttribute("aria-label", name);
  };
  for (const element of document.querySelectorAll(mouseOnly)) mend(element);

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    const element = event.target.closest?.('[role="button"][x-on\\:click]:not(button)');
    if (!element || element !== event.target) return;
    event.preventDefault();
    element.click();
  });

  // After Alpine's own listeners, which read the tab as well.
  window.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.hasAttribute("x-bind:action")) return; // the theme's forms of one object
    // Only the same object again shows the same tab: a list, or a new object, begins as ever.
    const tab = event.submitter?.name === "_continue" ? location.hash : "";
    form.setAttribute("action", location.pathname + location.search + tab);
  });
});
