// Runs before the first paint, so that a chosen theme does not flash.
(function () {
  try {
    const theme = localStorage.getItem('forge-dashboard-theme');
    if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  } catch (e) {
    // Storage is blocked: the theme of the system applies.
  }
})();
