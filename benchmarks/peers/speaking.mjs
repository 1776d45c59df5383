// What the adapters on Node have in common; speaking.py says what is spoken. process.hrtime is CLOCK_MONOTONIC, too.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(new URL("../node/package.json", import.meta.url));
const GLANCE = 5;
const PATIENCE = 60_000;
const SETTLING = 20;

export class Unsupported extends Error {}

/** A package of benchmarks/node, whose node_modules is not above this file. */
export const load = (name) => import(require.resolve(name));
export const clock = () => Number(process.hrtime.bigint()) / 1e9;

const installed = (name) => JSON.parse(readFileSync(new URL(`../node/node_modules/${name}/package.json`, import.meta.url))).version;
const timing = (seconds, count) => ({ seconds, count });

function sizes(count, size) {
  const found = Array(Math.floor(count / size)).fill(size);
  return count % size ? [...found, count % size] : found;
}

/** Ordered events in runs in which no key comes twice: what is inserted at once has one time, and no order of its own. */
export function* withoutRepeats(events) {
  let run = new Map();
  for (const event of events) {
    if (run.has(event.key)) {
      yield [...run.values()];
      run = new Map();
    }
    run.set(event.key, event);
  }
  yield [...run.values()];
}

/** Counts handled events and notes when the last one was; of ordered ones also whether they came in order. */
class Tally {
  count = 0;
  began = 0;
  ended = 0;
  outOfOrder = 0;
  last = new Map();

  constructor(wanted, ordered = false) {
    this.wanted = wanted;
    this.handled = ordered ? (event) => this.inOrder(event) : () => this.one();
  }

  one() {
    this.count += 1;
    if (this.count === 1) this.began = clock();
    if (this.count === this.wanted) this.ended = clock();
  }

  inOrder({ key, number }) {
    if ((this.last.get(key) ?? -1) >= number) this.outOfOrder += 1;
    this.last.set(key, number);
    this.one();
  }
}

/**
 * A peer has: packages, settings, prepare(url, notify), close(), publishOne(payload), publishBatch(payloads), waiting(),
 * worker(handled, ordered) that resolves to a function which stops it, publishOrdered(events) where it can, and ready()
 * where something has to be connected for a worker before the clock starts.
 */
class Speaker {
  constructor(peer) {
    this.peer = peer;
  }

  async prepare({ url, payload, notify }) {
    this.payload = payload;
    await this.peer.prepare(url, notify);
    const names = [...this.peer.packages, "pg"];
    const versions = Object.fromEntries(names.map((name) => [name, installed(name)]));
    return { versions: { ...versions, node: process.versions.node }, settings: this.peer.settings };
  }

  async publish({ count, at_once }) {
    let number = 0;
    const publisher = async () => {
      while (number++ < count) await this.peer.publishOne(this.payload);
    };
    await Promise.all(Array.from({ length: at_once }, () => this.peer.publishOne(this.payload)));
    const started = clock();
    await Promise.all(Array.from({ length: at_once }, publisher));
    return timing(clock() - started, count);
  }

  async batch({ count, size }) {
    const payloads = Array(size).fill(this.payload);
    await this.peer.publishBatch(payloads.slice(0, 1));
    const started = clock();
    for (const length of sizes(count, size)) await this.peer.publishBatch(payloads.slice(0, length));
    return timing(clock() - started, count);
  }

  async fill({ count }) {
    for (const length of sizes(count, 1000)) await this.peer.publishBatch(Array(length).fill(this.payload));
    return { count };
  }

  async drain({ count, seconds, settle }) {
    return this.empty(new Tally(count), seconds, { settle });
  }

  async ordered({ count, keys, seconds }) {
    if (!this.peer.publishOrdered) throw new Unsupported("it has no order by key");
    const events = Array.from({ length: count }, (_, number) => ({ ...this.payload, key: `key-${number % keys}`, number }));
    for (let begin = 0; begin < count; begin += 1000) await this.peer.publishOrdered(events.slice(begin, begin + 1000));
    const tally = new Tally(count, true);
    const found = await this.empty(tally, seconds, { ordered: true, settle: true });
    if (tally.outOfOrder) throw new Error(`${tally.outOfOrder} events came before an older one of their key`);
    return found;
  }

  async empty(tally, seconds, { ordered, settle }) {
    await this.peer.ready?.();
    const started = clock();
    const stop = await this.peer.worker(tally.handled, ordered);
    while (tally.count < tally.wanted && clock() - started < seconds) await sleep(GLANCE);
    const ended = tally.ended || clock();
    const done = Math.min(tally.count, tally.wanted);
    const emptied = settle && tally.count >= tally.wanted ? await this.settled() : null;
    await stop();
    const first = Math.max(tally.began - started, 0);
    const settled = emptied && Math.max(emptied, ended) - started;
    return { ...timing(ended - started, done), handled: tally.count, first, settled, left: await this.peer.waiting() };
  }

  /** When the tables said that nothing is left: the moment at which the question was sent that found it so. */
  async settled() {
    const until = clock() + SETTLING;
    for (let asked = clock(); asked < until; asked = clock()) {
      if ((await this.peer.waiting()) === 0) return asked;
      await sleep(GLANCE);
    }
    return null;
  }

  async latency({ count }) {
    let heard;
    await this.peer.ready?.();
    const stop = await this.peer.worker(() => heard(clock()));
    const found = { after_return: [], after_call: [] };
    for (let number = 0; number <= count; number += 1) {
      await sleep(10 + 10 * Math.random());
      const started = new Promise((resolve, reject) => {
        heard = resolve;
        setTimeout(() => reject(new Error("no event came")), PATIENCE).unref();
      });
      const called = clock();
      await this.peer.publishOne(this.payload);
      const returned = clock();
      const at = await started;
      if (!number) continue; // the first one only warms up
      found.after_return.push(Math.max(0, at - returned) * 1000);
      found.after_call.push((at - called) * 1000);
    }
    await stop();
    return { ...found, count };
  }

  async publish_one() {
    const began = clock();
    await this.peer.publishOne(this.payload);
    return { began, committed: clock() };
  }

  async publish_batch({ count }) {
    await this.peer.publishBatch(Array(count).fill(this.payload));
    return { count };
  }

  async memory({ seconds }) {
    await this.peer.ready?.();
    const stop = await this.peer.worker(() => {});
    await sleep(1000 * seconds);
    const bytes = process.memoryUsage().rss;
    await stop();
    return { bytes };
  }

  async waiting() {
    return { count: await this.peer.waiting() };
  }

  async work({ quiet }) {
    this.tally = new Tally(Infinity);
    await this.peer.ready?.();
    this.stop = await this.peer.worker(quiet ? this.tally.handled : () => say({ at: clock() }));
    return { ready: true };
  }

  async handled() {
    return { count: this.tally.count };
  }

  async rest() {
    await this.stop();
    return { rested: true };
  }
}

const say = (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`);

/** Be the adapter of this peer until standard input ends. */
export async function speak(peer) {
  console.log = console.info = console.debug = console.error; // what peers print is no answer
  const speaker = new Speaker(peer);
  for await (const line of createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    try {
      if (!["constructor", "empty", "settled"].includes(asked.do) && typeof speaker[asked.do] === "function") say(await speaker[asked.do](asked));
      else say({ unsupported: `it knows no '${asked.do}'` });
    } catch (error) {
      if (error instanceof Unsupported) say({ unsupported: error.message });
      else {
        console.error(error);
        say({ error: `${error.name}: ${error.message}` });
      }
    }
  }
  await peer.close();
  process.exit(0);
}
