// Light or dark before anything is painted; the choice is kept in this browser alone.
"use strict";
{
  const chosen = localStorage.getItem("awf-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
