// The threads that were begun in this browser: the API lists none.

const KEY = "genai-host-threads";
const MOST = 200;

/** `{assistant, id, title}` of each, the newest first. */
function all() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    return kept.filter((each) => typeof each?.id === "string" && typeof each.assistant === "string");
  } catch {
    return []; // what stood there is none of ours
  }
}

function keep(threads) {
  try {
    localStorage.setItem(KEY, JSON.stringify(threads.slice(0, MOST)));
  } catch {
    // a browser that keeps nothing forgets them
  }
}

export const threadsOf = (assistant) => all().filter((each) => each.assistant === assistant);

export function remember(assistant, id, title) {
  keep([{ assistant, id, title }, ...all().filter((each) => each.id !== id)]);
}

/** `ids` of threads that are gone. */
export function forget(...ids) {
  const left = all().filter((each) => !ids.includes(each.id));
  keep(left);
}
