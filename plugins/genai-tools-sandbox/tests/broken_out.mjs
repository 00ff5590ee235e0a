// In place of Pyodide: what code could do that has all of Node. A call is an act and its argument.

import fs from "node:fs";
import { Buffer } from "node:buffer";
import net from "node:net";
import dgram from "node:dgram";
import { spawnSync } from "node:child_process";
import { Worker } from "node:worker_threads";
const node = process, say = JSON.stringify;
const kill = process.kill.bind(process);
let print;
const acts = {
  say: async (text) => text,
  env: async () => say(node.env),
  file: async (path) => fs.readFileSync(path, "utf8"),
  list: async (path) => say(fs.readdirSync(path)),
  write: async (path) => fs.writeFileSync(path, "x"),
  spawn: async () => {
    const made = spawnSync("/bin/ls", ["/"]);
    if (made.error) throw made.error;
  },
  worker: async () => new Worker("1", { eval: true }),
  code: async (text) => Function(text)(),
  connect: (port) => new Promise((done, fail) =>
    net.connect({ host: "127.0.0.1", port }).on("connect", () => done("in")).on("error", fail)),
  local: (path) => new Promise((done, fail) =>
    net.connect({ path }).on("connect", () => done("in")).on("error", fail)),
  listen: () => new Promise((done, fail) =>
    net.createServer().on("error", fail).listen(0, "127.0.0.1", () => done("in"))),
  udp: () => new Promise((done, fail) => {
    const made = dgram.createSocket("udp4");
    made.on("error", fail);
    made.send("x", 9, "127.0.0.1", (error) => error ? fail(error) : done("in"));
  }),
  kill: async (pid) => kill(pid, 0),
  json: async (text) => {
    const value = text === "undefined" ? undefined : JSON.parse(text);
    Object.defineProperty(Object.prototype, "toJSON", { get: () => () => value });
  },
  forge: async (text) => { fs.writeSync(3, text); return "done"; },
  exit: async () => node.reallyExit(0),
  spin: async () => { for (;;); },
  wait: () => new Promise(() => { setInterval(() => {}, 1000); }),
  nothing: () => new Promise(() => {}),
  heap: async () => { const all = []; for (;;) all.push([all.length]); },
  memory: async () => { const all = []; for (;;) all.push(Buffer.alloc(2 ** 26, 1)); },
  globals: async () =>
    say(["process", "fetch", "WebSocket", "require"].filter((x) => x in globalThis)),
};
export async function loadPyodide() {
  return {
    version: "0",
    FS: { mkdirTree() {}, chdir() {}, analyzePath: () => ({ exists: false }) },
    setStdout: ({ write }) => { print = write; },
    setStderr() {},
    runPython: () => async (code) => {
      const [act, argument] = JSON.parse(code);
      if (act === "raw") return argument;
      try {
        const told = await acts[act](argument);
        if (told !== undefined) print(Buffer.from(told));
        return say({ error: false, images: [], unseen: 0 });
      } catch (error) {
        print(Buffer.from(String(error.code ?? error.name)));
        return say({ error: true, images: [], unseen: 0 });
      }
    },
  };
}
