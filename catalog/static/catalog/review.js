// The inbox of reviews: select all, all without danger, or none. Without this script, each box is ticked by hand.
const buttons = document.querySelectorAll("#review-queue [data-select]");
for (const button of buttons) {
  button.hidden = false;
  button.addEventListener("click", () => {
    for (const box of button.form.querySelectorAll("input[name=item]")) {
      box.checked = button.dataset.select === "all" || (button.dataset.select === "safe" && !("dangerous" in box.dataset));
    }
  });
}
