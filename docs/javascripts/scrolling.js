// Code and tables that scroll can be reached by keyboard.
addEventListener("load", () => {
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
});
