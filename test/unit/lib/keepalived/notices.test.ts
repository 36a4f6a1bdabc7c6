import { describe, expect, test } from '@jest/globals';
import { parseNotice } from '../../../../lib/keepalived/notices.ts';
import { linesOf, startAgent } from '../../../support/agent/running-agent.ts';

describe('a line of keepalived', () => {
  test.each([
    ['INSTANCE "vip-10.0.0.50" MASTER 250', { instance: 'vip-10.0.0.50', state: 'MASTER' }],
    // Before 2.0.11 it had no priority.
    ['INSTANCE "vip-fd00::50" FAULT', { instance: 'vip-fd00::50', state: 'FAULT' }],
    ['GROUP "vipnat" MASTER 250', null],
    ['INSTANCE "vip-10.0.0.50" MASTER_RX_LOWER_PRI 250', null],
    ['INSTANCE "vip-10.0.0.50', null],
    ['', null],
  ])('%j', (line, notice) => {
    expect(parseNotice(line)).toEqual(notice);
  });
});

describe('the agent', () => {
  test('tells each change of state once, and since when it is so, also where lines come in pieces', async () => {
    const running = startAgent();
    const { clock, notices, agent } = running;
    await clock.advance(2000);
    expect(agent.activity.keepalived).toEqual({});
    notices.say('INSTANCE "vip-10.0.0.50" BACKUP 250\nINSTANCE "vip-10.0.0.50" MAS');
    await clock.advance(600);
    notices.say('TER 250\nGROUP "vipnat" MASTER 250\nINSTANCE "vip-10.0.0.50" MASTER 250\n');
    await clock.advance(600);
    notices.say('INSTANCE "vip-10.0.0.50" FAULT 250\n');
    await clock.advance(60_000);
    const told = (level: string) => linesOf(running, level).filter((line) => line.startsWith('keepalived'));
    expect(told('info')).toEqual([
      'keepalived: vip-10.0.0.50 is BACKUP',
      'keepalived: vip-10.0.0.50 BACKUP -> MASTER',
    ]);
    expect(told('warn')).toEqual(['keepalived: vip-10.0.0.50 MASTER -> FAULT']);
    expect(agent.activity.keepalived?.['vip-10.0.0.50']?.state).toBe('FAULT');
    expect(agent.activity.keepalived?.['vip-10.0.0.50']?.forMs).toBeGreaterThan(59_000);
  });

  test('forgets what keepalived said when that has ended', async () => {
    const { clock, notices, agent } = startAgent();
    notices.say('INSTANCE "vip-10.0.0.50" MASTER 250\n');
    await clock.advance(1000);
    notices.end();
    await clock.advance(1000);
    expect(agent.activity.keepalived).toEqual({});
  });
});
