// Requests to the server. Whatever it is mounted under, its addresses are beside this file's.

const ROOT = new URL("../../", import.meta.url);
const KEY = "genai-host-token";

/** What the server said against a request, or that it was not there. */
export class ApiError extends Error {
  constructor(status, { code = "failed", message = "it failed", hint = "", path = "" } = {}) {
    super(message);
    Object.assign(this, { status, code, hint, path });
  }
}

const heard = { token: async () => null, connection: () => {} };

/** `token`: asks the user for it, and gives it; `connection`: hears whether there is one. */
export function listen(handlers) {
  Object.assign(heard, handlers);
}

/** Take the token out of the address, where it stands once, after the `#`. */
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  keepToken(decoded(found[1]));
  history.replaceState(null, "", location.pathname + location.search);
}

/** A part of an address; one that is encoded wrongly stays as it is. */
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function keepToken(token) {
  sessionStorage.setItem(KEY, token);
}

let asking = null; // several requests are refused at once, and one question is enough

async function request(method, path, body, signal) {
  const isForm = body instanceof FormData;
  const headers = { accept: "application/json" };
  const token = sessionStorage.getItem(KEY);
  if (token) headers.authorization = `Bearer ${token}`;
  else if (isForm) headers.authorization = "Bearer none"; // what no other page's form has
  if (body !== undefined && !isForm) headers["content-type"] = "application/json";
  let reply;
  try {
    reply = await fetch(new URL(path, ROOT), {
      method,
      headers,
      signal,
      body: body === undefined || isForm ? body : JSON.stringify(body),
      credentials: "same-origin",
      redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    heard.connection(false);
    throw offline();
  }
  heard.connection(true);
  if (reply.status !== 401) return reply;
  const isOld = token !== sessionStorage.getItem(KEY); // another request asked meanwhile
  if (isOld) return request(method, path, body, signal);
  asking ??= heard.token(Boolean(token)).finally(() => (asking = null));
  const given = await asking;
  if (!given) throw await problem(reply);
  keepToken(given);
  return request(method, path, body, signal);
}

function offline() {
  return new ApiError(0, {
    code: "offline",
    message: "The server cannot be reached.",
    hint: "Check that genai-host serve is running, then try again.",
  });
}

async function problem(reply) {
  let told = {};
  try {
    told = (await reply.json()).error ?? {};
  } catch {
    told = { message: `The server answered ${reply.status}.` };
  }
  const wait = reply.headers.get("retry-after");
  if (wait && !told.hint) told.hint = `Try again in ${wait} s.`;
  return new ApiError(reply.status, told);
}

/** A JSON value; null for a reply without one. A body is a value, or a form with a file.
 * Raises `ApiError`. */
export async function call(method, path, body, { signal } = {}) {
  const reply = await request(method, path, body, signal);
  if (!reply.ok) throw await problem(reply);
  if (reply.status === 204) return null;
  return reply.json();
}

/** What is no JSON, such as a picture. */
export async function bytes(path) {
  const reply = await request("GET", path);
  if (!reply.ok) throw await problem(reply);
  return reply.blob();
}

/** Server-sent events, one by one as `[name, data]`. Ends when the server ends it. */
export async function* events(path, body, signal) {
  const reply = await request("POST", path, body, signal);
  if (!reply.ok) throw await problem(reply);
  const kind = reply.headers.get("content-type") ?? "";
  if (!kind.startsWith("text/event-stream")) {
    throw new ApiError(reply.status, { message: "The server did not answer with a stream." });
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) {
        const event = read(block);
        if (event) yield event;
      }
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    heard.connection(false);
    throw offline();
  } finally {
    reader.cancel().catch(() => {});
  }
}

function read(block) {
  let name = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  const text = data.join("\n");
  return data.length && text !== "[DONE]" ? [name, JSON.parse(text)] : null;
}
