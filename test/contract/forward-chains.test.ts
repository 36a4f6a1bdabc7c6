/** What a host has of chains for forwarded packets, as the real kernel tells it; the fake is told what it has. */
import { expect, test } from '@jest/globals';
import { useSubject } from './kinds.ts';

const subject = useSubject();

const tables = `add table inet firewall
add chain inet firewall forward { type filter hook forward priority 0; policy drop; }
add chain inet firewall input { type filter hook input priority 0; policy drop; }
add chain inet firewall forwarded
add table ip6 open
add chain ip6 open forward { type filter hook forward priority 10; policy accept; }
add table ip mangling
add chain ip mangling output { type route hook output priority 0; policy drop; }
add table ip closed
add chain ip closed forward { type filter hook forward priority 5; policy accept; }
add rule ip closed forward ct state established,related accept
add rule ip closed forward counter log prefix "no " drop
add table ip part
add chain ip part forward { type filter hook forward priority 5; policy accept; }
add rule ip part forward tcp dport 6443 accept
add rule ip part forward reject
add table bridge link
add chain bridge link forward { type filter hook forward priority 0; policy drop; }`;

const passage = 'add rule inet firewall forward ct status dnat counter accept comment "for vipnat"';

const list = async () =>
  (await subject().kernel.listForwardChains()).map(
    ({ table, name, isDropping }) => `${table} ${name} ${isDropping ? 'drops' : 'passes'}`,
  );

test('chains hooked to forwarded packets are told, with what their policies and last rules do, and no others', async () => {
  await subject().runNft(tables);
  await subject().run('ipv4', 'nft', '*filter\n:FORWARD DROP [0:0]\nCOMMIT\n');
  expect((await list()).toSorted()).toEqual([
    'bridge link forward drops',
    'inet firewall forward drops',
    'ip closed forward drops',
    'ip filter FORWARD drops',
    'ip part forward passes',
    'ip6 open forward passes',
  ]);
});

test('a rule that lets translated packets pass is seen when it comes and when it goes, and remembered without nft', async () => {
  await subject().runNft(tables);
  expect(await list()).toContain('inet firewall forward drops');
  await subject().runNft(passage);
  expect(await list()).toContain('inet firewall forward passes');
  await subject().runNft('flush chain inet firewall forward');
  expect(await list()).toContain('inet firewall forward drops');
  await subject().runNft(passage);
  expect(await list()).toContain('inet firewall forward passes');
  await subject().breakTool('nft', 'garbage');
  expect(await list()).toContain('inet firewall forward passes');
});

test('without nft there are none to be overruled by it', async () => {
  await subject().runNft(tables);
  await subject().breakTool('nft', 'missing');
  expect(await list()).toEqual([]);
});
