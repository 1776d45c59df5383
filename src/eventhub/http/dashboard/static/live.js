// The stream of news. It is opened once, shared by all pages, and opened again when it was cut.

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30_000;

class Live extends EventTarget {
  #source = null;
  #wait = FIRST_WAIT;
  #timer = 0;
  state = "closed";
  overview = null;

  open() {
    if (this.#source) return;
    clearTimeout(this.#timer);
    const source = new EventSource("/live");
    this.#source = source;
    source.addEventListener("open", () => {
      this.#wait = FIRST_WAIT;
      this.#tell("open");
    });
    source.addEventListener("overview", (message) => {
      this.overview = JSON.parse(message.data);
      this.dispatchEvent(new CustomEvent("overview", { detail: this.overview }));
    });
    source.addEventListener("log", (message) => {
      this.dispatchEvent(new CustomEvent("log", { detail: JSON.parse(message.data) }));
    });
    source.addEventListener("error", () => this.#cut());
  }

  close() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = null;
    this.#tell("closed");
  }

  #cut() {
    this.#source?.close();
    this.#source = null;
    this.#tell("cut");
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.open(), this.#wait);
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT);
  }

  #tell(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }
}

export const live = new Live();

/** Calls back with the entries of the log that fit, as long as the signal lasts. */
export function onLog(signal, listen) {
  live.addEventListener("log", (event) => listen(event.detail.entries, event.detail.missed), { signal });
}

/** Runs a function now and then while there is news, never twice at once, and once more after the last news. */
export function calmly(work, pause = 1000) {
  let due = false;
  let busy = false;
  const run = async () => {
    if (busy) return;
    busy = true;
    while (due) {
      due = false;
      await work();
      await new Promise((done) => setTimeout(done, pause));
    }
    busy = false;
  };
  return () => {
    due = true;
    run();
  };
}
