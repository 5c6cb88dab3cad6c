"use strict";
// Everything that is shown was written into templates when the page was made: nothing here makes HTML from text.
const look = document.getElementById("look");
const looked = document.getElementById("looked");
let pinned = null; // the button that was chosen; pointing elsewhere changes nothing until it is let go
let shown = null;
const narrow = matchMedia("(max-width: 60rem)");

function show(button) {
  if (button === shown) return;
  const section = button.closest("details.network");
  const [about, cards] = section.querySelectorAll(":scope > template");
  const article = about.content.querySelector(`[data-id="${button.dataset.about}"]`);
  if (!article) return;
  const copy = article.cloneNode(true);
  for (const slot of copy.querySelectorAll("[data-points]")) {
    for (const place of slot.dataset.points.split(" ")) {
      const card = cards.content.children[Number(place)];
      if (card) slot.append(card.cloneNode(true));
    }
  }
  looked.replaceChildren(copy);
  look.hidden = false;
  look.scrollTop = 0;
  if (shown) shown.classList.remove("shown");
  shown = button;
  button.classList.add("shown");
}

function pin(button) {
  if (pinned) pinned.setAttribute("aria-pressed", "false");
  pinned = button;
  if (button) button.setAttribute("aria-pressed", "true");
}

function hide() {
  if (pinned) pinned.focus({ preventScroll: true }); // while it is still chosen: its focus shows nothing again
  pin(null);
  if (shown) shown.classList.remove("shown");
  shown = null;
  look.hidden = true;
}

const pointedAt = (event) => (event.target instanceof Element ? event.target.closest("[data-about]") : null);

document.addEventListener("pointerover", (event) => {
  const button = pointedAt(event);
  if (button && event.pointerType === "mouse" && !pinned) show(button);
});
document.addEventListener("focusin", (event) => {
  const button = pointedAt(event);
  if (button && !pinned && button.matches(":focus-visible")) show(button);
});
document.addEventListener("click", (event) => {
  const button = pointedAt(event);
  if (!button) return;
  if (button === pinned) {
    pin(null);
    return;
  }
  pin(button);
  show(button);
  if (narrow.matches) button.scrollIntoView({ block: "nearest" }); // out from under what is shown
});
document.getElementById("close").addEventListener("click", hide);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !look.hidden) hide();
});

// A link to a section opens it; on a phone, the contents close behind it.
const contents = document.getElementById("contents");
function open() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const section = target.closest("details");
  if (section) section.open = true;
  target.scrollIntoView();
}
function fit() {
  contents.open = !narrow.matches;
}
narrow.addEventListener("change", fit);
addEventListener("hashchange", open);
contents.addEventListener("click", (event) => {
  if (event.target instanceof HTMLAnchorElement) {
    if (narrow.matches) contents.open = false;
    if (event.target.hash === location.hash) open();
  }
});
fit();
if (location.hash) open();
