import { describe, test, expect } from '@jest/globals';
import { tell, withConfiguration, keepalivedText } from '../../support/doctor/well-host.ts';

const bootLines = [
  '# to create the file at every boot: unless /etc/tmpfiles.d or /usr/lib/tmpfiles.d has a vipnat.conf, write',
  '# these lines to /etc/tmpfiles.d/vipnat-serving.conf:',
  '#   d /run/vipnat 0755 root root -',
  '#   d /run/vipnat/keepalived 0755 root root -',
  '#   f /run/vipnat/keepalived/serving 0644 root root - 0',
];

describe('a track file that says 1', () => {
  const trackFile = { value: { content: '1', isWatched: true } };

  test("is nobody's business while an agent runs", async () => {
    expect(await tell({ trackFile })).toEqual([]);
  });

  test('is a failure where no agent could take it back, unless the host is drained', async () => {
    const drain = { value: { since: new Date(), vipStaysSince: null } };
    expect(await tell({ trackFile, agent: null, drain })).toMatchObject([{ code: 'agent-not-running' }]);
    const told = await tell({ trackFile, agent: null });
    const remedy = ['echo 0 > /run/vipnat/keepalived/serving'];
    expect(told).toMatchObject([
      { code: 'track-file-stale', level: 'fail', remedy },
      { code: 'agent-not-running' },
    ]);
  });

  test('is taken back before a keepalived is made to go by it that did without', async () => {
    const told = await tell({ trackFile: { value: { content: '1', isWatched: false } }, agent: null });
    const [dropped] = told.filter(({ code }) => code === 'track-file-dropped');
    expect(dropped).toMatchObject({
      remedy: [
        'mkdir -p /run/vipnat/keepalived',
        'echo 0 > /run/vipnat/keepalived/serving',
        'kill -HUP 7',
        ...bootLines,
      ],
    });
  });

  test('is not looked at where keepalived is not to follow it', async () => {
    const changed = withConfiguration(keepalivedText.replace('track_file {', 'x {'));
    const told = await tell({ trackFile, agent: null, ...changed });
    const levels = told.filter(({ code }) => code.startsWith('track-file')).map(({ level }) => level);
    expect(levels).toEqual(['skipped', 'skipped']);
  });
});

test('a keepalived that is to follow the file gets it at boot, by a file that takes no other one’s place', async () => {
  const told = await tell(withConfiguration(keepalivedText.replaceAll('/run/vipnat', '/run/elsewhere')));
  const [untracked] = told.filter(({ code }) => code === 'keepalived-untracked');
  expect(untracked).toMatchObject({ remedy: expect.arrayContaining([...bootLines]) as unknown });
});
