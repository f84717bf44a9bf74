/**
 * Typed client for the Redis module Crawlspace, on a client of ioredis or node-redis.
 *
 * @packageDocumentation
 */

export type { IoredisClient, NodeRedisClient, RedisClient } from "./clients.js";
export type { LinkOptions } from "./link.js";
export type { Bytes } from "./reply.js";
export * from "./capture.js";
export * from "./dedupe.js";
export * from "./errors.js";
export * from "./leases.js";
export * from "./tags.js";
export {
  Frontier,
  type Counted,
  type Discovery,
  type ExecutionInfo,
  type Expired,
  type Facts,
  type FrontierCheck,
  type FrontierInfo,
  type FrontierOptions,
  type Item,
  type KnownCounts,
  type KnownUri,
  type ListedUrl,
  type Lease,
  type LeasedUri,
  type Limits,
  type NextOptions,
  type Page,
  type PageOptions,
  type Pausable,
  type QueuedGroup,
  type QueuedUri,
  type Release,
  type Settlement,
  type UriState,
  type Why,
} from "./frontier.js";
