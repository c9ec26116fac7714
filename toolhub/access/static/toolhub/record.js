// The pages of the record: copy buttons, and the two calls to compare.
"use strict";

// data-copy-from names an address of this site whose answer is copied, data-copy-text the element whose text is copied;
// data-done and data-failed are said afterwards.
const put = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // No clipboard without TLS: the old way, from a field that is there for a moment.
    const field = document.createElement("textarea");
    field.value = text;
    field.setAttribute("aria-hidden", "true");
    field.className = "record-offscreen";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
};

const read = async ({ copyFrom, copyText }) => {
  if (copyText) return document.getElementById(copyText).textContent;
  const answer = await fetch(copyFrom, { credentials: "same-origin" });
  return !window.toolhub.isSignedOut(answer) && answer.ok ? answer.text() : null;
};

for (const button of document.querySelectorAll("[data-copy-from], [data-copy-text]")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const before = button.dataset.label || (button.dataset.label = button.textContent.trim());
    let done = false;
    try {
      const text = await read(button.dataset);
      done = text !== null && await put(text);
    } catch {
      done = false;
    }
    button.textContent = done ? button.dataset.done : button.dataset.failed;
    window.toolhub.say(button.textContent);
    setTimeout(() => { button.textContent = before; }, 2000);
  });
}

// Two calls can be compared: the third that is picked lets go of the first.
const picked = [];
const compare = document.querySelector("[data-compare]");
if (compare) {
  const say = () => { compare.disabled = picked.length !== 2; };
  picked.push(...document.querySelectorAll("input.record-pick:checked"));
  // Rows are added while a search goes on.
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (!box.matches("input.record-pick")) return;
    const at = picked.indexOf(box);
    if (at >= 0) picked.splice(at, 1);
    if (box.checked) picked.push(box);
    while (picked.length > 2) picked.shift().checked = false;
    say();
  });
  say();
}
