/** Has keepalived say what it makes of configurations, and reads the same ones. For keepalived-read.test.ts. */
import { join, dirname } from 'node:path';
import { mkdirSync, writeFileSync, mkdtempSync, rmSync } from 'node:fs';
import { configurationId, type Case, configurations } from './keepalived-configurations.ts';
import { spawn, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readConfiguration, findInstance } from '../../../lib/keepalived/read.ts';
import { tmpdir } from 'node:os';

type Instance = Readonly<Record<'vrid' | 'priority', number>>;

/** By address. */
type Instances = Readonly<Record<string, Instance | null>>;

const main = 'keepalived.conf';

function writeFiles(folder: string, files: Readonly<Record<string, string>>): string {
  for (const [name, text] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text, { mode: name.endsWith('.sh') ? 0o755 : 0o644 });
  }
  return join(folder, main);
}

const toArguments = (file: string): string[] => [
  ...['keepalived', '--dont-fork', '--log-console', '--dump-conf', '--vrrp'],
  ...[`--use-file=${file}`, `--config-id=${configurationId}`],
  ...[`--pid=${file}.pid`, `--vrrp_pid=${file}.vrrp`],
];

/** It says that it has started before its process for VRRP has put its configuration, of which interfaces are the last part. */
function isWhole(log: string): boolean {
  const hasPut = log.includes('< Interfaces >') || !log.includes('Starting VRRP child process');
  return hasPut && log.includes('Startup complete');
}

/** What keepalived logs until it has put its configuration. */
async function dump(file: string): Promise<string> {
  const [program = '', ...args] = toArguments(file);
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  const ended = once(child, 'exit');
  await new Promise<void>((resolve) => {
    const hear = (text: Buffer) => {
      log += text.toString();
      if (isWhole(log)) resolve();
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    void ended.then(() => {
      resolve();
    });
  });
  child.kill();
  await ended;
  return log;
}

/** keepalived 2.2.7 puts its configuration as ` VRRP Instance = A`, `   Virtual Router ID = 51`, `   Virtual IP (1):`. */
function readDump(log: string): Instances {
  const [, ...blocks] = log.split(/ VRRP Instance = /);
  const pairs = blocks.flatMap((block) => {
    const readNumber = (name: string) => Number(new RegExp(` ${name} = (\\d+)`).exec(block)?.[1]);
    const instance = { vrid: readNumber('Virtual Router ID'), priority: readNumber('Priority') };
    const addresses = block.matchAll(/ {5}([0-9a-f.:]+)(?:\/\d+)? dev \S+ scope /g);
    return [...addresses].map(([, address = '']) => [address, instance] as const);
  });
  return Object.fromEntries(pairs);
}

async function compare({ files, addresses }: Case, folder: string): Promise<Record<string, Instances>> {
  const file = writeFiles(folder, files);
  const running = {
    ...{ pid: process.pid, name: 'keepalived', group: '', isSurelyHere: true },
    arguments: toArguments(file),
  };
  const { text } = await readConfiguration([running], '/none');
  const real = readDump(await dump(file));
  const ask = (find: (address: string) => Instance | null) =>
    Object.fromEntries(addresses.map((address) => [address, find(address)]));
  return {
    keepalived: ask((address) => real[address] ?? null),
    vipnat: ask((address) => toInstance(findInstance(text ?? '', address))),
  };
}

function toInstance(found: ReturnType<typeof findInstance>): Instance | null {
  return found === null ? null : { vrid: found.vrid, priority: found.priority ?? NaN };
}

execFileSync('ip', ['-batch', '-'], {
  input: `link add eth0 type veth peer name other
link set other up
link set eth0 up
addr add 10.77.0.11/24 dev eth0
addr add fd00::11/64 dev eth0 nodad
`,
});
const folder = mkdtempSync(join(tmpdir(), 'vipnat-keepalived-read-'));
try {
  const outcomes = await Promise.all(
    configurations.map(
      async (one, index) => [one.name, await compare(one, join(folder, String(index)))] as const,
    ),
  );
  process.stdout.write(JSON.stringify(Object.fromEntries(outcomes)));
} finally {
  rmSync(folder, { recursive: true });
}
