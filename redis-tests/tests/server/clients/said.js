// What all clients in JavaScript say of replies.

const readline = require("node:readline");

/** A reply in words: `int 5`, `bytes 6f6b`, `nil`, `error …`; `array 2` and `map 1` before what is in them. */
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
 * Sends the commands that it is given, and says what the client makes of the replies.
 *
 * A line of standard input is a command, its words in hex, with commas between. A line of standard output is its
 * reply, see `said`. `send` takes the name and the other words, and gives the reply or the server's error.
 */
exports.serve = async (version, send) => {
  console.log(version);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...words] = line.split(",").map((word) => Buffer.from(word, "hex"));
    console.log(said(await send(name.toString(), words)));
  }
};

/** Runs a client to its end. */
exports.run = (main) =>
  main().then(
    () => process.exit(0),
    (error) => {
      console.error(error);
      process.exit(1);
    },
  );
