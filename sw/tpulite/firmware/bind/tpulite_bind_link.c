/* From commands in the order of each engine to a program: positions and tokens.
 *
 * An engine completes its commands in order. So what a command needs of an engine is one number,
 * the latest command that must be complete; it waits exactly where the largest such number so far
 * grows, and the command of that number gives the token. */
#include "tpulite_bind_inside.h"

/* A counter of tokens holds so many; one is on its way. */
#define ROOM (TPULITE_TOKEN_MAX - 1)

typedef struct {
    tpulite_binding *binding;
    tpulite_bind_item *items;
    uint32_t starts[3]; /* where the items' `index` lists LOADs, STOREs and computations */
    int32_t giver, taker; /* the latest pair, not yet written */
    uint32_t count, from, to;
    int32_t takers[ROOM]; /* places of those that took the latest tokens */
} linker;

static uint32_t item_of(const linker *l, tpulite_engine engine, int32_t number)
{
    return (uint32_t)l->items[l->starts[engine] + (uint32_t)number].index;
}

static uint32_t on_chip(const linker *l, tpulite_engine engine)
{
    if (engine == TPULITE_ON_ARRAY)
        return l->binding->compute_engine;
    return engine == TPULITE_ON_LOAD ? TPULITE_ENGINE_LOAD : TPULITE_ENGINE_STORE;
}

static void set_bit(const linker *l, uint32_t item, uint32_t bit)
{
    l->binding->commands[item * TPULITE_COMMAND_BYTES + bit / 8] |= (uint8_t)(1u << bit % 8);
}

static void begin(linker *l, tpulite_engine from, tpulite_engine to)
{
    l->from = on_chip(l, from);
    l->to = on_chip(l, to);
    l->count = 0;
}

static void end(linker *l)
{
    if (l->count) {
        set_bit(l, (uint32_t)l->giver, TPULITE_SIGNAL_BIT + l->to);
        set_bit(l, (uint32_t)l->taker, TPULITE_WAIT_BIT + l->from);
    }
}

/* A token from one command to another. Where a counter would be full, the taker of the latest token
 * waits for what this one stands for, too. */
static void token(linker *l, uint32_t giver, uint32_t taker)
{
    if (l->count >= ROOM && l->takers[l->count % ROOM] > l->items[giver].place) {
        l->giver = (int32_t)giver;
        return;
    }
    end(l);
    l->giver = (int32_t)giver;
    l->taker = (int32_t)taker;
    l->takers[l->count++ % ROOM] = l->items[taker].place;
}

/* Number the items of each engine. */
static void part(linker *l, uint32_t count)
{
    uint32_t next[3];
    l->starts[TPULITE_ON_LOAD] = 0;
    l->starts[TPULITE_ON_STORE] = l->binding->loads;
    l->starts[TPULITE_ON_ARRAY] = l->binding->loads + l->binding->stores;
    for (uint32_t i = 0; i < 3; i++)
        next[i] = l->starts[i];
    for (uint32_t i = 0; i < count; i++)
        l->items[next[l->items[i].engine]++].index = (int32_t)i;
}

/* Put each command at its place: behind each computation its STORE, then LOADs that must follow
 * it. LOADs may be `queue_depth` ahead of the computations. */
static void place_all(linker *l)
{
    const tpulite_binding *b = l->binding;
    uint32_t lead = b->range->queue_depth, load = 0, store = 0;
    int32_t place = 0, behind = -1, freed = -1;
    for (int32_t i = -1; i < (int32_t)b->computes; i++) {
        if (i >= 0)
            l->items[item_of(l, TPULITE_ON_ARRAY, i)].place = place++;
        while (store < b->stores && l->items[item_of(l, TPULITE_ON_STORE, (int32_t)store)].due == i)
            l->items[item_of(l, TPULITE_ON_STORE, (int32_t)store++)].place = place++;
        for (; load < b->loads; load++) {
            tpulite_bind_item *item = &l->items[item_of(l, TPULITE_ON_LOAD, (int32_t)load)];
            if (item->freed > freed)
                freed = item->freed;
            if (freed >= 0) {
                int32_t after = freed;
                if (b->freed_by_store)
                    after = l->items[item_of(l, TPULITE_ON_STORE, freed)].due;
                if (after > behind)
                    behind = after;
            }
            if (load >= lead) {
                uint32_t before = item_of(l, TPULITE_ON_LOAD, (int32_t)(load - lead));
                if (l->items[before].due - 1 > behind)
                    behind = l->items[before].due - 1;
            }
            if (behind > i)
                break;
            item->place = place++;
        }
    }
}

/* Let commands of an engine wait for others: what each needs is in `freed`. */
static void wait_for_freed(linker *l, tpulite_engine from, tpulite_engine to, uint32_t count)
{
    int32_t latest = -1;
    begin(l, from, to);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t taker = item_of(l, to, (int32_t)i);
        if (l->items[taker].freed > latest) {
            latest = l->items[taker].freed;
            token(l, item_of(l, from, latest), taker);
        }
    }
    end(l);
}

/* Let computations wait for LOADs, and STOREs for computations. */
static void wait_for_data(linker *l)
{
    const tpulite_binding *b = l->binding;
    int32_t latest = -1;
    for (uint32_t i = 0; i < b->loads; i++) {
        int32_t first = l->items[item_of(l, TPULITE_ON_LOAD, (int32_t)i)].first;
        l->items[item_of(l, TPULITE_ON_ARRAY, first)].first = (int32_t)i;
    }
    begin(l, TPULITE_ON_LOAD, TPULITE_ON_ARRAY);
    for (uint32_t i = 0; i < b->computes; i++) {
        uint32_t taker = item_of(l, TPULITE_ON_ARRAY, (int32_t)i);
        if (i && b->compute_engine == TPULITE_ENGINE_MXU && l->items[taker].due <= latest)
            set_bit(l, taker, TPULITE_PREFETCH_BIT);
        if (l->items[taker].first > latest) {
            latest = l->items[taker].first;
            token(l, item_of(l, TPULITE_ON_LOAD, latest), taker);
        }
    }
    end(l);
    begin(l, TPULITE_ON_ARRAY, TPULITE_ON_STORE);
    for (uint32_t i = 0; i < b->stores; i++) {
        uint32_t taker = item_of(l, TPULITE_ON_STORE, (int32_t)i);
        token(l, item_of(l, TPULITE_ON_ARRAY, l->items[taker].due), taker);
    }
    end(l);
}

/* Move all commands to their places. */
static void move(const linker *l, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        while (l->items[i].place != (int32_t)i) {
            uint32_t there = (uint32_t)l->items[i].place;
            uint8_t *a = l->binding->commands + i * TPULITE_COMMAND_BYTES;
            uint8_t *b = l->binding->commands + there * TPULITE_COMMAND_BYTES;
            for (uint32_t j = 0; j < TPULITE_COMMAND_BYTES; j++) {
                uint8_t byte = a[j];
                a[j] = b[j];
                b[j] = byte;
            }
            l->items[i].place = l->items[there].place;
            l->items[there].place = (int32_t)there;
        }
    }
}

void tpulite_link(tpulite_binding *binding)
{
    linker l = {0};
    l.binding = binding;
    l.items = binding->bound->work;
    uint32_t count = binding->count;
    part(&l, count);
    place_all(&l);
    tpulite_engine freeing = binding->freed_by_store ? TPULITE_ON_STORE : TPULITE_ON_ARRAY;
    wait_for_freed(&l, freeing, TPULITE_ON_LOAD, binding->loads);
    wait_for_data(&l);
    wait_for_freed(&l, TPULITE_ON_STORE, TPULITE_ON_ARRAY, binding->computes);
    move(&l, count);
    uint8_t *last = binding->commands + count * TPULITE_COMMAND_BYTES;
    for (uint32_t i = 0; i < TPULITE_COMMAND_BYTES; i++)
        last[i] = i ? 0 : TPULITE_OPCODE_END;
    binding->bound->program.command_count = count + 1;
}
