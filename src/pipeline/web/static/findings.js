// Findings: chosen rows stay chosen when the table is updated, and a decision is previewed without leaving the page.
//
// A form with data-dialog="ID" is sent in the background, and the block "plan" of the resulting page is shown in that
// dialog. Without this script the same forms lead to the same pages.
"use strict";

// Choosing

const bar = document.getElementById("decide-bar");
const scope = document.getElementById("scope");
let chosen = new Set();

const boxes = () => [...document.querySelectorAll(".findings tbody .pick input")];

function count() {
  const all = document.getElementById("pick-page");
  const picked = boxes().filter((box) => box.checked);
  chosen = new Set(picked.map((box) => box.value));
  if (all) {
    all.parentElement.hidden = false;
    all.checked = picked.length > 0 && picked.length === boxes().length;
    all.indeterminate = picked.length > 0 && !all.checked;
  }
  if (!bar) return;
  const everything = Boolean(scope && scope.checked);
  bar.classList.toggle("idle", !picked.length && !everything);
  const total = document.querySelector(".tally")?.dataset.total || "0";
  document.getElementById("count").textContent = everything ? `all ${Number(total).toLocaleString("en")} selected` : `${picked.length} selected`;
  const shown = document.getElementById("total");
  if (shown) shown.textContent = Number(total).toLocaleString("en");
}

let last = null; // where a range starts

document.addEventListener("click", (event) => {
  const box = event.target.closest(".findings .pick input[name=id]");
  if (!box) return;
  const all = boxes();
  if (event.shiftKey && last && all.includes(last)) {
    const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
    for (const one of all.slice(from, to + 1)) one.checked = box.checked;
  }
  last = box;
  count();
});

document.addEventListener("change", (event) => {
  if (event.target.id === "pick-page") for (const box of boxes()) box.checked = event.target.checked;
  if (event.target.matches("#pick-page, #scope, .findings .pick input")) count();
});

document.addEventListener("awf:swapped", (event) => {
  if (event.target.id !== "rows") return;
  for (const box of boxes()) box.checked = chosen.has(box.value);
  count();
});

// Deciding

async function send(form, button) {
  const dialog = document.getElementById(form.dataset.dialog);
  const body = new URLSearchParams(new FormData(form));
  if (button) button.disabled = true;
  try {
    const answer = await fetch(`${form.action}?part=plan`, { method: "POST", body, headers: { Accept: "text/html" } });
    show(dialog, await answer.text());
  } catch {
    show(dialog, "<p>The server does not answer. Nothing was decided, as far as this page can tell.</p>");
  }
  if (button) button.disabled = false;
}

function show(dialog, html) {
  const page = new DOMParser().parseFromString(html, "text/html"); // of a whole page, such as an error, the content is shown
  const main = page.querySelector("main") || page.body;
  dialog.replaceChildren(...main.childNodes);
  if (!dialog.querySelector("[data-close]")) dialog.append(closing());
  if (!dialog.open) dialog.showModal();
  dialog.querySelector("[autofocus]")?.focus();
}

function closing() {
  const button = document.createElement("button");
  button.textContent = "Close";
  button.dataset.close = "";
  button.autofocus = true;
  return button;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.dialog || !document.getElementById(form.dataset.dialog)) return;
  event.preventDefault();
  send(form, event.submitter);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("dialog [data-close]");
  if (!link) return;
  event.preventDefault();
  link.closest("dialog").close();
});

document.getElementById("decision")?.addEventListener("close", (event) => {
  if (!event.target.querySelector("[data-done]")) return; // nothing was decided: keep the selection
  if (scope) scope.checked = false;
  for (const box of boxes()) box.checked = false;
  count();
});

// Small things

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

count();
