import { readdirSync, readFileSync } from 'node:fs';
import { describe, test, expect } from '@jest/globals';
import { FakeKernel } from '../../support/fakes/kernel.ts';
import { FakeClock } from '../../support/fakes/clock.ts';

const captures = new URL('../../support/fixtures/captures/', import.meta.url);
const saves = readdirSync(captures).filter((name) => /^ip6?tables-\w+-save/.test(name));
const query = { families: ['ipv4'], dialects: ['nft'], nftServiceChain: 'service-x' } as const;
const source = { family: 'ipv4', dialect: 'nft' } as const;

describe('the fake kernel', () => {
  test.each(saves)("prints kube-proxy's rules as the real tools printed them: %s", (name) => {
    const family = name.startsWith('ip6') ? 'ipv6' : 'ipv4';
    const dialect = name.includes('legacy') ? 'legacy' : 'nft';
    const kernel = new FakeKernel(new FakeClock());
    const capture = readFileSync(new URL(name, captures), 'utf8');
    kernel.run(family, dialect, capture);
    expect(toTables(kernel.show(family, dialect))).toEqual(toTables(capture));
  });

  test.each([
    ['a policy', '*filter\n-P FORWARD DROP\nCOMMIT\n'],
    ['a policy by declaration', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n'],
    ['a delete by index', '*nat\n-D VIPNAT 1\nCOMMIT\n'],
    ['a foreign chain', '*nat\n-A KUBE-SERVICES -j VIPNAT\nCOMMIT\n'],
    ['a whole kernel chain', '*nat\n-F PREROUTING\nCOMMIT\n'],
    ['a foreign rule', '*nat\n-D PREROUTING -j DOCKER\nCOMMIT\n'],
    ['a chain without hooks', '*filter\n-I OUTPUT -j VIPNAT\nCOMMIT\n'],
    ['a script without its end', '*nat\n:VIPNAT - [0:0]\n'],
    ['a script without its last newline', '*nat\nCOMMIT'],
  ])('holds against the product that it writes %s', async (_, input) => {
    const kernel = new FakeKernel(new FakeClock());
    await kernel.read(query);
    await expect(kernel.apply({ ...source, input })).rejects.toThrow('broke its promises');
    expect(kernel.breaches).toHaveLength(1);
  });

  test('holds against the product that it writes what it has not read since its last write', async () => {
    const kernel = new FakeKernel(new FakeClock());
    const transaction = { ...source, input: '*nat\n:VIPNAT - [0:0]\nCOMMIT\n' };
    await expect(kernel.apply(transaction)).rejects.toThrow('I1');
    await kernel.read(query);
    await kernel.apply(transaction);
    await expect(kernel.apply(transaction)).rejects.toThrow('I1');
  });
});

/** Table by table, for a restored capture's tables are newer than each other in another order. */
function toTables(save: string): string[] {
  const lines = save.replace(/^#.*\n|\[\d+:\d+\]/gm, '');
  return lines
    .split(/^(?=\*)/m)
    .filter((table) => table.trim() !== '')
    .sort();
}
