// What is said to those who hear the page, and short notes that all can see.

const heard = () => document.getElementById("heard");
const notes = () => document.getElementById("notes");

/** Said once; with `seen`, shown for a moment as well. */
export function announce(text, seen = false) {
  heard().textContent = "";
  requestAnimationFrame(() => (heard().textContent = text));
  if (!seen) return;
  const note = document.createElement("div");
  note.className = "note";
  note.textContent = text;
  notes().append(note);
  setTimeout(() => note.remove(), 4000);
}
