// Asks the daemon. The token comes in the fragment of the page's address, which a browser never sends; it is taken out
// of the address at once and kept for this tab.

const KEY = "cocosearch-token";

export function rememberToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    sessionStorage.setItem(KEY, token);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem(KEY) !== null;
}

export class Refused extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

let id = 0;

export async function ask(method, params = {}, signal = undefined) {
  id += 1;
  let reply;
  try {
    reply = await fetch("/status/rpc", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: `Bearer ${sessionStorage.getItem(KEY) ?? ""}` },
      body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
      credentials: "omit",
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("The daemon does not answer.", "Start it: cocosearchctl up PATH", 0);
  }
  const message = await reply.json();
  if (message.error) throw new Refused(message.error.message, message.error.data?.hint ?? "", reply.status);
  return message.result;
}
