// Comfort only: marks the cell whose story is open; the arrows go to its neighbours, Escape goes back to the cell.
(() => {
  const open = () => document.querySelector(".story:target");
  const show = () => {
    document.querySelector(".here")?.classList.remove("here");
    const cell = open() && document.getElementById("at-" + open().id);
    if (!cell) return;
    cell.classList.add("here");
    cell.scrollIntoView({ block: "nearest" });
  };
  const go = (selector) => open()?.querySelector(selector)?.click();
  addEventListener("hashchange", show);
  addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") go(".close");
    if (event.key === "ArrowLeft") go("[rel=prev]");
    if (event.key === "ArrowRight") go("[rel=next]");
  });
  addEventListener("load", show); // the browser has scrolled by then
})();
