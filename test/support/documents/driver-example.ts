import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { spawn } from 'node:child_process';
import { request } from 'node:http';
import { waitUntil } from '../jest/waiting.ts';

/** The driver of docs/drivers.md and its device, in a folder of their own. */
export interface DriverExample {
  readonly folder: string;
  readonly driver: string;
  readonly description: string;
  /** At which nothing else listens. */
  readonly address: string;
  /** Changes an object of the device. */
  readonly putObject: (name: string, value: object) => Promise<unknown>;
  /** What the device has, by name. */
  readonly readDevice: () => Promise<Readonly<Record<string, unknown>>>;
  /** The device's process. */
  readonly pid: number;
  readonly end: () => void;
}

/** Starts the device, by a command that takes its own. It listens at loopback addresses that no other process of tests has. */
export async function startDriverExample(...prefix: readonly string[]): Promise<DriverExample> {
  const folder = mkdtempSync(join(tmpdir(), 'vipnat-driver-'));
  const at = (name: string) => join(folder, name);
  const block = `127.${128 + (Math.floor(process.pid / 256) % 64)}.${process.pid % 256}`;
  const words = { driver: 'createDriver', device: 'createApi', actions: 'createActions' };
  for (const [name, word] of Object.entries(words)) writeFileSync(at(`${name}.mjs`), readBlock('js', word));
  const described = readBlock('yaml', 'LoadBalancerDevice')
    .replace(/units:\n(?: {4}- .*\n)+/, `units: [${at('edge.sock')}]\n`)
    .replace(/addresses:\n(?: {4}- .*\n)+/, `addresses: [${block}.10-${block}.39, '::1']\n`);
  writeFileSync(at('device.yaml'), described);
  writeFileSync(at('web.yaml'), readBlock('yaml', 'listeners').replace(/^.*udp.*\n/m, ''));
  const args = [...prefix.slice(1), process.execPath, at('device.mjs'), at('edge.sock')];
  const device = spawn(prefix[0] ?? 'env', args, { stdio: 'inherit' });
  const end = () => {
    device.kill();
    rmSync(folder, { recursive: true });
  };
  const ask = (method: string, name: string, body = '') => askDevice(at('edge.sock'), method, name, body);
  await waitUntil(() => ask('GET', '').then(Boolean, () => false), 'the device does not answer');
  return {
    ...{ folder, driver: at('driver.mjs'), description: at('device.yaml'), address: `${block}.10`, end },
    pid: device.pid ?? 0,
    putObject: (name, value) => ask('PUT', name, JSON.stringify(value)),
    readDevice: async () => JSON.parse(await ask('GET', '')) as Readonly<Record<string, unknown>>,
  };
}

async function askDevice(socketPath: string, method: string, name: string, body: string): Promise<string> {
  return await new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path: `/${name}`, agent: false }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (part: string) => (text += part));
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(text);
        else reject(new Error(text));
      });
    });
    sent.on('error', reject).end(body);
  });
}

function readBlock(language: string, word: string): string {
  const blocks = readFileSync('docs/drivers.md', 'utf8').matchAll(/```(\w+)\n([^]*?)```/g);
  const [found] = [...blocks].filter(([, name, text = '']) => name === language && text.includes(word));
  if (found?.[2] === undefined) throw new Error(`docs/drivers.md has no block of ${language} with ${word}`);
  return found[2];
}
