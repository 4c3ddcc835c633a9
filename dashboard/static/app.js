// What the pages do beyond links and forms, which work without it: they are
// kept up to date, draw charts, and remember the theme.
"use strict";
(function () {
  const here = new URL("./", location.href).pathname;
  const live = document.getElementById("live");
  const trouble = document.getElementById("trouble");
  const linkState = document.getElementById("link-state");
  const linkText = document.getElementById("link-text");
  let newest = 0, interval = 2000, watchdog;

  // --- News of the store. A browser opens six connections to a host at most,
  // so one tab listens for all: the one that holds a lock. It tells the others
  // by a channel. A tab that is hidden takes no part. Where there are no locks
  // (plain HTTP from another host) each visible tab listens for itself.
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
      if (source && source.readyState === EventSource.CLOSED) { // refused: it does not try again by itself
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
    }).catch(function () { /* no longer wanted */ });
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

  // expect says so when there is no news for a while.
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
    draw(tick.point);
    if (tick.ok) document.body.dispatchEvent(new CustomEvent("jobs-tick"));
  }

  // --- The live part of the page is replaced piece by piece, so that focus,
  // scrolling and what was opened stay. It is left alone while somebody is
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
    if (e.detail.elt === live && (busy() || document.visibilityState !== "visible")) e.preventDefault();
  });
  document.body.addEventListener("htmx:beforeSwap", function (e) { // somebody began while it was on its way
    if (e.detail.elt === live && busy()) e.detail.shouldSwap = false;
  });

  // --- Charts.
  const whole = []; // a queue has no 0.3 jobs
  for (let n = 1; n < 1e12; n *= 10) whole.push(n, 2 * n, 5 * n);
  const charts = {
    depth: { from: 1, steps: whole, series: [["pending", "Pending"], ["scheduled", "Scheduled"], ["active", "Active"], ["retry", "Retry"], ["dead", "Dead"]] },
    rates: { from: 6, series: [["pending", "Enqueued"], ["completed", "Completed"], ["retry", "Retried"], ["dead", "Died"]] }
  };
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5]]; // not told apart by colour alone
  const drawn = [];
  let past = null;

  function draw(point) {
    if (!past || !point[0]) return;
    if (past.length && past[past.length - 1][0] >= point[0]) return;
    past.push(point);
    if (past.length > 450) past.shift();
    drawn.forEach(function (one) { one.plot.setData(columns(one.chart)); newestInLegend(one.plot); });
  }
  // The legend shows the newest values while nobody points at others.
  function newestInLegend(plot) {
    if (plot.cursor.left == null || plot.cursor.left < 0) plot.setLegend({ idx: plot.data[0].length - 1 }, false);
  }
  function time(seconds) { return new Date(seconds * 1000).toLocaleTimeString([], { hour12: false }); }
  function columns(chart) {
    const all = [past.map(function (p) { return p[0] / 1000; })];
    chart.series.forEach(function (_, i) { all.push(past.map(function (p) { return p[chart.from + i]; })); });
    return all;
  }
  function color(variable) { return getComputedStyle(document.documentElement).getPropertyValue("--" + variable).trim(); }
  function plot() {
    drawn.forEach(function (one) { one.plot.destroy(); });
    drawn.length = 0;
    document.querySelectorAll(".chart").forEach(function (place) {
      const chart = charts[place.dataset.chart];
      const axis = { stroke: color("soft"), grid: { stroke: color("line-soft"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "12px system-ui" };
      const options = {
        width: place.clientWidth, height: 190, cursor: { y: false },
        scales: { y: { range: function (_, low, high) { return [0, Math.max(1, high * 1.1 || 1)]; } } },
        axes: [Object.assign({ values: function (_, v) { return v.map(time); }, space: 70 }, axis), Object.assign({ size: 56, incrs: chart.steps, values: function (_, v) { return v.map(short); } }, axis)],
        series: [{ value: function (_, v) { return v == null ? "–" : time(v); } }].concat(chart.series.map(function (s, i) {
          return { label: s[1], stroke: color(s[0]), width: 2, dash: dashes[i], points: { show: false }, value: function (_, v) { return v == null ? "–" : short(v); } };
        }))
      };
      const one = { plot: new uPlot(options, columns(chart), place), chart: chart, place: place };
      newestInLegend(one.plot);
      one.plot.over.addEventListener("mouseleave", function () { newestInLegend(one.plot); });
      drawn.push(one);
    });
  }
  function short(v) {
    if (v >= 1e6) return +(v / 1e6).toFixed(1) + "M";
    if (v >= 1e4) return +(v / 1e3).toFixed(1) + "k";
    return v < 10 ? String(+v.toFixed(v < 1 ? 2 : 1)) : String(Math.round(v));
  }
  const place = document.getElementById("charts");
  if (place && window.uPlot) {
    fetch("history").then(function (r) { return r.json(); }).then(function (points) {
      past = points;
      place.hidden = false;
      plot();
      new ResizeObserver(function () {
        drawn.forEach(function (one) {
          if (one.plot.width !== one.place.clientWidth) one.plot.setSize({ width: one.place.clientWidth, height: 190 });
        });
      }).observe(place);
    }).catch(function () { /* the numbers are there without it */ });
  }

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
    try { localStorage.setItem("jobs-dashboard-theme", next); } catch (e) { /* for this page only, then */ }
    label();
    if (past) plot();
  });
  system.addEventListener("change", function () { label(); if (past) plot(); });

  attend();
})();
