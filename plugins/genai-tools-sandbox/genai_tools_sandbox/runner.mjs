// What Node runs: Pyodide, and a loop that takes one call after the other.
//
// Lines of JSON come in at descriptor 0. The first has `secret`, the folder of Pyodide, the file of
// its snapshot if there is one, whether to make one, and the bounds; each further one is a call. A
// line at descriptor 3 answers each: the secret, a space, JSON. The code that is run cannot know the
// secret, so it cannot answer for this file.

import { constants, readFileSync, readSync, writeSync } from "node:fs";

const { parse, stringify } = JSON;
const { alloc, concat, from } = Buffer;
const exit = process.reallyExit.bind(process);
const decode = TextDecoder.prototype.decode.bind(new TextDecoder());

const FOLDER = "/mnt/data";
const MOST_DEPTH = 8;
const MOST_SEEN = 2000;

const BOOT = `
def _boot():
    import base64, builtins, json, linecache, os, posix, random, sys, traceback
    from pyodide.code import eval_code_async

    space = {"__name__": "__main__", "__builtins__": builtins}
    out, err = sys.stdout, sys.stderr
    for stream in (out, err):
        stream.reconfigure(errors="backslashreplace")
    images = []
    unseen = 0

    def display(*values):
        "Show values as the last expression of the code is shown."
        nonlocal unseen
        for value in values:
            for kind, name in (("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_")):
                make = getattr(type(value), name, None)
                data = make(value) if callable(make) else None
                if isinstance(data, (bytes, bytearray)):
                    if len(images) < 10:
                        images.append([kind, base64.b64encode(data).decode()])
                    else:
                        unseen += 1
                    break
            else:
                out.write(repr(value) + "\\n")

    async def run(code):
        nonlocal unseen
        images.clear()
        unseen = 0
        failed = False
        name = "<code>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            value = await eval_code_async(code, space, filename=name)
            if value is not None:
                space["_"] = value
                display(value)
        except BaseException as error:
            failed = True
            at = error.__traceback__
            while at is not None and at.tb_frame.f_code.co_filename != name:
                at = at.tb_next
            err.write("".join(traceback.format_exception(type(error), error, at)))
        for stream in (sys.stdout, sys.stderr, out, err):
            try:
                stream.flush()
            except Exception:
                pass
        return json.dumps({"error": failed, "images": images, "unseen": unseen})

    def system(command):
        raise OSError("there are no other programs here")

    random.seed()  # a snapshot has the seed of the process that made it
    builtins.display = display
    os.system = posix.system = system  # Pyodide's own ends the process
    return run

_boot()
`;

// Lines

let rest = alloc(0);

function readLine() {
  const pieces = [rest];
  let at = rest.indexOf(10);
  while (at < 0) {
    const block = alloc(1 << 16);
    const count = readSync(0, block, 0, block.length);
    if (count === 0) exit(0); // the host has gone
    const piece = block.subarray(0, count);
    at = piece.indexOf(10);
    if (at >= 0) at += pieces.reduce((sum, each) => sum + each.length, 0);
    pieces.push(piece);
  }
  const whole = concat(pieces);
  rest = from(whole.subarray(at + 1));
  const line = whole.toString("utf8", 0, at);
  whole.fill(0);
  for (const piece of pieces) piece.fill(0);
  return line;
}

const first = parse(readLine());
const { secret, folder, snapshot, makesSnapshot, mostOutput, mostFiles, mostBytes } = first;

function answer(value) {
  const line = from(secret + " " + stringify(value) + "\n");
  let done = 0;
  while (done < line.length) done += writeSync(3, line, done);
}

// Output: bytes, as many as are wanted

let printed = [];
let kept = 0;
let dropped = 0;

function take(bytes) {
  const room = mostOutput - kept;
  if (room > 0) {
    const piece = from(bytes.subarray(0, room));
    printed.push(piece);
    kept += piece.length;
  }
  dropped += Math.max(0, bytes.length - Math.max(0, room));
  return bytes.length;
}

// Files

const given = new Map();

function put(FS, files) {
  for (const { name, data } of files) {
    if (given.get(name) === data) continue; // the code may have changed it since
    const path = FOLDER + "/" + name;
    const above = path.slice(0, path.lastIndexOf("/"));
    FS.mkdirTree(above);
    FS.writeFile(path, from(data, "base64"));
    FS.utime(path, 1000, 1000); // whatever is written now changes its time
    given.set(name, data);
  }
}

function* walk(FS, path, depth) {
  for (const name of FS.readdir(path)) {
    if (name === "." || name === "..") continue;
    const below = path + "/" + name;
    const found = FS.lstat(below);
    if (FS.isDir(found.mode) && depth < MOST_DEPTH) yield* walk(FS, below, depth + 1);
    else if (FS.isFile(found.mode)) yield [below, found.size, +found.mtime];
  }
}

function look(FS) {
  const seen = new Map();
  seen.isCut = false;
  if (!FS.analyzePath(FOLDER).exists) return seen;
  for (const [path, size, time] of walk(FS, FOLDER, 0)) {
    seen.isCut = seen.size >= MOST_SEEN;
    if (seen.isCut) break;
    seen.set(path, { size, mark: size + " " + time });
  }
  return seen;
}

function changed(FS, before) {
  const files = [];
  const seen = look(FS);
  const leftOut = seen.isCut ? [`all after the first ${MOST_SEEN}`] : [];
  let bytes = 0;
  for (const [path, { size, mark }] of seen) {
    if (before.get(path)?.mark === mark) continue;
    const name = path.slice(FOLDER.length + 1);
    if (files.length >= mostFiles || bytes + size > mostBytes) {
      leftOut.push(name.slice(0, 200));
      continue;
    }
    const data = FS.readFile(path);
    bytes += data.length;
    if (bytes <= mostBytes) files.push({ name, data: from(data).toString("base64") });
  }
  return { files, left_out: leftOut.slice(0, 20) };
}

// Pyodide

process.binding = () => ({ fs: constants }); // that is all that Pyodide asks of it
process.on("uncaughtException", () => {});
process.on("unhandledRejection", () => {});
process.on("beforeExit", () => { // nothing is left that the code could wait for
  answer({ fatal: "nothing is left that it could wait for" });
  exit(1);
});
const { loadPyodide } = await import(folder + "/pyodide.mjs");
const nothing = Object.create(null);
for (const name of ["clearTimeout", "setTimeout", "Array", "Map", "Object", "Promise", "Uint8Array"])
  nothing[name] = globalThis[name];
const pyodide = await loadPyodide({
  indexURL: folder + "/",
  jsglobals: nothing,
  env: { HOME: "/home/pyodide", _: "/usr/bin/python" },
  stdin: () => null,
  fullStdLib: false,
  _makeSnapshot: makesSnapshot,
  _loadSnapshot: snapshot && readFileSync(snapshot),
});
if (makesSnapshot) {
  answer({ snapshot: from(pyodide.makeMemorySnapshot()).toString("base64") });
  exit(0);
}
const FS = pyodide.FS;
pyodide.setStdout({ write: take });
pyodide.setStderr({ write: take });
FS.mkdirTree(FOLDER);
FS.chdir(FOLDER);
const run = pyodide.runPython(BOOT);
for (const [name, system] of Object.entries(FS.filesystems ?? {}))
  if (name.startsWith("NODE")) {
    for (const key of Object.keys(system)) delete system[key];
    delete FS.filesystems[name];
  }
for (const name of ["mountNativeFS", "mountNodeFS", "useNodeSockFS"]) delete pyodide[name];
for (const name of [
  "BroadcastChannel", "Buffer", "EventSource", "WebSocket", "Worker", "fetch", "global",
  "localStorage", "navigator", "process", "require", "sessionStorage",
])
  delete globalThis[name];

answer({ ready: pyodide.version });
for (;;) {
  const { code, files } = parse(readLine());
  printed = [];
  kept = dropped = 0;
  try {
    put(FS, files);
  } catch {
    const text = "The files could not be put into /mnt/data: something is in their way.";
    answer({ error: true, images: [], unseen: 0, files: [], left_out: [], text, dropped: 0 });
    continue;
  }
  try {
    const before = look(FS);
    const result = parse(await run(code));
    const text = decode(concat(printed));
    answer({ ...result, ...changed(FS, before), text, dropped });
  } catch (error) {
    answer({ fatal: String(error?.message ?? error).slice(0, 2000) });
    exit(1);
  }
}
