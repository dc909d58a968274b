// A walk-through: the letters of the buttons are keys, and v opens the details. Without this script the buttons work.
"use strict";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  const details = document.getElementById("details");
  if (event.key === "v" && details) details.open = !details.open;
  else document.querySelector(`.walk-question button[data-key="${CSS.escape(event.key)}"]`)?.click();
});
