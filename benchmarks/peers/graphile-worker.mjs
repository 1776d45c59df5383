// graphile-worker: the local queue of 500 and batched completion of its own performance test; ordered jobs without the
// local queue, and with batched completion.
//
// Settings: https://worker.graphile.org/docs/performance (concurrentJobs 24, maxPoolSize 25, localQueue size 500,
// completeJobBatchDelay 0, failJobBatchDelay 0) and https://worker.graphile.org/docs/library/add-job (addJobs for many at
// once; jobs of one queueName run one at a time, in order).

import { load, speak, withoutRepeats } from "./speaking.mjs";

const { Logger, makeWorkerUtils, run } = await load("graphile-worker");
const { default: pg } = await load("pg");
const TASK = "bench";
const CONCURRENCY = 24;
const logger = new Logger(() => (level, message) => level === "error" && console.error(message));

class GraphileWorker {
  packages = ["graphile-worker"];
  settings = `concurrentJobs ${CONCURRENCY}, a pool of ${CONCURRENCY + 1}, localQueue 500 (not when ordered), completeJobBatchDelay 0`;

  async prepare(url) {
    this.url = url;
    this.pool = new pg.Pool({ connectionString: url, max: 16 });
    for (const event of ["error", "connect"]) this.pool.on(event, (found) => found.on?.("error", console.error));
    this.utils = await makeWorkerUtils({ pgPool: this.pool, logger });
    await this.utils.migrate();
  }

  async ready() {
    if (this.working) return;
    this.working = new pg.Pool({ connectionString: this.url, max: CONCURRENCY + 1, idleTimeoutMillis: 0 });
    for (const event of ["error", "connect"]) this.working.on(event, (found) => found.on?.("error", console.error));
    const connected = await Promise.all(Array.from({ length: CONCURRENCY + 1 }, () => this.working.connect()));
    for (const client of connected) client.release();
  }

  async close() {
    await this.working?.end();
    await this.utils.release();
    await this.pool.end();
  }

  async publishOne(payload) {
    await this.utils.addJob(TASK, payload);
  }

  async publishBatch(payloads) {
    await this.utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload })));
  }

  async publishOrdered(events) {
    for (const run of withoutRepeats(events))
      await this.utils.addJobs(run.map((payload) => ({ identifier: TASK, payload, queueName: payload.key })));
  }

  async worker(handled, ordered = false) {
    // One job of a queueName is locked at a time: a local queue would sleep with its workers idle. Completion does not mind.
    const fetching = ordered ? {} : { localQueue: { size: 500 } };
    const runner = await run({
      logger,
      pgPool: this.working,
      noHandleSignals: true,
      crontab: "",
      taskList: { [TASK]: async (payload) => handled(payload) },
      preset: {
        worker: {
          concurrentJobs: CONCURRENCY,
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
          ...fetching,
        },
      },
    });
    return () => runner.stop();
  }

  async waiting() {
    const { rows } = await this.pool.query("SELECT count(*)::int AS count FROM graphile_worker.jobs");
    return rows[0].count;
  }
}

await speak(new GraphileWorker());
