// Publishes an event, takes it and completes it, with the types that were made of the OpenAPI document.
import createClient from "openapi-fetch";
import type { components, paths } from "./eventhub.ts";

type Result<Data> = { data?: Data | undefined; error?: unknown; response: Response };

function answer<Data>({ data, error, response }: Result<Data>): Data {
  if (data === undefined) throw new Error(`${response.status}: ${JSON.stringify(error)}`);
  return data;
}

const [baseUrl] = process.argv.slice(2);
if (baseUrl === undefined) throw new Error("usage: node client.ts URL");
const client = createClient<paths>({ baseUrl });

const body: components["schemas"]["NewEventBody"] = { tags: ["typescript"], payload: { total: 42 } };
const published = answer(await client.POST("/events", { body }));
if (!("id" in published)) throw new Error("One event was published, and the answer is that of a batch.");

const worker_id = "typescript:1";
const taken = answer(await client.POST("/events/subscribe", { body: { tags: "typescript", worker_id } }));
if (!("id" in taken)) throw new Error("One event was asked for, and the answer is that of several.");

const report = { params: { path: { id: taken.id } }, body: { worker_id, status_code: 200 } };
const completed = answer(await client.POST("/events/{id}/complete", report));
const shown = answer(await client.GET("/events/{id}", { params: { path: { id: published.id } } }));
const missing = await client.GET("/events/{id}", { params: { path: { id: published.id + 1 } } });
console.log(
  JSON.stringify({
    published: published.id,
    taken: taken.id,
    payload: taken.payload,
    action: completed.action,
    status: shown.status,
    missing: missing.error?.title,
  }),
);
