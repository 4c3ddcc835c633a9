// The palette: Ctrl-K, or / outside of a field, opens a list of pages and queues, and
// finds a job by its ID. Links lead to all of them, too.
"use strict";
(function () {
  const dialog = document.createElement("dialog");
  if (!dialog.showModal) return;
  dialog.id = "palette";
  dialog.setAttribute("aria-label", "Go to");
  const input = document.createElement("input");
  input.type = "text";
  input.placeholder = "A page, a queue, or the ID of a job";
  for (const [name, value] of Object.entries({ role: "combobox", "aria-label": "Go to", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false" })) input.setAttribute(name, value);
  const list = document.createElement("ul");
  list.id = "palette-list";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Pages and queues");
  const hint = document.createElement("p");
  hint.className = "hint";
  hint.textContent = "↑ ↓ to choose, Enter to go, Esc to leave.";
  dialog.append(input, list, hint);
  document.body.append(dialog);
  const most = 12; // shown at a time
  let pages = [], queues = null, shown = [], at = 0;

  function all() {
    const items = pages.slice();
    (queues || []).forEach(function (q) {
      const name = encodeURIComponent(q.queue);
      items.push({ text: q.queue, kind: q.paused ? "queue, paused" : "queue", to: "queue?name=" + name });
      if (q.counts.dead) items.push({ text: q.queue, kind: q.counts.dead + " dead jobs", to: "dead?queue=" + name });
    });
    return items;
  }
  function search() {
    const words = input.value.trim().toLowerCase().split(/\s+/);
    shown = all().filter(function (item) {
      const text = (item.text + " " + item.kind).toLowerCase();
      return words.every(function (w) { return text.includes(w); });
    }).slice(0, most);
    const id = input.value.trim();
    if (id) shown.push({ text: id, kind: "job with this ID", to: "jobs?id=" + encodeURIComponent(id) });
    at = 0;
    draw();
  }
  function draw() {
    list.replaceChildren.apply(list, shown.map(function (item, n) {
      const li = document.createElement("li");
      li.id = "palette-" + n;
      li.setAttribute("role", "option");
      li.setAttribute("aria-selected", String(n === at));
      const text = document.createElement("bdi"), kind = document.createElement("span");
      text.textContent = item.text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069]/g, "\ufffd"); // untrusted text
      kind.className = "sub";
      kind.textContent = item.kind;
      li.append(text, " ", kind);
      li.addEventListener("click", function () { go(n); });
      return li;
    }));
    const chosen = list.children[at];
    input.setAttribute("aria-activedescendant", chosen ? chosen.id : "");
    if (chosen) chosen.scrollIntoView({ block: "nearest" });
  }
  function go(n) {
    if (!shown[n]) return;
    dialog.close();
    location.href = shown[n].to;
  }
  function open() {
    if (dialog.open) return;
    pages = Array.from(document.querySelectorAll(".side nav a")).map(function (a) { return { text: a.textContent, kind: "page", to: a.getAttribute("href") }; });
    input.value = "";
    search();
    dialog.showModal();
    if (!queues) fetch("stats").then(function (r) { return r.json(); }).then(function (s) { queues = s.queues; search(); }).catch(function () { /* the list still has the pages */ });
  }
  document.addEventListener("keydown", function (e) {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName) || e.target.isContentEditable;
    if ((e.ctrlKey || e.metaKey) && !e.altKey && e.key.toLowerCase() === "k" || e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
      e.preventDefault();
      open();
    }
  });
  input.addEventListener("input", search);
  input.addEventListener("keydown", function (e) {
    if (e.key === "Enter") { e.preventDefault(); go(at); return; }
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
    if (!step || !shown.length) return;
    e.preventDefault();
    at = (at + step + shown.length) % shown.length;
    draw();
  });
  dialog.addEventListener("click", function (e) { if (e.target === dialog) dialog.close(); });
  const button = document.getElementById("open-palette");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", open);
  }
})();
