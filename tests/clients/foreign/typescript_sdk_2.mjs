// The official TypeScript SDK 2.x: reads what to do from stdin, writes reports to stdout.
import { readFileSync } from 'node:fs';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const task = JSON.parse(readFileSync(0, 'utf8'));
const { version } = JSON.parse(readFileSync('node_modules/@modelcontextprotocol/client/package.json', 'utf8'));
const MODERN = '2026-07-28';

async function report(use) {
  const options =
    use.revision === MODERN
      ? { versionNegotiation: { mode: 'auto' } }
      : { versionNegotiation: { mode: 'legacy' }, supportedProtocolVersions: [use.revision] };
  const client = new Client({ name: task.name, version: '1' }, options);
  const headers = { Authorization: `Bearer ${use.token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(task.http), { requestInit: { headers } }));
  const { tools } = await client.listTools();
  const progress = [];
  const onprogress = (heard) => progress.push([heard.progress, heard.total, heard.message ?? null]);
  const call = (name, options) => client.callTool({ name, arguments: task.calls[name] }, options);
  const total = await call('calculate_sum');
  const csv = await call('analyze_csv');
  const long = await call('long_task', { onprogress });
  const refused = await client.callTool({ name: task.refused, arguments: { path: 'x' } }).then(
    (result) => `not refused: ${JSON.stringify(result)}`,
    (error) => error.message,
  );
  const revision = client.getNegotiatedProtocolVersion();
  await client.close();
  return {
    revision,
    tools: tools.map((tool) => tool.name),
    sum: total.content[0].text,
    csv: csv.content[0].text,
    structured: csv.structuredContent ?? null,
    long: long.content[0].text,
    progress,
    refused,
  };
}

const reports = [];
for (const use of task.uses) reports.push(await report(use));
process.stdout.write(JSON.stringify({ version, reports }), () => process.exit(0));
