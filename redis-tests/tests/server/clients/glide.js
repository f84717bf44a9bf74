// Runs the examples of the documentation with valkey-glide; see said.js. PORT, PROTOCOL and CLUSTER have the
// same meaning as in connect.js. DEFAULTS selects the default protocol and timeout of valkey-glide.

const { Decoder, GlideClient, GlideClusterClient, Logger, ProtocolVersion, RequestError, TimeoutError } =
  require("@valkey/valkey-glide");
const { run, serve } = require("./said.js");

/** Restores the server's error: glide adds a colon after the code word, and replaces ERR by a sentence. */
const whole = (message) =>
  message.replace(/^An error was signalled by the server: - ResponseError: /, "ERR ").replace(/^([A-Z]+): /, "$1 ");

/** Converts maps, which glide returns as lists of objects with a key and a value. */
function plain(reply) {
  if (!Array.isArray(reply)) return reply;
  if (reply.length && reply.every((item) => item && typeof item === "object" && "key" in item && "value" in item)) {
    return new Map(reply.map(({ key, value }) => [plain(key), plain(value)]));
  }
  return reply.map(plain);
}

run(async () => {
  Logger.init("off");
  const protocol = process.env.PROTOCOL === "3" ? ProtocolVersion.RESP3 : ProtocolVersion.RESP2;
  const client = await (process.env.CLUSTER ? GlideClusterClient : GlideClient).createClient({
    addresses: [{ host: "127.0.0.1", port: Number(process.env.PORT) }],
    ...(process.env.DEFAULTS ? {} : { protocol, requestTimeout: 60_000 }),
  });
  // The package does not export its version.
  const { version } = require(`${process.env.NODE_PATH}/@valkey/valkey-glide/package.json`);
  await serve(`valkey-glide ${version}`, async (name, words) => {
    const sent = client.customCommand([name, ...words], { decoder: Decoder.Bytes });
    const reply = await sent.catch((error) => error);
    if (reply instanceof RequestError) return new Error(whole(reply.message));
    if (reply instanceof Error && !(process.env.DEFAULTS && reply instanceof TimeoutError)) throw reply;
    return plain(reply);
  });
});
