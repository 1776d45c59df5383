// Browsers start no Worker from a page that was opened as a file, and the search of the site is one. There, a hidden frame
// does its work: messages go in and out as with a Worker.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      window.addEventListener("message", (message) => {
        if (message.source !== this.inside) return;
        message.stopImmediatePropagation();
        this.dispatchEvent(new MessageEvent("message", { data: message.data }));
      });
      this.ready = new Promise((done) => { frame.contentWindow.started = done; });
      const inside = frame.contentDocument;
      inside.open();
      inside.write(
        "<!doctype html><script>" +
          "window.postMessage = (data) => parent.postMessage(data, '*');" +
          "window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((loaded) => {" +
          "const script = document.createElement('script'); script.src = url; script.onload = script.onerror = loaded;" +
          "document.body.append(script); })), Promise.resolve());" +
          "</script><body></body>",
      );
      inside.close();
      const script = inside.createElement("script");
      script.src = new URL(url, location.href).href;
      script.onload = () => this.inside.started();
      inside.body.append(script);
    }

    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
