import { describe, expect, test } from '@jest/globals';
import { type ElementChange, renderElementChanges } from '../../../../../lib/kernel/netlink/nft-elements.ts';

const slots: ElementChange = {
  ...{ family: 'ipv4', table: 't', set: 's', removed: [] },
  declaration: 'typeof numgen inc mod 2 : ip daddr . tcp dport',
  added: [['6', '10.128.0.10 . 8080']],
};

/** Types of messages, and their payloads without family, table and set. */
function render(change: Partial<ElementChange>) {
  const orders = renderElementChanges([{ ...slots, ...change }]);
  return orders?.map(({ type, payload, isCreation }) => [
    type & 0xff,
    isCreation,
    payload.subarray(20).toString('hex'),
  ]);
}

test('an element is the bytes that nft 1.0.6 sends for it', () => {
  expect(render({})).toEqual([
    [
      12,
      true,
      '2400038020000180' + '0c00018008000100' + '06000000' + '100002800c000100' + '0a80000a1f900000',
    ],
  ]);
  const [order] = renderElementChanges([slots]) ?? [];
  expect(order?.payload.subarray(0, 20).toString('hex')).toBe(
    '02000000' + '0600010074000000' + '0600020073000000',
  );
});

test('what goes comes before what comes, with its key alone', () => {
  expect(render({ removed: ['6'] })?.map(([type, isCreation]) => [type, isCreation])).toEqual([
    [14, false],
    [12, true],
  ]);
  expect(render({ removed: ['6'], added: [] })?.[0]?.[2]).toBe(
    '1400038010000180' + '0c00018008000100' + '06000000',
  );
});

test.each([
  {
    declaration: 'typeof numgen inc mod 2 : ip6 daddr . udp dport',
    element: ['7', 'fd00::9 . 53'],
    bytes: ['07000000', 'fd000000000000000000000000000009' + '00350000'],
  },
  {
    declaration: 'type ipv4_addr . inet_proto . inet_service : ipv4_addr',
    element: ['10.0.9.10 . 6 . 80', '10.0.0.1'],
    bytes: ['0a00090a' + '06000000' + '00500000', '0a000001'],
  },
] as const)('$declaration is encoded as it is in packets', ({ declaration, element, bytes }) => {
  const [[, , payload] = []] = render({ declaration, added: [element] }) ?? [];
  for (const part of bytes) expect(payload).toContain(part);
});

describe('nft is needed', () => {
  test.each([
    'type ipv4_addr . inet_proto . inet_service : verdict',
    'type ipv4_addr; flags interval',
    'type ifname : ipv4_addr',
    '',
  ])('for %s', (declaration) => {
    expect(renderElementChanges([slots, { ...slots, declaration }])).toBeNull();
  });

  test('for more than 1,000 elements; less are split, as an attribute takes 64 kB', () => {
    const added = Array.from({ length: 1001 }, (_, at) => [String(at), `10.0.0.1 . ${at}`] as const);
    expect(render({ added })).toBeUndefined();
    expect(render({ added: added.slice(1) })).toHaveLength(2);
  });
});
