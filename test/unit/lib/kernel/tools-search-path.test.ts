import { afterEach, test, expect } from '@jest/globals';
import { toSearchPath, runTool } from '../../../../lib/kernel/tools.ts';

const before = process.env['PATH'];

afterEach(() => {
  process.env['PATH'] = before;
});

test.each([
  ['/usr/local/bin:/usr/bin:/bin', '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'],
  ['/usr/bin:/usr/sbin', '/usr/bin:/usr/sbin:/usr/local/sbin:/sbin'],
  ['/opt/tools:/bin', '/opt/tools:/bin:/usr/local/sbin:/usr/sbin:/sbin'],
  ['', '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'],
  [undefined, '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin'],
])('a PATH of %s is searched as %s', (path, wanted) => {
  expect(toSearchPath(path)).toBe(wanted);
});

test('a PATH without any of the system’s folders was chosen, and stays', () => {
  expect(toSearchPath('/opt/tools:/home/me/bin')).toBe('/opt/tools:/home/me/bin');
});

test('a tool finds those that it starts in /usr/sbin too', async () => {
  process.env['PATH'] = '/usr/bin:/bin';
  const printed = await runTool({ tool: 'sh', arguments: ['-c', 'echo "$PATH"'], limitMs: 60_000 });
  expect(printed).toBe('/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\n');
});
