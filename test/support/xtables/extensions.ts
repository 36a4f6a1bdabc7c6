/** Option to the number of its values, in the order in which the tools print the options. */
export type Options = Readonly<Record<string, number>>;

/** `--to-ports=1 --random`: one with a value, and one with none. */
function readOptions(text: string): Options {
  const pairs = (text.match(/\S+/g) ?? []).map((option) => option.split('='));
  return Object.fromEntries(pairs.map(([name = '', count = '0']) => [name, Number(count)] as const));
}

const ports = '--sport=1 --dport=1';
const tracked =
  '--ctstate=1 --ctproto=1 --ctorigsrc=1 --ctorigdst=1 --ctreplsrc=1 --ctrepldst=1 --ctorigsrcport=1 ' +
  '--ctorigdstport=1 --ctreplsrcport=1 --ctrepldstport=1 --ctstatus=1 --ctdir=1';
const recent =
  '--set --rcheck --update --remove --seconds=1 --reap --hitcount=1 --name=1 --mask=1 --rsource --rdest';

const toOptions = (nameToText: Readonly<Record<string, string>>): Readonly<Record<string, Options>> =>
  Object.fromEntries(Object.entries(nameToText).map(([name, text]) => [name, readOptions(text)]));

/** The matches the fake knows, as iptables 1.8.9 has them; any other is refused as not to be loaded. */
export const matchToOptions = toOptions({
  comment: '--comment=1',
  tcp: `${ports} --tcp-flags=2 --syn`,
  udp: ports,
  statistic: '--mode=1 --probability=1 --every=1 --packet=1',
  cluster: '--cluster-local-nodemask=1 --cluster-total-nodes=1 --cluster-hash-seed=1',
  conntrack: tracked,
  state: '--state=1',
  mark: '--mark=1',
  connmark: '--mark=1',
  addrtype: '--src-type=1 --dst-type=1 --limit-iface-in --limit-iface-out',
  recent,
  set: '--match-set=2',
  multiport: '--sports=1 --dports=1 --ports=1',
  nfacct: '--nfacct-name=1',
  limit: '--limit=1 --limit-burst=1',
  owner: '--uid-owner=1 --gid-owner=1',
});

const natRange = '--random --random-fully --persistent';

/** The targets the fake knows; any other name must be that of a chain. */
export const targetToOptions = toOptions({
  ...{ ACCEPT: '', DROP: '', RETURN: '', QUEUE: '', NOTRACK: '', TRACE: '' },
  DNAT: `--to-destination=1 ${natRange}`,
  SNAT: `--to-source=1 ${natRange}`,
  MASQUERADE: `--to-ports=1 ${natRange}`,
  REDIRECT: `--to-ports=1 ${natRange}`,
  REJECT: '--reject-with=1',
  MARK: '--set-xmark=1 --set-mark=1 --or-mark=1 --and-mark=1 --xor-mark=1',
  CONNMARK: '--set-xmark=1 --save-mark --restore-mark',
  LOG: '--log-prefix=1 --log-level=1',
  NFLOG: '--nflog-prefix=1 --nflog-group=1',
  SET: '--add-set=2 --del-set=2 --exist',
  TCPMSS: '--set-mss=1 --clamp-mss-to-pmtu',
});

/** Targets that only the table nat takes. */
export const natTargets = new Set(['DNAT', 'SNAT', 'MASQUERADE', 'REDIRECT']);

/** Long and old names to the ones the tools print. */
export const aliases: Readonly<Record<string, string>> = {
  ...{ '--source': '-s', '--src': '-s', '--destination': '-d', '--dst': '-d' },
  ...{ '--in-interface': '-i', '--out-interface': '-o', '--protocol': '-p', '--proto': '-p' },
  ...{ '--match': '-m', '--jump': '-j', '--goto': '-g' },
  ...{ '--source-port': '--sport', '--destination-port': '--dport' },
};
