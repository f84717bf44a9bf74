// Functions that all JavaScript clients share: they read commands and print replies.

const readline = require("node:readline");

/** Formats a reply: `int 5`, `bytes 6f6b`, `nil`, `error …`; `array 2` and `map 1` before their elements. */
function said(reply) {
  if (reply === null) return "nil";
  if (reply instanceof Error) return `error ${Buffer.from(reply.message).toString("hex")}`;
  if (Number.isSafeInteger(reply)) return `int ${reply}`;
  if (typeof reply === "string") return said(Buffer.from(reply));
  if (Buffer.isBuffer(reply)) return `bytes ${reply.toString("hex") || "-"}`;
  if (Array.isArray(reply)) return [`array ${reply.length}`, ...reply.map(said)].join(" ");
  if (reply instanceof Map) return ["map " + reply.size, ...[...reply].flat().map(said)].join(" ");
  if (typeof reply === "object") return said(new Map(Object.entries(reply)));
  return `other ${typeof reply}`;
}

/**
 * Sends the commands from standard input, and prints the replies as the client returns them.
 *
 * Each line of standard input is a command: its words in hex, separated by commas. Each line of standard
 * output is the reply, in the format of `said`. `send` takes the name and the other words, and returns the
 * reply or the server's error.
 */
exports.serve = async (version, send) => {
  console.log(version);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...words] = line.split(",").map((word) => Buffer.from(word, "hex"));
    console.log(said(await send(name.toString(), words)));
  }
};

/** Runs a client, and exits with status 1 after an error. */
exports.run = (main) =>
  main().then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
