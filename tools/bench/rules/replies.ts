/**
 * What the rules about invalid replies cost a packet that is for this host (docs/design.md): round trips of a byte to a port of the last
 * of nine apiservers, whose replies meet every rule of them, with these rules and without, in turns. Run by `scripts/bench replies`;
 * prints a table.
 */
import type { Dialect } from '../../../lib/kernel/port.ts';
import type { Balance } from '../../../lib/dialect.ts';
import { parseSave } from '../../../lib/iptables/rules.ts';
import { plan } from '../../../agent/decide/plan.ts';
import type { Endpoint } from '../../../lib/net.ts';
import { Namespaces } from '../../../test/support/network/namespaces.ts';
import { boundMedian, median } from '../shared/statistics.ts';

const peer = '10.0.0.19';
const vip = { family: 'ipv4', address: '10.0.0.50', port: 6443 } as const;
const apiservers = Array.from({ length: 9 }, (_, index) => ({ ...vip, address: `10.0.0.${11 + index}` }));
const rounds = 31;
const trips = 10_000;

const server = `use IO::Socket::INET; use Socket qw(IPPROTO_TCP TCP_NODELAY);
my $listener = IO::Socket::INET->new(LocalPort => 6443, Listen => 9, ReuseAddr => 1) or die $!;
while (my $socket = $listener->accept) {
  setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
  syswrite $socket, $_ while sysread $socket, $_, 1;
}`;

/** Prints how many nanoseconds a round trip took. */
const client = `use IO::Socket::INET; use Socket qw(IPPROTO_TCP TCP_NODELAY); use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);
my $socket;
for (1 .. 500) { last if $socket = IO::Socket::INET->new(PeerAddr => '${peer}', PeerPort => 6443); select undef, undef, undef, 0.02 }
die $! unless $socket;
setsockopt $socket, IPPROTO_TCP, TCP_NODELAY, 1;
my $start = clock_gettime(CLOCK_MONOTONIC);
for (1 .. ${trips}) { syswrite $socket, '.'; sysread $socket, my $byte, 1 }
printf "%d", (clock_gettime(CLOCK_MONOTONIC) - $start) / ${trips} * 1e9;`;

/** The script that writes vipnat's rules into an empty host. */
function render(dialect: Dialect, answering: Balance['apiservers']): string {
  const balance: Balance = {
    ...{ vip, masquerade: 'own', route: { kind: 'translate', backends: apiservers } },
    ...(answering === undefined ? {} : { apiservers: answering }),
  };
  const empty =
    dialect === 'nftables'
      ? ({ family: 'ipv4', dialect, table: null } as const)
      : parseSave({ family: 'ipv4', dialect, text: '' });
  return plan({ dialect, balances: [balance] }, [empty])
    .transactions.map(({ input }) => input)
    .join('');
}

/** Each comes first as often as the other. */
async function compare(measureWith: (answering: readonly Endpoint[]) => Promise<number>) {
  const [without, withThem]: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round += 1) {
    const isTurned = round % 2 === 1;
    if (isTurned) withThem.push(await measureWith(apiservers));
    without.push(await measureWith([]));
    if (!isTurned) withThem.push(await measureWith(apiservers));
  }
  return { without, withThem, ratios: withThem.map((time, round) => time / (without[round] ?? Number.NaN)) };
}

const namespaces = new Namespaces();
try {
  const [host, other] = [await namespaces.create('replies-host'), await namespaces.create('replies-peer')];
  await namespaces.shell(
    host,
    `ip link set lo up; ip link add eth0 type veth peer name eth0 netns ${other}; ip addr add 10.0.0.2/24 dev eth0; ip link set eth0 up`,
  );
  await namespaces.shell(other, `ip addr add ${peer}/24 dev eth0; ip link set eth0 up`);
  namespaces.start(other, ['perl', '-e', server]);
  const measure = async () => Number((await namespaces.run(host, ['perl', '-e', client])).stdout);
  process.stdout.write(
    '| rules in | a round trip without them | with them | ratio (95 %) |\n| --- | ---: | ---: | ---: |\n',
  );
  for (const [dialect, tool, flush] of [
    ['nft', 'iptables-nft-restore --noflush', 'nft flush ruleset'],
    [
      'legacy',
      'iptables-legacy-restore --noflush',
      'printf "*filter\\nCOMMIT\\n*nat\\nCOMMIT\\n" | iptables-legacy-restore',
    ],
    ['nftables', 'nft -f -', 'nft flush ruleset'],
  ] as const) {
    const write = async (script: string) => {
      await namespaces.shell(host, flush);
      await namespaces.shell(host, `${tool} <<'END'\n${script}END\n`);
    };
    const { without, withThem, ratios } = await compare(async (answering) => {
      await write(render(dialect, answering));
      return await measure();
    });
    const { low, high } = boundMedian(ratios) ?? { low: Number.NaN, high: Number.NaN };
    const toText = (numbers: readonly number[]) => `${(median(numbers) / 1000).toFixed(2)} µs`;
    process.stdout.write(
      `| ${dialect} | ${toText(without)} | ${toText(withThem)} | ${median(ratios).toFixed(3)} (${low.toFixed(3)} to ${high.toFixed(3)}) |\n`,
    );
  }
} finally {
  await namespaces.close();
}
