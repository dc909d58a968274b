// Keeps a page up to date.
//
// An element with data-live="URL" and data-topic="runs" (or "run:ID", "findings", several separated by spaces) is fetched
// again from its URL, as HTML, when a message has its topic. Focus, scroll positions and open <details> are restored for
// elements with an id. An element that was replaced gets the event "awf:swapped".
"use strict";

const WAIT = 300; // milliseconds between two fetches of the same part

// Live parts

const state = new WeakMap(); // of each part: the timer, and whether it is being fetched

function dispatch(message) {
  for (const part of document.querySelectorAll("[data-live]")) {
    const topics = (part.dataset.topic || "").split(" ");
    if (message.topics.includes("*") || topics.some((topic) => message.topics.includes(topic))) refresh(part);
  }
  document.dispatchEvent(new CustomEvent("awf:message", { detail: message }));
}

function refresh(part) {
  const now = state.get(part) || {};
  state.set(part, now);
  if (now.busy) now.again = true; // the response on its way may lack what this message is about
  else if (!now.timer) now.timer = setTimeout(load, Math.max(0, (now.last || 0) + WAIT - Date.now()), part, now);
}

async function load(part, now) {
  now.timer = 0;
  now.busy = true;
  try {
    const answer = await fetch(part.dataset.live, { headers: { Accept: "text/html" }, redirect: "error" });
    if (answer.ok) swap(part, await answer.text(), now);
    else showConnection("offline", answer.status === 401 ? "signed out" : "not up to date");
  } catch {
    showConnection("offline", "not up to date"); // everything is loaded again when the stream reconnects
  }
  now.busy = false;
  now.last = Date.now();
  if (now.again && part.isConnected) refresh(part);
  now.again = false;
}

function swap(part, html, now) {
  if (html === now.html) return;
  now.html = html;
  const focus = part.contains(document.activeElement) ? document.activeElement.id : "";
  const open = [...part.querySelectorAll("details[id]")].map((one) => [one.id, one.open]);
  const scrolled = [part, ...part.querySelectorAll("[id]")]
    .filter((one) => one.scrollTop || one.scrollLeft)
    .map((one) => [one.id, one.scrollLeft, one.scrollTop]);
  part.innerHTML = html; // the server escaped every text, and the content policy allows no inline script
  for (const [id, was] of open) withId(id, (one) => (one.open = was));
  for (const [id, left, top] of scrolled) withId(id, (one) => one.scrollTo(left, top));
  if (focus) withId(focus, (one) => one.focus({ preventScroll: true }));
  tick();
  part.dispatchEvent(new CustomEvent("awf:swapped", { bubbles: true }));
}

function withId(id, use) {
  const found = id && document.getElementById(id);
  if (found) use(found);
}

// The stream. A hidden page closes it: browsers allow only a few connections to one server.

let stream = null;
let position = document.body.dataset.position || "";

function connect() {
  if (stream || document.hidden || !document.body.dataset.events) return;
  stream = new EventSource(`${document.body.dataset.events}?after=${encodeURIComponent(position)}`);
  stream.onopen = () => showConnection("live", "live");
  stream.onmessage = (event) => {
    position = event.lastEventId;
    const message = JSON.parse(event.data);
    if (message.what === "trouble" && !message.run) showConnection("offline", message.text);
    else showConnection("live", "live");
    dispatch(message);
  };
  stream.onerror = () => {
    const lost = stream.readyState === EventSource.CLOSED; // refused: the server was restarted
    showConnection("offline", lost ? "signed out" : "reconnecting");
  };
}

function disconnect() {
  if (stream) stream.close();
  stream = null;
}

function showConnection(kind, words) {
  const live = document.getElementById("live");
  if (!live || (live.dataset.state === kind && live.textContent === words)) return;
  live.dataset.state = kind;
  live.textContent = words;
  live.title = words === "signed out" ? "Open the address that awf serve printed last" : "";
}

document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", connect);

// Ages

function age(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (whole >= size) return `${Math.floor(whole / size)}${unit}`;
  }
  return `${whole}s`;
}

function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [unit, size, smaller, below] of [["d", 86400, "h", 3600], ["h", 3600, "m", 60], ["m", 60, "s", 1]]) {
    if (whole >= size) return `${Math.floor(whole / size)}${unit}${String(Math.floor((whole % size) / below)).padStart(2, "0")}${smaller}`;
  }
  return `${whole}s`;
}

function tick() {
  for (const one of document.querySelectorAll("time[data-until]")) {
    const left = Number(one.dataset.until) - Date.now() / 1000;
    const words = left > 0 ? `in ${span(left)}` : "now";
    if (one.textContent !== words) one.textContent = words;
  }
  for (const one of document.querySelectorAll("time[data-since]")) {
    const words = age(Date.now() / 1000 - Number(one.dataset.since));
    if (one.textContent !== words) one.textContent = words;
  }
}

setInterval(tick, 1000);

// Theme, filters and the search key

const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "☀ Light" : "☾ Dark";
}

theme.hidden = false;
theme.addEventListener("click", () => {
  const next = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  if ((next === "dark") === dark.matches) localStorage.removeItem("awf-theme");
  else localStorage.setItem("awf-theme", next);
  nameTheme();
});
dark.addEventListener("change", nameTheme);
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});
addEventListener("keydown", (event) => {
  const search = document.querySelector("input[type=search]");
  if (event.key !== "/" || !search || event.target.matches("input, textarea, select")) return;
  event.preventDefault();
  search.select();
});

nameTheme();
tick();
connect();
