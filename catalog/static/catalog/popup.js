// Pages of the admin that add a row in a window of their own, as Django's own pop-ups do, and tell its name when it is saved.
// Django's page at the end of a pop-up calls dismissAddRelatedObjectPopup of the page that opened it.

const waiting = new Map(); // name of the window -> what gets the name of the new row
const before = window.dismissAddRelatedObjectPopup;
let number = 0;

window.dismissAddRelatedObjectPopup = (popup, key, name) => {
  const done = waiting.get(popup.name);
  if (!done) { before?.(popup, key, name); return; }
  waiting.delete(popup.name);
  popup.close();
  done(name);
};

export function openPopup(address, done) {
  const name = `new_row_${(number += 1)}`;
  waiting.set(name, done);
  window.open(address, name, "width=800,height=700,resizable=yes,scrollbars=yes")?.focus();
}
