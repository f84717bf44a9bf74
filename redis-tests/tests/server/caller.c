/* A module that calls commands of other modules: without a user, from a timer, or during a write. */
#include "redismodule.h"

#define UNUSED(x) ((void)(x))

/* CALLER.CALL command [arg ...]: runs the command and returns its reply. */
static int call(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 2) return RedisModule_WrongArity(ctx);
    const char *name = RedisModule_StringPtrLen(argv[1], NULL);
    RedisModuleCallReply *reply = RedisModule_Call(ctx, name, "v!", argv + 2, (size_t)(argc - 2));
    if (reply == NULL) return RedisModule_ReplyWithError(ctx, "ERR the command was not run");
    RedisModule_ReplyWithCallReply(ctx, reply);
    RedisModule_FreeCallReply(reply);
    return REDISMODULE_OK;
}

struct later {
    int argc;
    RedisModuleString **argv;
};

static void run(RedisModuleCtx *ctx, void *data) {
    struct later *later = data;
    const char *name = RedisModule_StringPtrLen(later->argv[0], NULL);
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, name, "v!", later->argv + 1, (size_t)(later->argc - 1));
    int failed = reply == NULL || RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ERROR;
    if (reply) RedisModule_FreeCallReply(reply);
    reply = RedisModule_Call(ctx, "INCR", "c!", failed ? "caller:failed" : "caller:done");
    if (reply) RedisModule_FreeCallReply(reply);
    for (int i = 0; i < later->argc; i++) RedisModule_FreeString(ctx, later->argv[i]);
    RedisModule_Free(later->argv);
    RedisModule_Free(later);
}

/* CALLER.LATER command [arg ...]: runs the command from a timer, then increments caller:done or :failed. */
static int call_later(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 2) return RedisModule_WrongArity(ctx);
    struct later *later = RedisModule_Alloc(sizeof *later);
    later->argc = argc - 1;
    later->argv = RedisModule_Alloc(sizeof *later->argv * (size_t)later->argc);
    for (int i = 0; i < later->argc; i++) {
        later->argv[i] = RedisModule_CreateStringFromString(NULL, argv[i + 1]);
    }
    RedisModule_CreateTimer(ctx, 0, run, later);
    return RedisModule_ReplyWithSimpleString(ctx, "OK");
}

static RedisModuleString *watched; /* prefix */
static long long looks, refused;

/* CALLER.WATCH prefix: reads this index at each change of a hash. Returns how many reads ran and were BUSY. */
static int watch(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc != 2) return RedisModule_WrongArity(ctx);
    if (watched == NULL) watched = RedisModule_CreateStringFromString(NULL, argv[1]);
    RedisModule_ReplyWithArray(ctx, 2);
    RedisModule_ReplyWithLongLong(ctx, looks);
    return RedisModule_ReplyWithLongLong(ctx, refused);
}

static int on_hash(RedisModuleCtx *ctx, int type, const char *event, RedisModuleString *key) {
    UNUSED(type);
    UNUSED(event);
    UNUSED(key);
    if (watched == NULL) return REDISMODULE_OK;
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "DEDUPE.CRAWLS", "s", watched);
    looks++;
    if (reply == NULL || RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_ERROR) {
        size_t len = 0;
        const char *text = reply ? RedisModule_CallReplyStringPtr(reply, &len) : NULL;
        refused += len >= 5 && text[0] == 'B' && text[1] == 'U' && text[2] == 'S' && text[3] == 'Y';
    }
    if (reply) RedisModule_FreeCallReply(reply);
    return REDISMODULE_OK;
}

int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    UNUSED(argv);
    UNUSED(argc);
    if (RedisModule_Init(ctx, "caller", 1, REDISMODULE_APIVER_1) != REDISMODULE_OK ||
        RedisModule_CreateCommand(ctx, "caller.call", call, "write", 0, 0, 0) != REDISMODULE_OK ||
        RedisModule_CreateCommand(ctx, "caller.watch", watch, "", 0, 0, 0) != REDISMODULE_OK ||
        RedisModule_SubscribeToKeyspaceEvents(ctx, REDISMODULE_NOTIFY_HASH, on_hash) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return RedisModule_CreateCommand(ctx, "caller.later", call_later, "write", 0, 0, 0);
}
