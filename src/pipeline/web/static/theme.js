// Light or dark before the first paint; the choice is stored in this browser only.
"use strict";
{
  const chosen = localStorage.getItem("awf-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
