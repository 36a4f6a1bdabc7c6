import { useCluster } from '../../support/network/use-cluster.ts';
import { expect, test } from '@jest/globals';
import { vips, listApiservers } from '../../support/network/layout.ts';
import { formatEndpoint } from '../../../lib/net.ts';
import { vipnat } from '../../support/host/vipnat.ts';

/** Beyond any window: conntrack calls such a segment INVALID, and TCP answers it and goes on. */
const strayBytes = 3_000_000;

/** Perl is on every Debian, and has raw sockets. It copies one segment with data of each connection, further on in the sequence. */
const program = String.raw`
my ($device, $port, $count, $stray) = @ARGV;
open my $file, '<', "/sys/class/net/$device/ifindex" or die $!;
my $index = <$file> + 0;
# linux/if_packet.h: AF_PACKET is 17, SOCK_RAW is 3, ETH_P_ALL is 3.
socket my $socket, 17, 3, unpack('S', pack('n', 3)) or die $!;
bind $socket, pack('S n i S C C a8', 17, 3, $index, 0, 0, 0, '') or die $!;
my %seen;
while (keys %seen < $count) {
  recv $socket, my $frame, 65535, 0;
  my $type = unpack 'n', substr $frame, 12, 2;
  my ($start, $addresses, $end);
  if ($type == 0x0800) {
    next if ord(substr $frame, 23, 1) != 6;
    $start = 14 + 4 * (ord(substr $frame, 14, 1) & 15);
    ($addresses, $end) = (substr($frame, 26, 8), 14 + unpack 'n', substr $frame, 16, 2);
  } elsif ($type == 0x86dd) {
    next if ord(substr $frame, 20, 1) != 6;
    ($start, $addresses) = (54, substr $frame, 22, 32);
    $end = 54 + unpack 'n', substr $frame, 18, 2;
  } else { next }
  my $segment = substr $frame, $start, $end - $start;
  my ($from, $to, $sequence) = unpack 'n n N', $segment;
  next if $from != $port or $seen{$to} or length($segment) <= 4 * (ord(substr $segment, 12, 1) >> 4);
  $seen{$to} = 1;
  substr($segment, 4, 4) = pack 'N', ($sequence + $stray) & 0xffffffff;
  substr($segment, 16, 2) = pack 'n', 0;
  my $sum = unpack '%32n*', $addresses . pack('n n', 6, length $segment) . $segment . "\0" x (length($segment) % 2);
  $sum = ($sum & 0xffff) + ($sum >> 16) while $sum > 0xffff;
  substr($segment, 16, 2) = pack 'n', ~$sum & 0xffff;
  send $socket, substr($frame, 0, $start) . $segment, 0 or die $!;
}
`;

const connections = 5;
const longestMs = 120_000;
const cluster = useCluster('each test');

/** What becomes of connections through the VIP when their apiserver sends a segment that conntrack calls INVALID on each of them. */
async function holdThroughStrays(host: string): Promise<Record<string, number>> {
  const seat = cluster.seat('outside client');
  const { held, report } = await seat.hold({ host, port: 6443 }, connections, longestMs);
  expect(held).toBe(connections);
  const words = ['perl', '-e', program, 'eth0', '6443', String(connections), String(strayBytes)];
  const { exitCode, stderr } = await cluster.run('m2', words);
  if (exitCode !== 0) throw new Error(`no stray segments: ${stderr}`);
  seat.settle();
  return (await report).errors;
}

/** Each family and each dialect. */
const cases = [
  { family: 'ipv4', dialect: 'nft' },
  { family: 'ipv4', dialect: 'none' },
  { family: 'ipv6', dialect: 'legacy' },
  { family: 'ipv6', dialect: 'none' },
] as const;

test.each(cases)(
  'a segment that conntrack calls INVALID ends no connection ($family, --iptables $dialect)',
  async ({ family, dialect }) => {
    const host = vips[family];
    const apiserver = listApiservers(family)
      .map(formatEndpoint)
      .filter((text) => /12\]?:/.test(text));
    const args = ['--iptables', dialect, '--vip', host, '--endpoints', apiserver.join()];
    expect((await vipnat(cluster, 'm1', ['run', '--once', ...args])).exitCode).toBe(0);
    expect(await holdThroughStrays(host)).toEqual({});

    // Without the rule, the VIP holder itself answers such a segment.
    const [layer, tool] = family === 'ipv6' ? ['ip6', 'ip6tables'] : ['ip', 'iptables'];
    const flush =
      dialect === 'none' ? `nft flush chain ${layer} vipnat input` : `${tool}-${dialect} -F VIPNAT-INPUT`;
    await cluster.shell('m1', flush);
    expect(await holdThroughStrays(host)).toEqual({ ECONNRESET: connections });
  },
);
