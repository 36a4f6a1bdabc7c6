import { expect, test } from '@jest/globals';
import { ApiVips } from '../../../../balancer/report/api-vips.ts';
import { type BalancerKernel } from '../../../../lib/kernel/real/balancer-tables.ts';

// As iptables-nft-save 1.8.7 prints it on a master; the second rule of FORWARD is another program's.
const filter = `*filter
:FORWARD DROP [0:0]
:VIPNAT-FORWARD - [0:0]
-A FORWARD -m comment --comment "vipnat:Z5IpC-_QfKTeC-MZ" -j VIPNAT-FORWARD
-A FORWARD -p tcp -m conntrack --ctstate DNAT --ctorigdst 10.77.0.99 --ctorigdstport 6443 -j ACCEPT
-A VIPNAT-FORWARD -p tcp -m comment --comment "vipnat:J-tU-L9tvN28JZQP" -m conntrack --ctstate DNAT --ctorigdst 10.77.0.50 --ctorigdstport 6443 -j ACCEPT
COMMIT
`;

// As nft 1.0.6 prints it: the rules of the agent's table that name a virtual IP.
const table = `table ip6 vipnat {
	chain VIPNAT-715634d42e {
	}

	chain prerouting {
		type nat hook prerouting priority -105; policy accept;
		ip6 daddr fd00:77::50 tcp dport 6443 jump VIPNAT-715634d42e
	}
}
`;

function begin() {
  const state = { filter, tables: table, isFailing: false, changes: 0 };
  const kernel: Pick<BalancerKernel, 'readFilter' | 'readHandles' | 'listOwnTable'> = {
    readFilter: (family, dialect) => {
      if (state.isFailing) return Promise.reject(new Error('no tool'));
      const isThere = family === 'ipv4' && dialect === 'nft';
      return Promise.resolve(isThere ? { family, dialect, text: state.filter } : null);
    },
    readHandles: () => Promise.resolve({ ipv4: null, ipv6: state.tables === '' ? null : 7 }),
    listOwnTable: () => Promise.resolve(state.tables),
  };
  const vips = new ApiVips(kernel as BalancerKernel, () => {
    state.changes += 1;
  });
  return { state, vips, read: () => vips.kernel.readFilter('ipv4', 'nft', ['FORWARD']) };
}

test('virtual IPs of the API are those that rules of the agent name, in iptables and in nftables', async () => {
  const { state, vips, read } = begin();
  expect(vips.addresses).toEqual([]);
  expect(await read()).toEqual({ family: 'ipv4', dialect: 'nft', text: filter });
  expect(vips.addresses).toEqual(['10.77.0.50', 'fd00:77::50']);
  const { changes } = state;
  await read();
  expect([changes, state.changes]).toEqual([2, 2]);
});

test('they are known while nothing can be read, and go with the rules', async () => {
  const { state, vips, read } = begin();
  await read();
  state.isFailing = true;
  await expect(read()).rejects.toThrow('no tool');
  expect(vips.addresses).toHaveLength(2);
  state.isFailing = false;
  [state.filter, state.tables] = ['*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n', ''];
  await read();
  expect(vips.addresses).toEqual([]);
});
