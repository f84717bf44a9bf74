// Runs the examples of the documentation with ioredis; see said.js.

const { connect, version } = require("./connect.js");
const { run, serve } = require("./said.js");

run(async () => {
  const client = connect();
  await serve(version, async (name, words) => {
    const reply = await client.callBuffer(name, ...words).catch((error) => error);
    if (reply instanceof Error && reply.name !== "ReplyError") throw reply;
    return reply;
  });
});
