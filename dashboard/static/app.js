// Live updates and the theme. Links and forms work without scripts.
"use strict";
(function () {
  const here = new URL("./", location.href).pathname;
  const live = document.getElementById("live");
  const trouble = document.getElementById("trouble");
  const linkState = document.getElementById("link-state");
  const linkText = document.getElementById("link-text");
  let newest = 0, interval = 2000, watchdog;

  // --- Events of the store. A browser opens at most six connections to a host,
  // so one tab listens for all: the one that holds a lock. It passes events to
  // the others through a channel. Hidden tabs do not take part. Without locks (plain HTTP from another
  // host) each visible tab listens for itself.
  const name = "jobs-dashboard:" + here;
  const channel = window.BroadcastChannel ? new BroadcastChannel(name) : null;
  let source = null, retry = null, wanted = false, abort = null, letGo = null;

  function open() {
    source = new EventSource("events");
    source.addEventListener("tick", function (e) {
      if (channel) channel.postMessage(e.data);
      heard(e.data);
    });
    source.onerror = function () {
      if (source && source.readyState === EventSource.CLOSED) { // refused: the browser does not try again by itself
        close();
        retry = setTimeout(open, 2000);
      }
    };
  }
  function close() {
    clearTimeout(retry);
    if (source) source.close();
    source = null;
  }
  function join() {
    if (wanted) return;
    wanted = true;
    expect();
    if (!navigator.locks || !channel) { open(); return; }
    abort = new AbortController();
    navigator.locks.request(name, { signal: abort.signal }, function () {
      if (!wanted) return;
      open();
      return new Promise(function (resolve) { letGo = resolve; });
    }).catch(function () { /* leave ended the wait for the lock */ });
  }
  function leave() {
    if (!wanted) return;
    wanted = false;
    clearTimeout(watchdog);
    close();
    if (abort) abort.abort();
    if (letGo) letGo();
    abort = letGo = null;
  }
  function attend() { document.visibilityState === "visible" ? join() : leave(); }
  if (channel) channel.onmessage = function (e) { if (wanted) heard(e.data); };
  document.addEventListener("visibilitychange", attend);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", attend);

  // expect shows a message if no event arrives for a while.
  function expect() {
    clearTimeout(watchdog);
    watchdog = setTimeout(function () {
      say("The dashboard does not answer. What is shown is older. Trying again.");
      show("lost", "Not live");
    }, 3 * interval + 2500);
  }
  function say(text) { if (trouble.textContent !== text) trouble.textContent = text; }
  function show(state, text) {
    linkState.className = "link-state " + state;
    if (linkText.textContent !== text) linkText.textContent = text;
  }
  function heard(data) {
    const tick = JSON.parse(data);
    if (tick.seq === newest) return;
    newest = tick.seq;
    interval = tick.interval;
    expect();
    say(tick.text);
    show(tick.ok ? "live" : "lost", !tick.ok ? "Store away" : busy() ? "Live · waits for you" : tick.bulk ? "Live · " + tick.bulk + " bulk" : "Live");
    document.body.dispatchEvent(new CustomEvent("jobs-point", { detail: tick.point }));
    if (tick.ok) document.body.dispatchEvent(new CustomEvent("jobs-tick"));
  }

  // --- The live part of the page is replaced piece by piece, so that focus,
  // scroll position and open parts stay. It does not change while the user is
  // about to decide something in it.
  if (window.Idiomorph) {
    Idiomorph.defaults.callbacks.beforeNodeMorphed = function (old) {
      return !(old.nodeType === 1 && old.hasAttribute("data-keep"));
    };
    Idiomorph.defaults.callbacks.beforeAttributeUpdated = function (attribute, node) {
      return !(attribute === "open" && node.tagName === "DETAILS");
    };
  }
  function busy() {
    if (!live) return false;
    const focused = document.activeElement;
    return live.querySelector("input[type=checkbox]:checked, details.confirm[open], details.decide[open]") !== null ||
      Array.from(live.querySelectorAll("input:not([type=checkbox])")).some(function (i) { return i.value !== i.defaultValue; }) ||
      (live.contains(focused) && /^(INPUT|SELECT|TEXTAREA)$/.test(focused.tagName) && focused.type !== "checkbox") ||
      !getSelection().isCollapsed && live.contains(getSelection().anchorNode);
  }
  document.body.addEventListener("htmx:beforeRequest", function (e) {
    if (e.detail.elt === live && (submitted || busy() || document.visibilityState !== "visible")) e.preventDefault();
  });
  // The answer to a form is a separate page. A refresh at the same time may find that the queue or job
  // is gone already: that is not an error.
  let submitted = false;
  document.addEventListener("submit", function (e) { submitted = !e.defaultPrevented; });
  addEventListener("pageshow", function () { submitted = false; });
  document.body.addEventListener("htmx:beforeSwap", function (e) { // the user began to decide while the answer was on its way
    if (e.detail.elt !== live) return;
    if (submitted) e.detail.isError = false;
    if (submitted || busy()) e.detail.shouldSwap = false;
  });

  // --- Checking all rows of a page.
  document.addEventListener("change", function (e) {
    if (e.target.id === "check-all") document.querySelectorAll("input[name=job]").forEach(function (box) { box.checked = e.target.checked; });
  });

  // --- Light or dark.
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  function dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : system.matches;
  }
  function label() { button.textContent = dark() ? "Light theme" : "Dark theme"; }
  button.hidden = false;
  label();
  button.addEventListener("click", function () {
    const next = dark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    try { localStorage.setItem("jobs-dashboard-theme", next); } catch (e) { /* the choice then holds for this page only */ }
    label();
    document.body.dispatchEvent(new CustomEvent("jobs-theme"));
  });
  system.addEventListener("change", function () { label(); document.body.dispatchEvent(new CustomEvent("jobs-theme")); });

  attend();
})();
