// A client as the environment asks for it: PORT, PROTOCOL (2 or 3), CLUSTER (any value, for a cluster), ROUTED
// (any value: it is told where the key stands), DEFAULTS (any value: the protocol that ioredis has by itself).

const Redis = require("ioredis");

if (process.env.ROUTED) {
  // ioredis has the places of keys in a table that comes with it, and knows no command of a module. Prefix and
  // key are the first argument of all of ours.
  const ours = /^(dedupe|chg|tags)\./i;
  const { getKeys } = Redis.Command.prototype;
  Redis.Command.prototype.getKeys = function () {
    return ours.test(this.name) ? this.args.slice(0, 1) : getKeys.call(this);
  };
}

const port = Number(process.env.PORT);
const protocol = Number(process.env.PROTOCOL);
// Without this, ioredis gives the shapes of RESP2 in RESP3, too.
const asked = process.env.DEFAULTS ? {} : { protocol };
const shapes = protocol === 3 ? { ...asked, replyMapping: "resp3" } : asked;

exports.connect = (more = {}) =>
  process.env.CLUSTER
    ? new Redis.Cluster([{ host: "127.0.0.1", port }], { redisOptions: { ...shapes, ...more } })
    : new Redis({ host: "127.0.0.1", port, ...shapes, ...more });

exports.version = `ioredis ${require("ioredis/package.json").version}`;

/** The code word of an error. */
exports.code = (error) => error.message.split(" ", 1)[0];
