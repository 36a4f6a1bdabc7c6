import { expect, test } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import { execa } from 'execa';

const exec = fileURLToPath(new URL('../../../../../lib/kernel/tools/exec.ts', import.meta.url));

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
