// What is said at the end stays in sight, and files that are dropped are taken.

const NEAR = 120; // pixels from the end that still count as there

/** `view` has `transcript`, which scrolls, `list`, which grows in it, and gets `isAtEnd`. */
export function followEnd(view) {
  view.isAtEnd = true;
  let before = 0;
  const scrolled = () => {
    const { scrollHeight, scrollTop, clientHeight } = view.transcript;
    if (scrollHeight - scrollTop - clientHeight < NEAR) view.isAtEnd = true;
    else if (scrollTop < before) view.isAtEnd = false; // and not because there is more now
    before = scrollTop;
  };
  view.transcript.addEventListener("scroll", scrolled, { passive: true });
  new ResizeObserver(() => view.isAtEnd && toEnd(view)).observe(view.list);
}

export function toEnd(view) {
  view.isAtEnd = true;
  view.transcript.scrollTop = view.transcript.scrollHeight;
}

/** `view` has an `element` to drop at, and a `composer`. */
export function takeDrops(view) {
  view.element.addEventListener("dragover", (event) => event.preventDefault());
  view.element.addEventListener("drop", (event) => {
    event.preventDefault();
    view.composer.take([...event.dataTransfer.files]);
  });
}
