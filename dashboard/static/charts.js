// Charts of what a queue, or all queues, did over a span, from the history in the
// store or live. The numbers are also on the page and in "stats".
"use strict";
(function () {
  const place = document.getElementById("charts-place");
  const say = document.getElementById("charts-say");
  if (!place || !window.uPlot) return;
  const from = place.dataset.from, spans = { "1h": 3600, "24h": 86400, "7d": 7 * 86400, "90d": 90 * 86400 };
  const span = spans[place.dataset.span] || 0;
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5]]; // lines must not differ by colour alone
  const whole = []; // a queue has no 0.3 jobs
  for (let n = 1; n < 1e12; n *= 10) whole.push(n, 2 * n, 5 * n);
  const rate = function (name) { return function (p) { return p.totals[name] / p.span_seconds; }; };
  const field = function (name) { return function (p) { return p[name]; }; };
  const within = function (what, share) { return function (p) { return p[what] ? p[what][share] : null; }; };
  const spread = function (what) { return [["completed", "p50", within(what, "p50")], ["pending", "p95", within(what, "p95")], ["scheduled", "p99", within(what, "p99")]]; };
  const at = function (n) { return function (p) { return p[n]; }; };

  // Each step of the history is drawn as one value. Depths are those of a moment.
  const charts = {
    throughput: { steps: true, series: [["pending", "Enqueued", rate("enqueued")], ["completed", "Completed", rate("completed")]] },
    failures: { steps: true, series: [["retry", "Failed runs", rate("failed")], ["scheduled", "Crashes", rate("crashed")], ["dead", "Died", rate("dead")]] },
    wait: { steps: true, unit: duration, series: spread("wait_seconds") },
    run: { steps: true, unit: duration, series: spread("run_seconds") },
    backlog: { incrs: whole, series: [["pending", "Pending", field("pending")], ["active", "Active", field("active")], ["retry", "Retry", field("retry")], ["dead", "Dead", field("dead")]] },
    depth: { incrs: whole, series: [["pending", "Pending", at(1)], ["scheduled", "Scheduled", at(2)], ["active", "Active", at(3)], ["retry", "Retry", at(4)], ["dead", "Dead", at(5)]] },
    rates: { series: [["pending", "Enqueued", at(6)], ["completed", "Completed", at(7)], ["retry", "Retried", at(8)], ["dead", "Died", at(9)]] }
  };
  const drawn = [];
  let points = [], deploys = [], now = 0;

  function when(p) { return from ? Date.parse(p.until) / 1000 : p[0] / 1000; }
  function columns(chart) {
    const rows = points.slice();
    const all = [rows.map(when)];
    chart.series.forEach(function (s) { all.push(rows.map(s[2])); });
    if (chart.steps && rows.length) { // the beginning of the first step
      all.forEach(function (column, n) { column.unshift(n ? column[0] : column[0] - rows[0].span_seconds); });
    }
    return all;
  }
  function color(variable) { return getComputedStyle(document.documentElement).getPropertyValue("--" + variable).trim(); }
  // Times are UTC, like all times of the pages.
  const zone = { timeZone: "UTC" };
  const hours = Object.assign({ hourCycle: "h23", hour: "2-digit", minute: "2-digit" }, zone, span ? {} : { second: "2-digit" });
  function clock(seconds) { return new Date(seconds * 1000).toLocaleTimeString([], hours); }
  function day(seconds) { return new Date(seconds * 1000).toLocaleDateString([], Object.assign({ month: "short", day: "numeric" }, zone)); }
  function moment(seconds) { return span > 86400 ? day(seconds) + " " + clock(seconds) : clock(seconds); }
  function tick(seconds) { return span > 86400 ? day(seconds) : clock(seconds); }
  function short(v) {
    if (v >= 1e6) return +(v / 1e6).toFixed(1) + "M";
    if (v >= 1e4) return +(v / 1e3).toFixed(1) + "k";
    return v < 10 ? String(+v.toFixed(v < 1 ? 2 : 1)) : String(Math.round(v));
  }
  function duration(v) {
    if (v === 0) return "0";
    if (v < 1) return +(v * 1000).toPrecision(2) + "ms"; // two digits, as percentiles are known
    if (v < 120) return +v.toPrecision(v < 100 ? 2 : 3) + "s";
    return v < 7200 ? Math.round(v / 60) + "m" : +(v / 3600).toFixed(1) + "h";
  }

  // pauses returns the spans of steps at whose end the queue was paused.
  function pauses() {
    const all = [];
    if (from) points.forEach(function (p) {
      if (!p.paused) return;
      const to = when(p), begin = to - p.span_seconds, last = all[all.length - 1];
      if (last && begin - last[1] < 1) last[1] = to; else all.push([begin, to]);
    });
    return all;
  }
  function mark(u) {
    const c = u.ctx, top = u.bbox.top, high = u.bbox.height;
    const x = function (t) { return Math.min(Math.max(u.valToPos(t, "x", true), u.bbox.left), u.bbox.left + u.bbox.width); };
    c.save();
    c.fillStyle = color("warn-ground");
    pauses().forEach(function (p) { c.fillRect(x(p[0]), top, Math.max(x(p[1]) - x(p[0]), 2), high); });
    c.strokeStyle = color("scheduled");
    c.lineWidth = 1.5 * devicePixelRatio;
    c.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    deploys.forEach(function (d) {
      const left = x(Date.parse(d.at) / 1000);
      c.beginPath(); c.moveTo(left, top); c.lineTo(left, top + high); c.stroke();
    });
    c.restore();
  }

  // The legend shows the newest values, or those under the pointer.
  function newestInLegend(plot) {
    if (plot.cursor.left != null && plot.cursor.left >= 0) return;
    let newest = plot.data[0].length - 1; // percentiles come a minute or two later
    for (let n = newest; n > newest - 4 && n >= 0; n--) if (plot.data.some(function (column, i) { return i > 0 && column[n] != null; })) { newest = n; break; }
    plot.setLegend({ idx: newest }, false);
  }
  function plot() {
    drawn.forEach(function (one) { one.plot.destroy(); });
    drawn.length = 0;
    place.querySelectorAll(".chart").forEach(function (holder) {
      const chart = charts[holder.dataset.chart], write = chart.unit || short;
      const axis = { stroke: color("soft"), grid: { stroke: color("line-soft"), width: 1 }, ticks: { stroke: color("line"), width: 1 }, font: "12px system-ui" };
      const options = {
        width: holder.clientWidth, height: 190, cursor: { y: false }, hooks: { drawClear: [mark], ready: [newestInLegend] },
        tzDate: function (seconds) { return uPlot.tzDate(new Date(seconds * 1000), "UTC"); }, // so that ticks are at whole hours and days
        scales: {
          x: { range: function (_, low, high) { return span ? [now - span, now] : [low, high]; } },
          y: { range: function (_, low, high) { return [0, Math.max(chart.incrs ? 1 : 0.001, high * 1.1 || (chart.unit ? 0.1 : 1))]; } }
        },
        axes: [Object.assign({ values: function (_, v) { return v.map(tick); }, space: 70 }, axis), Object.assign({ size: 56, incrs: chart.incrs, values: function (_, v) { return v.map(write); } }, axis)],
        series: [{ label: "Time, UTC", value: function (_, v) { return v == null ? "–" : moment(v); } }].concat(chart.series.map(function (s, i) {
          return {
            label: s[1], stroke: color(s[0]), width: 2, dash: dashes[i], points: { show: false }, spanGaps: false,
            paths: chart.steps ? uPlot.paths.stepped({ align: -1 }) : undefined,
            value: function (_, v) { return v == null ? "–" : write(v); }
          };
        }))
      };
      const one = { plot: new uPlot(options, columns(chart), holder), chart: chart, holder: holder };
      one.plot.over.addEventListener("mouseleave", function () { newestInLegend(one.plot); });
      drawn.push(one);
    });
  }
  function show() {
    place.hidden = !points.length;
    const marks = deploys.map(function (d) { return d.program + " since " + moment(Date.parse(d.at) / 1000); })
      .concat(pauses().map(function (p) { return "paused " + moment(p[0]) + " to " + moment(p[1]); }));
    const text = !points.length ? "There is no history of this span yet. A server of the store keeps a point a minute."
      : marks.length ? "Marked, in UTC: " + marks.slice(-12).join("; ") + "." : "";
    if (say.textContent !== text) say.textContent = text;
    if (place.hidden) return;
    if (drawn.length) drawn.forEach(function (one) { one.plot.setData(columns(one.chart)); newestInLegend(one.plot); });
    else plot();
  }
  function load() {
    fetch(from || "live").then(function (r) { return r.ok ? r.json() : Promise.reject(r.status); }).then(function (reply) {
      if (!from) points = reply;
      else {
        points = reply.history.periods;
        deploys = reply.history.deploys;
        now = Date.parse(points.length ? points[points.length - 1].until : reply.now) / 1000;
      }
      show();
    }).catch(function () { if (!points.length) say.textContent = "The history could not be read now."; });
  }
  load();
  if (from) setInterval(function () { if (document.visibilityState === "visible") load(); }, 30000); // a point a minute
  else document.body.addEventListener("jobs-point", function (e) {
    const point = e.detail;
    if (!drawn.length || !point[0] || points.length && points[points.length - 1][0] >= point[0]) return;
    points.push(point);
    if (points.length > 450) points.shift();
    show();
  });
  document.body.addEventListener("jobs-theme", function () { if (drawn.length) plot(); });
  new ResizeObserver(function () {
    drawn.forEach(function (one) {
      if (one.plot.width !== one.holder.clientWidth) one.plot.setSize({ width: one.holder.clientWidth, height: 190 });
    });
  }).observe(place);
})();
