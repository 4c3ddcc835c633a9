// Keeps the numbers and the history of the page up to date. The forms are left alone.
"use strict";
setInterval(function () {
  if (document.visibilityState !== "visible") return;
  fetch("demo").then(function (r) { return r.ok ? r.text() : Promise.reject(); }).then(function (html) {
    const page = new DOMParser().parseFromString(html, "text/html");
    for (const id of ["now", "history"]) document.getElementById(id).innerHTML = page.getElementById(id).innerHTML;
  }).catch(function () { /* the demo has ended, or is busy */ });
}, 1000);
