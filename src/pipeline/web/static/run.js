// A run's page: step-by-step replay, growing logs, and forms that keep what was typed when parts are updated.
"use strict";
{
  const PACE = 700; // milliseconds between two steps of a replay
  const LOOK = 1000; // milliseconds between two reads of a log
  const KEPT = 400000; // characters of a log that stay on the page

  // Replay

  const slider = document.getElementById("replay-at");
  const view = document.getElementById("view");

  if (slider && view) {
    const play = document.getElementById("replay-play");
    const topic = `run:${document.getElementById("status").dataset.topic.slice(4)}`;
    let playing = 0;

    const show = (step) => {
      const now = step >= Number(slider.max);
      const address = new URL(view.dataset.live, location.href);
      if (now) address.searchParams.delete("at");
      else address.searchParams.set("at", step);
      view.dataset.live = address.pathname + address.search;
      view.dataset.topic = now ? topic : "";
      slider.value = step;
      document.getElementById("replay-step").textContent = step;
      const shown = new URL(location.href);
      if (now) shown.searchParams.delete("at");
      else shown.searchParams.set("at", step);
      history.replaceState(null, "", shown);
      refresh(view);
    };

    const stop = () => {
      clearInterval(playing);
      playing = 0;
      play.textContent = "▶ Replay";
    };

    const begin = () => {
      if (Number(slider.value) >= Number(slider.max)) show(1);
      playing = setInterval(() => {
        if (Number(slider.value) >= Number(slider.max)) stop();
        else show(Number(slider.value) + 1);
      }, PACE);
      play.textContent = "‖ Stop";
    };

    play.hidden = false;
    play.addEventListener("click", () => (playing ? stop() : begin()));
    slider.addEventListener("input", () => {
      if (playing) stop();
      show(Number(slider.value));
    });
    document.getElementById("replay").addEventListener("submit", (event) => event.preventDefault());
    view.addEventListener("click", (event) => {
      if (!event.target.closest("#to-now")) return;
      event.preventDefault();
      stop();
      show(Number(slider.max));
      slider.focus();
    });

    // The server says which step it drew; the run may have continued meanwhile.
    const settle = () => {
      const drawn = view.querySelector("[data-head]");
      if (!drawn) return;
      const following = view.dataset.topic !== "";
      slider.max = drawn.dataset.head;
      document.getElementById("replay-head").textContent = drawn.dataset.head;
      document.getElementById("replay-when").textContent = new Date(drawn.dataset.at).toLocaleString();
      if (!following) return;
      slider.value = drawn.dataset.head;
      document.getElementById("replay-step").textContent = drawn.dataset.head;
    };
    view.addEventListener("awf:swapped", settle);
    settle();

    // While an earlier step is shown, the run continues, and the slider gets longer.
    document.addEventListener("awf:message", ({ detail }) => {
      if (!detail.position || !(detail.topics || []).includes(topic) || view.dataset.topic) return;
      slider.max = Math.max(Number(slider.max), detail.position);
      document.getElementById("replay-head").textContent = slider.max;
    });
  }

  // A chart that is wider than the screen is scrolled to where the run is, or to the middle.

  const canvas = document.getElementById("canvas");
  if (canvas && canvas.scrollWidth > canvas.clientWidth) {
    const current = canvas.querySelector(".current") || canvas.querySelector("svg");
    const box = current.getBoundingClientRect();
    canvas.scrollLeft = box.left + box.width / 2 - canvas.getBoundingClientRect().left - canvas.clientWidth / 2;
  }

  // Logs

  async function grow(log) {
    const answer = await fetch(`${log.dataset.tail}&after=${log.dataset.end}`, { redirect: "error" });
    if (!answer.ok) return;
    const text = await answer.text();
    if (!text || !log.isConnected) return;
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    log.dataset.end = answer.headers.get("X-Awf-End");
    log.append(text);
    if (log.textContent.length > KEPT) log.textContent = log.textContent.slice(-KEPT / 2);
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  async function follow() {
    if (!document.hidden) {
      for (const log of document.querySelectorAll("[data-tail]")) await grow(log).catch(() => {});
    }
    setTimeout(follow, LOOK);
  }

  const toEnds = () => document.querySelectorAll("[data-tail]").forEach((log) => (log.scrollTop = log.scrollHeight));
  if (document.getElementById("visit")) {
    toEnds();
    follow();
  }

  // Forms in live parts keep what was typed.

  const typed = new Map();
  document.addEventListener("input", ({ target }) => {
    if (target.id && target.form && target !== slider) typed.set(target.id, target.type === "checkbox" ? target.checked : target.value);
  });
  document.addEventListener("awf:swapped", () => {
    for (const [id, value] of typed) {
      const field = document.getElementById(id);
      if (field && field.type === "checkbox") field.checked = value;
      else if (field) field.value = value;
    }
  });

  // An option that needs feedback is not sent without it.

  document.addEventListener("click", ({ target }) => {
    const words = target.closest("[name=option]") && target.form.querySelector("textarea");
    if (!words) return;
    words.setCustomValidity(target.dataset.needs && !words.value.trim() ? `"${target.value}" needs feedback.` : "");
  });
}
