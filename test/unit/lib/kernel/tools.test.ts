import { describe, beforeEach, afterEach, test, expect } from '@jest/globals';
import {
  type ToolCommand,
  ReadyTools,
  toolFailed,
  toolMissing,
  createToolFinder,
  runTool,
} from '../../../../lib/kernel/tools.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { rm, writeFile, rename, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { getPriority, setPriority, constants } from 'node:os';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { saveIptables } from '../../../../lib/kernel/iptables.ts';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';
import { makeFolderEach } from '../../../support/network/own-folder.ts';
import { type Steps, testSteps } from '../../steps.ts';

describe('a tool that is kept ready', () => {
  const path = process.env['PATH'];
  const echo: ToolCommand = { tool: 'echoing', arguments: ['-x'] };
  let folder: string;
  let clock: FakeClock;
  let tools: ReadyTools;

  makeFolderEach('ready-tools', async (made) => {
    folder = made;
    process.env['PATH'] = `${folder}:${path ?? ''}`;
    clock = new FakeClock();
    tools = new ReadyTools(clock);
    await install('new');
  });

  afterEach(async () => {
    await tools.keep(Promise.resolve([]));
    process.env['PATH'] = path;
  });

  /** A tool that notes its process when it starts, and prints its version and what it reads; in place of the one before. */
  async function install(version: string, after = 'cat'): Promise<void> {
    const script = `#!/bin/sh\necho $$ >>${folder}/starts\necho ${version}\n${after}\n`;
    await writeFile(join(folder, 'next'), script, { mode: 0o755 });
    await rename(join(folder, 'next'), join(folder, echo.tool));
  }

  async function listStarts(): Promise<number[]> {
    const text = await readFile(join(folder, 'starts'), 'utf8').catch(() => '');
    return text.split('\n').filter(Boolean).map(Number);
  }

  /** What is first kept is the process that a timeline means. */
  let pid = 0;

  const steps: Steps = {
    /** Keeps it; so many have started by then. */
    keep: async (count) => {
      await tools.keep(Promise.resolve([echo]));
      while ((await listStarts()).length < Number(count)) await sleep(10);
      const starts = await listStarts();
      expect(starts).toHaveLength(Number(count));
      if (count === '1') [pid = 0] = starts;
    },
    again: () => tools.keep(Promise.resolve([echo, null])),
    end: () => tools.keep(Promise.resolve([])),
    /** `run new one`: gives it an input, and is answered by its version and that. */
    run: async (text) => {
      const [version = '', input = ''] = text.split(' ');
      const { stdout } = await tools.run({ ...echo, input, limitMs: 60_000 });
      expect(stdout).toBe(`${version}\n${input}`);
    },
    other: async (version) => {
      const { stdout } = await tools.run({ ...echo, arguments: [], input: 'one', limitMs: 60_000 });
      expect(stdout).toBe(`${version}\none`);
    },
    /** `fail 100 TOOL_TIMED_OUT`: within this limit. */
    fail: async (text) => {
      const [limitMs, code] = text.split(' ');
      const run = tools.run({ ...echo, input: 'one', limitMs: Number(limitMs) });
      await expect(run).rejects.toMatchObject({ code });
    },
    starts: async (count) => {
      expect(await listStarts()).toHaveLength(Number(count));
    },
    install: async (text) => {
      const [version = '', ...after] = text.split(' ');
      await install(version, after.join(' ') || 'cat');
    },
    remove: () => rm(join(folder, echo.tool)),
    wait: (ms) => clock.advance(Number(ms)),
    kill: () => process.kill(pid, 'SIGKILL'),
    // Its end is told a moment and some turns of the event loop later.
    gone: () => sleep(50).then(() => untilGone(pid)),
    alive: (text) => {
      expect(String(isAlive(pid))).toBe(text);
    },
  };

  testSteps(() => steps, {
    'has started when its input comes, and is used once':
      'keep 1; run new one; starts 1; run new two; starts 2',
    'stays the same until it is used': 'keep 1; keep 1; run new one; starts 1',
    'is none for other arguments': 'keep 1; other new; starts 2',
    'ends when it is no longer wanted, without having read anything': 'keep 1; alive true; end; alive false',
    'is not used, and ends, where its file was replaced':
      'keep 1; install newer; run newer one; starts 2; gone',
    'is used where it has waited for nearly ten minutes': 'keep 1; wait 599999; run new one; starts 1',
    'is not used, and ends, where it has waited for ten minutes':
      'keep 1; wait 600000; run new one; starts 2; gone',
    'is replaced when it is outdated': 'keep 1; install newer; keep 2; alive false; run newer one; starts 2',
    'and was killed is started for the next input, and may wait again':
      'keep 1; kill; gone; run new one; keep 3',
    'and does not wait is not started ahead again, until it was replaced':
      'install hasty exit 1; keep 1; gone; again; again; starts 1; install patient; keep 2; run patient one; starts 2',
    'is killed with what it has started when it takes too long':
      'install slow sleep 60; keep 1; fail 100 TOOL_TIMED_OUT',
    'and is not there is missing where it is needed, and nowhere else':
      'remove; again; fail 60000 TOOL_MISSING',
  });

  test('is what was asked for last, however long it took to find', async () => {
    const asked = tools.keep(sleep(50).then(() => [echo]));
    await tools.keep(Promise.resolve([]));
    await asked;
    const [pid] = await listStarts();
    expect(pid === undefined || !isAlive(pid)).toBe(true);
  });
});

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function untilGone(pid: number): Promise<void> {
  while (isAlive(pid)) await sleep(10);
  for (let turn = 0; turn < 20; turn += 1) await setImmediate();
}

describe('what a failing tool becomes', () => {
  test.each([
    [
      'iptables-nft-restore v1.8.9 (nf_tables): \nline 2: CHAIN_DEL failed (Device or resource busy): chain AAA\n',
      'line 2: CHAIN_DEL failed (Device or resource busy): chain AAA',
    ],
    ['iptables-restore: line 3 failed\n', 'line 3 failed'],
    [
      '# Warning: iptables-legacy tables present, use iptables-legacy-save to see them\niptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).\n',
      'line 3 failed: Bad rule (does a matching rule exist in that chain?).',
    ],
    [
      "iptables-restore v1.8.9 (legacy): Couldn't load target `NOPE':No such file or directory\n\nError occurred at line: 2\n",
      "Couldn't load target `NOPE':No such file or directory",
    ],
    ['', 'it gave no reason'],
  ])('%j: the message has the tool, the exit status and the reason', (stderr, reason) => {
    const error = toolFailed({ tool: 'iptables-nft-restore', exitCode: 4, stderr, input: '*nat\nCOMMIT\n' });
    expect(error.code).toBe('TOOL_FAILED');
    expect(error.message).toBe(`iptables-nft-restore failed with exit status 4: ${reason}`);
    expect(error.details).toContain('*nat\nCOMMIT');
  });

  test.each([
    ['iptables-legacy-restore', 'iptable_nat'],
    ['ip6tables-legacy-restore', 'ip6table_nat'],
  ])('a table that the kernel lacks for %s is told with the way out', (tool, module) => {
    const stderr = `${tool.replace('-legacy', '')} v1.8.9 (legacy): ${tool.replace('-legacy', '')}: unable to initialize table 'nat'\n\nError occurred at line: 1\n`;
    expect(toolFailed({ tool, exitCode: 2, stderr, input: '*nat\nCOMMIT\n' })).toMatchObject({
      code: 'TOOL_FAILED',
      message: `${tool} failed with exit status 2: unable to initialize table 'nat': this kernel has no iptables-legacy, or its module is not loaded. Leave --iptables out, or load ${module} on the host`,
    });
  });

  test.each([
    'iptables-nft-save v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n',
    "Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
    'Operation not permitted (you must be root)\nnetlink: Error: cache initialization failed: Operation not permitted\n',
  ])('%j is a missing right, with the way out', (stderr) => {
    const error = toolFailed({ tool: 'nft', exitCode: 1, stderr, input: '' });
    expect(error.code).toBe('TOOL_NOT_PERMITTED');
    expect(error.message).toMatch(/root or with CAP_NET_ADMIN and CAP_NET_RAW$/);
  });

  test.each([
    ['iptables-legacy-save', 'iptables'],
    ['ip6tables-nft-restore', 'iptables'],
    ['nft', 'nftables'],
    ['inotifywait', 'inotify-tools'],
  ])('a missing %s names the package %s', (tool, package_) => {
    expect(toolMissing(tool)).toMatchObject({
      code: 'TOOL_MISSING',
      message: expect.stringContaining(`apt-get install ${package_})`),
    });
  });
});

const nft = { family: 'ipv4', dialect: 'nft', limitMs: 5000 } as const;

describe('on a host with', () => {
  const path = process.env['PATH'];
  let folder: string;

  makeFolderEach('tools', (made) => {
    folder = made;
    process.env['PATH'] = folder;
  });

  afterEach(() => {
    process.env['PATH'] = path;
  });

  /** A tool that says its name and, asked for its version, what the real one says. */
  async function install(name: string, version = ''): Promise<void> {
    const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo '${version}'; else echo '${name}'; fi\n`;
    await writeFile(join(folder, name), script, { mode: 0o755 });
  }

  test('named tools, they are taken', async () => {
    await install('iptables-nft-save');
    await install('iptables-save', 'iptables-save v1.8.9 (legacy)');
    expect(await createToolFinder(5000)('ipv4', 'nft', 'save')).toBe('iptables-nft-save');
  });

  test.each([
    ['iptables-save v1.8.9 (nf_tables)', 'nft', 'legacy'],
    ['iptables-save v1.8.9 (legacy)', 'legacy', 'nft'],
    ['iptables-save v1.6.1', 'legacy', 'nft'],
  ] as const)('plain tools only, %s is taken for %s and not for %s', async (version, dialect, other) => {
    await install('iptables-save', version);
    const findTool = createToolFinder(5000);
    expect(await findTool('ipv4', dialect, 'save')).toBe('iptables-save');
    expect(await findTool('ipv4', other, 'save')).toBeNull();
  });

  test('iptables-legacy only, there is nothing of the nft backend to read', async () => {
    await install('iptables-legacy-save');
    expect(await saveIptables(createToolFinder(5000), nft)).toBeNull();
  });

  test('no iptables at all, reading says what is missing, until it is installed', async () => {
    const findTool = createToolFinder(5000);
    await expect(saveIptables(findTool, nft)).rejects.toMatchObject({ code: 'TOOL_MISSING' });
    await install('iptables-nft-save');
    expect((await saveIptables(findTool, nft))?.text).toBe('iptables-nft-save\n');
  });

  test('a file of that name that cannot be run, it is missing', async () => {
    await writeFile(join(folder, 'iptables-nft-save'), '', { mode: 0o644 });
    expect(await createToolFinder(5000)('ipv4', 'nft', 'save')).toBeNull();
  });
});

const exec = fileURLToPath(new URL('../../../../lib/kernel/tools.ts', import.meta.url));

/** Of the descriptors that it may have it leaves 0, 1, 2 … free, starts a tool each time, and says what it has open then. */
const program = `
import { closeSync, openSync, readdirSync } from 'node:fs';
import { execTool } from ${JSON.stringify(exec)};
const start = () => execTool({ tool: 'true', arguments: [], limitMs: 60_000 }).then(() => 'started', (error) => error.code);
const count = () => readdirSync('/proc/self/fd').length;
await start();
const before = count();
const outcomes = [];
for (let free = 0; free < 12; free += 1) {
  const held = [];
  try { for (;;) held.push(openSync('/dev/null')); } catch {}
  for (const descriptor of held.splice(0, free)) closeSync(descriptor);
  outcomes.push(await start());
  for (const descriptor of held) closeSync(descriptor);
}
console.log(JSON.stringify({ outcomes, more: count() - before }));
`;

test('a tool that is not started for want of descriptors leaves none open', async () => {
  const shell = ['-c', 'ulimit -n 100; exec "$0" --input-type=module --eval "$1"', process.execPath, program];
  const { stdout } = await execa('sh', shell);
  const { outcomes, more } = JSON.parse(stdout) as { outcomes: string[]; more: number };
  expect([outcomes[0], outcomes.at(-1), more]).toEqual(['DESCRIPTORS_EXHAUSTED', 'started', 0]);
});

/** A shell that says its niceness at its end. */
const say = (script: string) => ({ tool: 'sh', arguments: ['-c', `${script}; nice`], limitMs: 60_000 });

describe('a tool that is run by a process of higher priority', () => {
  const before = getPriority();
  let isAllowed = true;

  beforeEach(() => {
    try {
      setPriority(constants.priority.PRIORITY_ABOVE_NORMAL);
    } catch {
      // Only root may. What is tested then is that nothing fails.
      isAllowed = false;
    }
  });

  afterEach(() => {
    if (isAllowed) setPriority(before);
  });

  test('has that too, as a write is urgent', async () => {
    expect(Number(await runTool(say('sleep 0.2')))).toBe(getPriority());
  });

  test('has the ordinary one where it only reads', async () => {
    const expected = isAllowed ? 0 : before;
    // It runs before its niceness is another one.
    const patient = say(`until [ "$(nice)" = ${expected} ]; do sleep 0.05; done`);
    expect(Number(await runTool({ ...patient, isLowPriority: true }))).toBe(expected);
  });
});
