// Search in pages that are opened from a folder: browsers start no worker there, so an iframe does its work.
// The theme knows such a worker by the name IFrameWorker.
if (location.protocol === "file:") {
  self.IFrameWorker = self.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.answer = (data) => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      inside.ready = () => {
        this.waiting.forEach((data) => inside.dispatchEvent(new MessageEvent("message", { data })));
        this.waiting = null;
      };
      inside.document.open();
      inside.document.write(
        `<!doctype html><script>postMessage = (data) => answer(data);
         importScripts = (...urls) => urls.reduce((before, src) => before.then(() => new Promise((done) => {
           const script = Object.assign(document.createElement("script"), { src, onload: done });
           document.head.append(script);
         })), Promise.resolve());</script><script src="${url}"></script><script>ready()</script>`);
      inside.document.close();
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
