// Runs before the page is painted, and sets the theme that the user chose, if any.
(function () {
  document.documentElement.classList.add("js");
  try {
    var theme = localStorage.getItem("jobs-dashboard-theme");
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
  } catch (e) { /* without access to storage, the page uses the system's theme */ }
})();
