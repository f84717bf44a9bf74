// Runs the program in docs/guide/javascript.md, and checks what the package exports.

import assert from "node:assert";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { Server } from "./server.js";

const root = process.env["CRAWLSPACE_ROOT"] ?? join(__dirname, "../../..");

test("the program of the guide runs as it is", async () => {
  const guide = readFileSync(join(root, "docs/guide/javascript.md"), "utf8");
  const blocks = [...guide.matchAll(/^```js\n(.*?)^```$/gms)].map(([, block]) => block);
  assert.ok(blocks.length > 5);
  const program = join(__dirname, "guide.mjs");
  writeFileSync(program, blocks.join(""));
  const server = await Server.start();
  try {
    execFileSync(process.execPath, [program], { env: { ...process.env, PORT: String(server.port) }, timeout: 180_000 });
    assert.notStrictEqual(await server.call("DBSIZE"), 0);
  } finally {
    await server.stop();
  }
});

test("import and require give the same classes", async () => {
  const program = `import { Frontier } from "crawlspace";
    import { createRequire } from "node:module";
    import assert from "node:assert";
    assert.strictEqual(createRequire(import.meta.url)("crawlspace").Frontier, Frontier);`;
  const file = join(__dirname, "modules.mjs");
  writeFileSync(file, program);
  execFileSync(process.execPath, [file]);
});
