/** The entry of the module worker: a host, and its messages. */
import { Host } from "./host.js";
import type { Reply, Request } from "./protocol.js";

// The package's types are those of a page; of a worker's own scope this is all that is needed.
const scope = globalThis as unknown as {
  postMessage(message: Reply): void;
  addEventListener(type: "message", listener: (event: MessageEvent<Request>) => void): void;
};

const host = new Host((reply) => scope.postMessage(reply));
scope.addEventListener("message", ({ data }) => void host.handle(data));
