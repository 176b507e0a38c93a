// A session of the TypeScript SDK over one transport; prints what it saw as JSON.
// node session.mjs http|sse|stdio URL TOKEN COMMAND...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [kind, url, token, command, ...args] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${token}` };
const withToken = (target, init) => fetch(target, { ...init, headers: { ...init?.headers, ...headers } });
const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit: { headers } }),
  sse: () =>
    new SSEClientTransport(new URL(`${url}/sse`), { requestInit: { headers }, eventSourceInit: { fetch: withToken } }),
  stdio: () => new StdioClientTransport({ command, args, env: { ...process.env } }),
};

const client = new Client({ name: "session", version: "1" });
await client.connect(transports[kind]());
const { tools } = await client.listTools();
const answer = await client.callTool({ name: "search_code", arguments: { query: "retries", index_name: "demo" } });
const failed = await client.callTool({ name: "index_stats", arguments: { index_name: "nothing" } });
const progress = [];
const indexed = await client.callTool({ name: "index_codebase", arguments: { path: "/srv/new" } }, undefined, {
  onprogress: ({ progress: done, total }) => progress.push([done, total]),
});
const { resources } = await client.listResources();
const { contents } = await client.readResource({ uri: "cocosearch://index/demo/stats" });
const { messages } = await client.getPrompt({ name: "explain_codebase", arguments: { focus: "errors" } });
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    path: answer.content[0].text.split("\n\n")[1].split(":")[0],
    failed: [failed.isError, failed.content[0].text],
    indexed: [indexed.content[0].text.split(" ")[2], progress.at(-1)],
    resources: resources.map((resource) => resource.uri),
    root: JSON.parse(contents[0].text).root,
    prompt: messages[0].content.text.includes("focusing on errors"),
  }),
);
await client.close();
