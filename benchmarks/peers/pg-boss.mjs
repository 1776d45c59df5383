// pg-boss: batches of 500, fetched again at once while they are full.
//
// Settings: https://pgboss.io/api/workers (batchSize, burstWhenBatchFull, localConcurrency), https://pgboss.io/api/queues
// (notify; policy key_strict_fifo for order by singletonKey; partition for a large queue), https://pgboss.io/api/constructor
// (useListenNotify). LISTEN and NOTIFY are off unless told, and NOTIFY takes a lock at every commit, so they are on for
// latencies only.

import { load, speak, withoutRepeats } from "./speaking.mjs";

const { PgBoss } = await load("pg-boss");
const BATCH = 500;
const QUEUE = "bench";
const ORDERED = "bench-ordered";
const ORDERED_BATCH = 25; // at most one job of a key comes in a batch, and only full batches are followed at once

class Boss {
  packages = ["pg-boss"];
  settings = `batchSize ${BATCH}, burstWhenBatchFull, 2 workers, a partition of its own; LISTEN/NOTIFY for latencies`;

  async prepare(url, notify) {
    this.boss = new PgBoss({ connectionString: url, max: 16, useListenNotify: notify });
    this.boss.on("error", console.error);
    await this.boss.start();
    await this.boss.createQueue(QUEUE, { notify, partition: true });
    await this.boss.createQueue(ORDERED, { notify, partition: true, policy: "key_strict_fifo" });
  }

  async close() {
    await this.boss.stop({ graceful: false, wait: false });
  }

  async publishOne(payload) {
    await this.boss.send(QUEUE, payload);
  }

  async publishBatch(payloads) {
    await this.boss.insert(QUEUE, payloads.map((data) => ({ data })));
  }

  async publishOrdered(events) {
    for (const run of withoutRepeats(events))
      await this.boss.insert(ORDERED, run.map((data) => ({ data, singletonKey: data.key })));
  }

  async worker(handled, ordered = false) {
    const queue = ordered ? ORDERED : QUEUE;
    const options = {
      batchSize: ordered ? ORDERED_BATCH : BATCH,
      burstWhenBatchFull: true,
      localConcurrency: 2,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5,
    };
    await this.boss.work(queue, options, async (jobs) => {
      for (const job of jobs) handled(job.data);
    });
    return () => this.boss.offWork(queue, { wait: true });
  }

  async waiting() {
    const counts = await Promise.all([QUEUE, ORDERED].map((queue) => this.boss.getDb().executeSql(
      "SELECT count(*)::int AS count FROM pgboss.job WHERE name = $1 AND state < 'completed'", [queue])));
    return counts.reduce((sum, { rows }) => sum + rows[0].count, 0);
  }
}

await speak(new Boss());
