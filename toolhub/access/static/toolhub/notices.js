// What scripts tell the reader, also one who hears the page: something was copied, or the session ended. And after an
// action the focus is where its result is told, or at the first field that must be corrected.
"use strict";

(() => {
  const template = () => document.getElementById("session-ended");
  const signIn = () => template() && new URL(template().content.querySelector("a").getAttribute("href"), location.href);

  const announce = () => {
    const source = template();
    if (!source || document.querySelector("[data-session-ended]")) return;
    const note = source.content.firstElementChild.cloneNode(true);
    const address = signIn();
    address.searchParams.set("next", location.pathname + location.search + location.hash);
    note.querySelector("a").href = address;
    note.dataset.sessionEnded = "";
    // Inside of a dialog that lies over the page, it is read; behind it, it is not.
    (document.querySelector("dialog[open]") || document.body).append(note);
  };

  // Whether this answer is the sign-in page; the person is told then.
  const isSignedOut = (answer) => {
    const ended = answer.redirected && new URL(answer.url).pathname === signIn()?.pathname;
    if (ended) announce();
    return ended;
  };

  // A region that is there before it says something: only then is it read.
  const region = document.createElement("p");
  region.className = "heard";
  region.setAttribute("role", "status");
  const say = (text) => {
    region.textContent = "";
    setTimeout(() => { region.textContent = text; }, 50);
  };

  const start = () => {
    document.body.append(region);
    // A form that came back: its first field that is wrong, or else the sentence about the form.
    const wrong = [...document.querySelectorAll('[aria-invalid="true"]')];
    const field = wrong.find((one) => one.getClientRects().length > 0 && one.type !== "hidden");
    const free = document.activeElement === document.body;
    // Behind a select box of the theme is a field that nobody sees; labels.js follows where the box comes later.
    const box = field?.matches(".select2-hidden-accessible") && field.nextElementSibling?.querySelector("input, [tabindex='0']");
    if (field && (free || document.activeElement.autofocus)) (box || field).focus();
    if (document.activeElement !== document.body) return;
    const told =
      document.querySelector("[data-messages]") ||
      (!document.querySelector("[autofocus]") && document.querySelector(".errornote, [role=alert]:is(.note, .th-note)"));
    if (!told) return;
    told.tabIndex = -1;
    told.focus({ preventScroll: told.hasAttribute("data-messages") });
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();

  window.toolhub = { ...(window.toolhub || {}), isSignedOut, announceSignedOut: announce, say };
})();
