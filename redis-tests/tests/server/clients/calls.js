// Sends the commands that it is given, and says what the client makes of the replies.
//
// A line of standard input is a command, its words in hex, with commas between. A line of standard output is its
// reply, see `said`.

const readline = require("node:readline");
const { connect, version } = require("./connect.js");

/** A reply in words: `int 5`, `bytes 6f6b`, `nil`, `error …`; `array 2` and `map 1` before what is in them. */
function said(reply) {
  if (reply === null) return "nil";
  if (reply instanceof Error) return `error ${Buffer.from(reply.message).toString("hex")}`;
  if (Number.isSafeInteger(reply)) return `int ${reply}`;
  if (Buffer.isBuffer(reply)) return `bytes ${reply.toString("hex") || "-"}`;
  if (Array.isArray(reply)) return [`array ${reply.length}`, ...reply.map(said)].join(" ");
  if (typeof reply === "object") {
    // Names of fields are text, whatever is asked for.
    const pairs = Object.entries(reply).flatMap(([name, value]) => [said(Buffer.from(name)), said(value)]);
    return [`map ${pairs.length / 2}`, ...pairs].join(" ");
  }
  return `other ${typeof reply}`;
}

async function main() {
  const client = connect();
  console.log(version);
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [name, ...words] = line.split(",").map((word) => Buffer.from(word, "hex"));
    const reply = await client.callBuffer(name.toString(), ...words).catch((error) => error);
    if (reply instanceof Error && reply.name !== "ReplyError") throw reply;
    console.log(said(reply));
  }
  client.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
