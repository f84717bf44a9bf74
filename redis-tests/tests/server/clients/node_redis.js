// Runs the examples of the documentation with node-redis; see said.js. The environment variables PORT,
// PROTOCOL, CLUSTER and DEFAULTS have the same meaning as in connect.js.

const { createClient, createCluster, ErrorReply, RESP_TYPES } = require("redis");
const { run, serve } = require("./said.js");

run(async () => {
  const socket = { host: "127.0.0.1", port: Number(process.env.PORT) };
  const options = {
    ...(process.env.DEFAULTS ? {} : { RESP: Number(process.env.PROTOCOL) }),
    // Return strings as bytes; the default is text.
    commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } },
  };
  const client = process.env.CLUSTER
    ? createCluster({ rootNodes: [{ socket }], ...options })
    : createClient({ socket, ...options });
  client.on("error", (error) => console.error(error));
  await client.connect();
  await serve(`node-redis ${require("redis/package.json").version}`, async (name, words) => {
    const command = [name, ...words];
    // In a cluster, pass the key, which is the first argument of all commands of the module.
    const sent = process.env.CLUSTER ? client.sendCommand(words[0], false, command) : client.sendCommand(command);
    const reply = await sent.catch((error) => error);
    if (reply instanceof Error && !(reply instanceof ErrorReply)) throw reply;
    return reply;
  });
});
