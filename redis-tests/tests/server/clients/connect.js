// Creates a client from environment variables: PORT; PROTOCOL (2 or 3); CLUSTER (any value: connect to a
// cluster); ROUTED (any value: tell ioredis the position of the key); DEFAULTS (any value: use the default
// protocol of ioredis).

const Redis = require("ioredis");

if (process.env.ROUTED) {
  // ioredis has a built-in table of the positions of keys, without commands of modules. In all commands of
  // this module, the prefix or key is the first argument.
  const ours = /^(dedupe|chg|tags)\./i;
  const { getKeys } = Redis.Command.prototype;
  Redis.Command.prototype.getKeys = function () {
    return ours.test(this.name) ? this.args.slice(0, 1) : getKeys.call(this);
  };
}

const port = Number(process.env.PORT);
const protocol = Number(process.env.PROTOCOL);
// Without `replyMapping`, ioredis converts RESP3 replies to the types of RESP2.
const asked = process.env.DEFAULTS ? {} : { protocol };
const shapes = protocol === 3 ? { ...asked, replyMapping: "resp3" } : asked;

exports.connect = (more = {}) =>
  process.env.CLUSTER
    ? new Redis.Cluster([{ host: "127.0.0.1", port }], { redisOptions: { ...shapes, ...more } })
    : new Redis({ host: "127.0.0.1", port, ...shapes, ...more });

exports.version = `ioredis ${require("ioredis/package.json").version}`;

/** Returns the code word of an error. */
exports.code = (error) => error.message.split(" ", 1)[0];
