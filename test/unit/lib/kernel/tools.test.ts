import { describe, beforeEach, afterEach, test, expect } from '@jest/globals';
import {
  type ToolCommand,
  ReadyTools,
  toolFailed,
  toolMissing,
  toolTimedOut,
  createToolbox,
  runTool,
} from '../../../../lib/kernel/tools.ts';
import { FakeClock } from '../../../support/fakes/clock.ts';
import { mkdtemp, rm, writeFile, rename, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tmpdir, getPriority, setPriority, constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { saveIptables } from '../../../../lib/kernel/iptables.ts';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';

describe('a tool that is kept ready', () => {
  const path = process.env['PATH'];
  const echo: ToolCommand = { tool: 'echoing', arguments: ['-x'] };
  let folder: string;
  let clock: FakeClock;
  let tools: ReadyTools;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), `vipnat-${process.pid}-`));
    process.env['PATH'] = `${folder}:${path ?? ''}`;
    clock = new FakeClock();
    tools = new ReadyTools(clock);
    await install('new');
  });

  afterEach(async () => {
    await tools.keep(Promise.resolve([]));
    process.env['PATH'] = path;
    await rm(folder, { recursive: true });
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

  const run = async (input: string, limitMs = 60_000) =>
    (await tools.run({ ...echo, input, limitMs })).stdout;

  /** Keeps these, and answers all that have started once the last one has. */
  async function keep(commands: readonly ToolCommand[], count: number): Promise<number[]> {
    await tools.keep(Promise.resolve(commands));
    while ((await listStarts()).length < count) await sleep(10);
    return await listStarts();
  }

  test('has started when its input comes, and is used once', async () => {
    expect(await keep([echo], 1)).toHaveLength(1);
    expect(await run('one')).toBe('new\none');
    expect(await listStarts()).toHaveLength(1);
    expect(await run('two')).toBe('new\ntwo');
    expect(await listStarts()).toHaveLength(2);
  });

  test('stays the same until it is used', async () => {
    await keep([echo], 1);
    await keep([echo], 1);
    expect(await run('one')).toBe('new\none');
    expect(await listStarts()).toHaveLength(1);
  });

  test('is none for other arguments', async () => {
    await keep([echo], 1);
    const { stdout } = await tools.run({ ...echo, arguments: [], input: 'one', limitMs: 60_000 });
    expect(stdout).toBe('new\none');
    expect(await listStarts()).toHaveLength(2);
  });

  test('ends when it is no longer wanted, without having read anything', async () => {
    const [pid = 0] = await keep([echo], 1);
    expect(isAlive(pid)).toBe(true);
    await tools.keep(Promise.resolve([]));
    expect(isAlive(pid)).toBe(false);
  });

  test.each([
    ['its file was replaced', () => install('newer')],
    ['it has waited for ten minutes', () => clock.advance(600_000)],
  ])('is not used, and ends, where %s', async (_why, happen) => {
    const [pid = 0] = await keep([echo], 1);
    await happen();
    await run('one');
    expect(await listStarts()).toHaveLength(2);
    await untilGone(pid);
  });

  test('is replaced when it is outdated', async () => {
    const [pid = 0] = await keep([echo], 1);
    await install('newer');
    expect(await keep([echo], 2)).toHaveLength(2);
    expect(isAlive(pid)).toBe(false);
    expect(await run('one')).toBe('newer\none');
    expect(await listStarts()).toHaveLength(2);
  });

  test('and was killed is started for the next input, and may wait again', async () => {
    const [pid = 0] = await keep([echo], 1);
    process.kill(pid, 'SIGKILL');
    await untilGone(pid);
    // Its end is told a moment later.
    await sleep(50);
    expect(await run('one')).toBe('new\none');
    expect(await keep([echo], 3)).toHaveLength(3);
  });

  test('and does not wait is not started ahead again, until it was replaced', async () => {
    await install('hasty', 'exit 1');
    const [pid = 0] = await keep([echo], 1);
    await untilGone(pid);
    await sleep(50);
    await tools.keep(Promise.resolve([echo]));
    await tools.keep(Promise.resolve([echo]));
    expect(await listStarts()).toHaveLength(1);
    await install('patient');
    await keep([echo], 2);
    expect(await run('one')).toBe('patient\none');
    expect(await listStarts()).toHaveLength(2);
  });

  test('is killed with what it has started when it takes too long', async () => {
    await install('slow', 'sleep 60');
    await keep([echo], 1);
    await expect(run('one', 100)).rejects.toMatchObject({ code: 'TOOL_TIMED_OUT' });
  });

  test('and is not there is missing where it is needed, and nowhere else', async () => {
    await rm(join(folder, echo.tool));
    await tools.keep(Promise.resolve([echo, null]));
    await expect(run('one')).rejects.toMatchObject({ code: 'TOOL_MISSING' });
  });

  test('is what was asked for last, however long it took to find', async () => {
    const slow = sleep(50).then(() => [echo]);
    const asked = tools.keep(slow);
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

  test('a tool that was killed says after how long', () => {
    expect(toolTimedOut('nft', 10_000)).toMatchObject({
      code: 'TOOL_TIMED_OUT',
      message: 'nft had not ended after 10 s and was killed',
    });
  });
});

const nft = { family: 'ipv4', dialect: 'nft', limitMs: 5000 } as const;

describe('on a host with', () => {
  const path = process.env['PATH'];
  let folder: string;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), `vipnat-${process.pid}-`));
    process.env['PATH'] = folder;
  });

  afterEach(async () => {
    process.env['PATH'] = path;
    await rm(folder, { recursive: true });
  });

  /** A tool that says its name and, asked for its version, what the real one says. */
  async function install(name: string, version = ''): Promise<void> {
    const script = `#!/bin/sh\nif [ "$1" = --version ]; then echo '${version}'; else echo '${name}'; fi\n`;
    await writeFile(join(folder, name), script, { mode: 0o755 });
  }

  test('named tools, they are taken', async () => {
    await install('iptables-nft-save');
    await install('iptables-save', 'iptables-save v1.8.9 (legacy)');
    expect(await createToolbox(5000).find('ipv4', 'nft', 'save')).toBe('iptables-nft-save');
  });

  test.each([
    ['iptables-save v1.8.9 (nf_tables)', 'nft', 'legacy'],
    ['iptables-save v1.8.9 (legacy)', 'legacy', 'nft'],
    ['iptables-save v1.6.1', 'legacy', 'nft'],
  ] as const)('plain tools only, %s is taken for %s and not for %s', async (version, dialect, other) => {
    await install('iptables-save', version);
    const toolbox = createToolbox(5000);
    expect(await toolbox.find('ipv4', dialect, 'save')).toBe('iptables-save');
    expect(await toolbox.find('ipv4', other, 'save')).toBeNull();
  });

  test('iptables-legacy only, there is nothing of the nft backend to read', async () => {
    await install('iptables-legacy-save');
    expect(await saveIptables(createToolbox(5000), nft)).toBeNull();
  });

  test('no iptables at all, reading says what is missing, until it is installed', async () => {
    const toolbox = createToolbox(5000);
    await expect(saveIptables(toolbox, nft)).rejects.toMatchObject({ code: 'TOOL_MISSING' });
    await install('iptables-nft-save');
    expect((await saveIptables(toolbox, nft))?.text).toBe('iptables-nft-save\n');
  });

  test('a file of that name that cannot be run, it is missing', async () => {
    await writeFile(join(folder, 'iptables-nft-save'), '', { mode: 0o644 });
    expect(await createToolbox(5000).find('ipv4', 'nft', 'save')).toBeNull();
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
  const limited = [
    '-c',
    'ulimit -n 100; exec "$0" --input-type=module --eval "$1"',
    process.execPath,
    program,
  ];
  const { stdout } = await execa('sh', limited);
  const { outcomes, more } = JSON.parse(stdout) as { outcomes: string[]; more: number };
  expect(outcomes[0]).toBe('DESCRIPTORS_EXHAUSTED');
  expect(outcomes.at(-1)).toBe('started');
  expect(more).toBe(0);
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
