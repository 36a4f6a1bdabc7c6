import { type FakeKernel } from '../../../support/fakes/kernel.ts';
import { runEdit } from '../../property/strangers.ts';
import { listRules } from '../../property/tables.ts';
import { isToolRefusing } from '../../../support/fakes/refusal.ts';
import { nft } from './small-world.ts';

/** What the stranger of the small world can do; nothing where there is nothing to do it to. */
export const deeds: Readonly<Record<string, (kernel: FakeKernel) => void>> = {
  'flushes the nat table': (kernel) => {
    kernel.run('ipv4', 'nft', '*nat\n-F\nCOMMIT\n');
  },
  'deletes our hook in nat PREROUTING': (kernel) => {
    deleteHook(kernel, 'nat', 'PREROUTING');
  },
  'deletes our hook in filter FORWARD': (kernel) => {
    deleteHook(kernel, 'filter', 'FORWARD');
  },
  'puts a rule before our hook in OUTPUT': (kernel) => {
    const [first] = listRules(kernel, nft, 'nat', 'OUTPUT');
    if (first !== rival) kernel.run('ipv4', 'nft', `*nat\n-I OUTPUT ${rival}\nCOMMIT\n`);
  },
  'edits the first rule of the VIP’s chain': (kernel) => {
    runEdit(kernel, { ...nft, at: 0, kind: 'redirect' });
  },
  'empties our own table’s prerouting': (kernel) => {
    runNft(kernel, 'flush chain ip vipnat prerouting');
  },
  'deletes our own table': (kernel) => {
    runNft(kernel, 'delete table ip vipnat');
  },
};

const rival = '-d 10.0.0.0/8 -p tcp -m comment --comment "strange" -j ACCEPT';

function deleteHook(kernel: FakeKernel, table: string, chain: string): void {
  const hook = listRules(kernel, nft, table, chain).find((rule) => rule.includes('vipnat:'));
  if (hook !== undefined) kernel.run('ipv4', 'nft', `*${table}\n-D ${chain} ${hook}\nCOMMIT\n`);
}

function runNft(kernel: FakeKernel, script: string): void {
  isToolRefusing(() => {
    kernel.runNft(script);
  });
}
